#include "run/training_parts.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <memory>

#include "collectives/exchange.h"
#include "collectives/nccl_memory.h"
#include "collectives/shared_block.h"
#include "device/kernel_scratch.h"
#include "ops/attention/attention.h"
#include "record/plan_device.h"
#include "record/recorder.h"

namespace plimsoll {
namespace {

int64_t library_bytes(const char* device, int64_t ranks) {
  TrainingOptions options;
  options.device = device;
  options.ranks.count = ranks;
  options.budget.library = 1000;
  return plan_options_of(options, nullptr, nullptr).budget.library;
}

TEST(PlanOptions, SeveralNvidiaDevicesLeaveMemoryToNccl) {
  EXPECT_EQ(library_bytes("cuda", 1), 1000);
  EXPECT_EQ(library_bytes("cuda", 4), 1000 + nccl_bytes(4));
  EXPECT_EQ(library_bytes("rocm", 4), 1000);
}

// Attention needs more scratch the more multiprocessors share it.
TEST(PlanOptions, AnNvidiaDeviceThatIsNotHereMayHaveAnyNumberOfMultiprocessors) {
  Recorder recorder;
  recorder.begin_segment(SegmentKind::micro);
  {
    const PlanScope scope;
    const at::Tensor q = torch::zeros({1, 2, 2048, 64}, torch::kBFloat16);
    ops::attention(q, q, q);
  }
  const Trace trace = recorder.finish();
  const Op& attention = trace.ops.back();
  TrainingOptions options;
  options.device = "cuda";
  const auto planned = plan_options_of(options, nullptr, nullptr).workspace(attention);
  ASSERT_TRUE(planned);
  for (const int multiprocessors : {1, 16, 72, 108, 132})
    EXPECT_GE(*planned, cuda_workspace_model(multiprocessors)(attention)) << multiprocessors;
  EXPECT_GT(*planned, cuda_workspace_model(1)(attention));
  // A card without flash kernels holds scores: float32 and 16 bits for each of a block.
  options.cost.gpu.flash_attention = false;
  const auto old_card = plan_options_of(options, nullptr, nullptr).workspace(attention);
  EXPECT_EQ(old_card, cuda_workspace_model(0, /*flash_attention=*/false)(attention));
  EXPECT_NE(old_card, planned);
}

// For example, Gloo's buffers for messages are larger than a rank's share of the memory of one host.
TEST(PlanOptions, WhatTheExchangeHoldsIsPlannedOnTheCpu) {
  struct Holding : Exchange {
    int rank() const override { return 0; }
    int size() const override { return 2; }
    void reduce_scatter(const at::Tensor&, const at::Tensor&, bool) override {}
    void all_reduce(const at::Tensor&, const at::Tensor&, bool) override {}
    void all_gather(const at::Tensor&) override {}
    void broadcast(const at::Tensor&, int) override {}
    std::vector<std::string> gather_text(std::string_view) override { return {}; }
    void note(std::string_view) override {}
    void fail(std::string_view) noexcept override {}
    int64_t bytes_sent() const override { return 0; }
    int64_t held_bytes() const override { return 12345; }
  };
  TrainingOptions options;
  options.ranks.count = 2;
  options.budget.library = 1000;
  EXPECT_EQ(plan_options_of(options, nullptr, nullptr).budget.library, 1000 + SharedBlock::bytes(2) / 2);
  options.exchange = std::make_shared<Holding>();
  EXPECT_EQ(plan_options_of(options, nullptr, nullptr).budget.library, 1000 + 12345);
}

}  // namespace
}  // namespace plimsoll
