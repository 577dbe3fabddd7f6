// Tests a kernel that needs more scratch than its rule says, as a kernel of another library may on an untested
// processor.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/library.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "ops/kernels_cpu.h"
#include "ops/layers/swiglu.h"
#include "ops/op_support.h"
#include "plimsoll/error.h"
#include "plimsoll/models.h"
#include "plimsoll/training.h"
#include "refusals.h"
#include "run/training_runs.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::RunResult;
using testing::token_batch;
using testing::train;

int64_t greed = 0;           // bytes in addition to the rule of swiglu, which is zero
bool only_for_data = false;  // not for the zeros on which kernels are measured
int64_t calls = 0;

at::Tensor greedy_swiglu(const at::Tensor& gate_up) {
  ++calls;
  const at::Tensor result = ops::gated_result("plimsoll::swiglu", gate_up);
  at::Tensor scratch;
  const bool zeros = gate_up.flatten().slice(0, 0, 1).item<float>() == 0;
  if (!only_for_data || !zeros) scratch = at::empty({greed}, at::kByte).fill_(1);
  at::parallel_for(0, ops::row_count(result), 1, [&](int64_t begin, int64_t end) {
    ops::swiglu_rows(ops::const_rows(gate_up), ops::rows(result), result.size(-1), begin, end);
  });
  return result;
}

/// Replaces the CPU's kernel of swiglu by the greedy one.
class Greedy : public ::testing::Test {
 protected:
  void take(int64_t bytes, bool of_data_only = false) {
    greed = bytes;
    only_for_data = of_data_only;
    calls = 0;
    library_ =
        std::make_unique<torch::Library>(torch::Library::IMPL, "plimsoll", c10::DispatchKey::CPU, __FILE__, __LINE__);
    library_->impl("swiglu", greedy_swiglu);
  }

 private:
  std::unique_ptr<torch::Library> library_;
};

constexpr int64_t kGreed = 3 << 20;

Step two_layer_decoder() {
  DecoderConfig config;
  config.vocab_size = 128;
  config.hidden_size = 32;
  config.num_layers = 2;
  config.num_heads = 2;
  return decoder_step(config, 2, 16);
}

TEST_F(Greedy, IsFoundOutBeforeTheStartAndPlanned) {
  const RunResult modest = train(two_layer_decoder(), {}, 1, 3, 16, 128);
  take(kGreed);
  TrainingOptions options;
  options.budget.device = modest.minimum_budget;
  Training refused(two_layer_decoder(), options);
  EXPECT_FALSE(refused.plan().fits);  // by the plan before the start
  const int64_t tried = calls;
  EXPECT_GT(tried, 0);
  EXPECT_THAT(refusal_of([&] { refused.start(); }), AllOf(HasSubstr("does not fit"), HasSubstr("needs at least")));
  EXPECT_EQ(calls, tried);  // none of it was run

  options.budget.device = refused.minimum_budget_bytes();
  EXPECT_GT(*options.budget.device, modest.minimum_budget + kGreed / 2);
  const RunResult planned = train(two_layer_decoder(), options, 1, 3, 16, 128);
  EXPECT_EQ(planned.losses, modest.losses);
  EXPECT_LE(planned.used.measured_peak(), *options.budget.device);
  EXPECT_EQ(planned.used.workspace, 0);  // all of its scratch was in the arena
}

// An op larger than the plan measures is measured at the start.
TEST_F(Greedy, OfALargeOpIsFoundOutAtTheStart) {
  struct Wide : torch::nn::Module {
    torch::nn::Linear in = register_module("in", torch::nn::Linear(torch::nn::LinearOptions(8, 4096).bias(false)));
  };
  Step step;
  step.model = [] { return std::make_shared<Wide>(); };
  step.inputs = {{"x", {6000, 8}, torch::kFloat32}};
  step.loss = [](torch::nn::Module& module, const StepInputs& in) {
    return ops::swiglu(static_cast<Wide&>(module).in(in["x"])).mean();
  };
  TrainingOptions options;
  Training modest(step, options);
  options.budget.device = modest.minimum_budget_bytes();
  // Its scratch must show at the peak, which is at another op.
  take(*options.budget.device);
  Training refused(step, options);
  ASSERT_TRUE(refused.plan().fits);
  EXPECT_EQ(calls, 0);
  EXPECT_THAT(refusal_of([&] { refused.start(); }), AllOf(HasSubstr("does not fit"), HasSubstr("scratch")));
  EXPECT_FALSE(refused.plan().fits);
  EXPECT_GT(refused.minimum_budget_bytes(), *options.budget.device);
}

// Scratch that only data causes is counted in its step, and planned from then on; or the run ends.
TEST_F(Greedy, WithDataOnlyIsNoticedAndPlannedFromThenOn) {
  Training modest(two_layer_decoder(), {});
  modest.start();
  const int64_t minimum = modest.minimum_budget_bytes(), peak = modest.plan().peak_bytes;
  take(kGreed, /*of_data_only=*/true);
  Training training(two_layer_decoder(), {});
  training.start();
  EXPECT_EQ(training.plan().peak_bytes, peak);
  std::vector<int64_t> requested;
  for (int i = 0; i < 3; ++i) {
    training.step({token_batch(2, 16, 128)}, 1e-3);
    requested.push_back(training.used().out_of_arena_allocations);
  }
  EXPECT_GT(requested[0], 0);
  EXPECT_EQ(requested[2], requested[1]);  // from the arena since
  EXPECT_GT(training.plan().peak_bytes, peak);
  EXPECT_EQ(training.plan().peak_bytes, training.used().arena);

  TrainingOptions options;
  options.budget.device = minimum;
  Training ended(two_layer_decoder(), options);
  ended.start();
  try {
    ended.step({token_batch(2, 16, 128)}, 1e-3);
    FAIL() << "it went on beyond its budget";
  } catch (const UserError& error) {
    EXPECT_EQ(error.kind(), UserError::Kind::does_not_fit);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("plimsoll::swiglu"), HasSubstr("scratch"), HasSubstr("needs at least")));
  }
}

}  // namespace
}  // namespace plimsoll
