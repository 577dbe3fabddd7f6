// Tests on a recorded decoder that matmuls which add to sums of gradients (the pass add_products) give the same
// gradients and losses, with fewer bytes. The op for float32 sums runs on the CPU too.
#include <gtest/gtest.h>
#include <torch/library.h>
#include <torch/types.h>

#include <algorithm>
#include <set>

#include "device/backend.h"
#include "ops/fused/op_forms.h"
#include "ops/libtorch_types.h"
#include "plan/placement/validator.h"
#include "plimsoll/models.h"
#include "plimsoll/planner.h"
#include "plimsoll/training.h"
#include "run/executor/executor.h"
#include "run/training_runs.h"

namespace plimsoll {
namespace {

Trace recorded_decoder(Precision precision) {
  DecoderConfig config;
  config.vocab_size = 64;
  config.hidden_size = 32;
  config.num_layers = 2;
  config.num_heads = 2;
  TrainingOptions options;
  options.precision = precision;
  options.accumulate = true;
  return record_step(decoder_step(config, 2, 16), options);
}

struct Gradients {
  std::vector<at::Tensor> sums;
  std::vector<double> losses;
};

// Runs two micro batches of the plan on the CPU.
Gradients run(const Plan& plan) {
  Backend& backend = cpu_backend();
  const auto arena = backend.allocate_arena(plan.arena_bytes);
  Executor executor(plan, backend, *arena);
  executor.run(*plan.trace.segment(SegmentKind::initialize), {.seed = 3});
  Gradients gradients;
  torch::manual_seed(5);
  for (const SegmentKind kind : {SegmentKind::micro, SegmentKind::accumulate}) {
    for (const NamedView& input : plan.trace.inputs) {
      const at::Tensor tensor = executor.tensor(input.view);
      tensor.dim() == 0 ? at::Tensor(tensor).fill_(1) : at::Tensor(tensor).copy_(torch::randint(64, tensor.sizes()));
    }
    executor.run(*plan.trace.segment(kind), {.seed = 3});
    gradients.losses.push_back(executor.tensor(Trace::find(plan.trace.outputs, "loss")->view).item<double>());
  }
  std::set<BufferId> sums;  // gradients that the last segment adds to
  const Segment& last = *plan.trace.segment(SegmentKind::accumulate);
  for (int32_t i = last.begin; i < last.end; ++i)
    for_each_view(plan.trace.ops[i], [&](const View& view, bool written) {
      const bool sum = written && plan.trace.buffers[view.buffer].role == Role::gradient;
      if (sum && view.dtype == DType::float32) sums.insert(view.buffer);
    });
  for (const BufferId b : sums)
    gradients.sums.push_back(
        executor.tensor({b, DType::float32, 0, {plan.trace.buffers[b].bytes / 4}, {1}}).clone().to(at::kDouble));
  return gradients;
}

TEST(AddProductsRun, GradientsAndLossesAreTheSame) {
  const Trace trace = recorded_decoder(Precision::fp32_true);
  PlanOptions options;
  const Plan before = make_plan(trace, options);
  options.product_sum = product_sum_cuda;
  const Plan plan = make_plan(trace, options);
  EXPECT_EQ(find_fault(plan), "");
  // Four matrices a layer; the embedding's gradient is no matmul's alone.
  EXPECT_EQ(std::ranges::count(plan.trace.ops, "aten::addmm_", &Op::name), 2 * 4);
  const auto moved = [](const Plan& of) {
    int64_t bytes = 0;
    const Segment& segment = *of.trace.segment(SegmentKind::accumulate);
    for (int32_t i = segment.begin; i < segment.end; ++i) bytes += of.trace.ops[i].bytes_moved;
    return bytes;
  };
  EXPECT_LT(moved(plan), moved(before));
  const Gradients want = run(before), got = run(plan);
  EXPECT_EQ(got.losses, want.losses);  // losses of the same weights do not depend on gradients
  ASSERT_EQ(got.sums.size(), want.sums.size());
  ASSERT_GE(got.sums.size(), 2u * 4u);
  // The sum is rounded once less: float32's 6e-8 of each addend.
  for (size_t i = 0; i < want.sums.size(); ++i)
    EXPECT_LE((got.sums[i] - want.sums[i]).abs().max().item<double>(), 1e-6 * want.sums[i].abs().max().item<double>());
}

at::Tensor& add_product(const at::Tensor& sum, const at::Tensor& a, const at::Tensor& b, at::ScalarType type,
                        const at::Scalar& beta, const at::Scalar& alpha, at::Tensor& out) {
  return at::addmm_out(out, sum, a.to(type), b.to(type), beta, alpha);
}
at::Tensor& wide_product(const at::Tensor& a, const at::Tensor& b, at::ScalarType type, at::Tensor& out) {
  return at::mm_out(out, a.to(type), b.to(type));
}

TEST(AddProductsRun, GradientsOfMixedPrecisionAreTheSame) {
  // libtorch has these ops for CUDA only, where cuBLAS adds 16-bit matmuls to float32 sums.
  torch::Library aten(torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__, __LINE__);
  aten.impl("addmm.dtype_out", add_product);
  aten.impl("mm.dtype_out", wide_product);
  const Trace trace = recorded_decoder(Precision::bf16_mixed);
  PlanOptions options;
  const Plan before = make_plan(trace, options);
  options.product_sum = product_sum_cuda;
  const Plan plan = make_plan(trace, options);
  const Gradients want = run(before), got = run(plan);
  EXPECT_EQ(got.losses, want.losses);
  ASSERT_EQ(got.sums.size(), want.sums.size());
  ASSERT_GE(got.sums.size(), 2u * 4u);
  // The product is not rounded to bfloat16, whose unit is 2^-8 of a number.
  double largest = 0;
  for (size_t i = 0; i < want.sums.size(); ++i) {
    const double difference = (got.sums[i] - want.sums[i]).abs().max().item<double>();
    EXPECT_LE(difference, want.sums[i].abs().max().item<double>() / 128) << i;
    largest = std::max(largest, difference);
  }
  EXPECT_GT(largest, 0);
}

// In mixed precision the 16-bit product, and its copy in float32, are never stored.
TEST(AddProductsRun, MixedPrecisionAddsIntoFloat32) {
  const Trace trace = recorded_decoder(Precision::bf16_mixed);
  PlanOptions options;
  options.product_sum = product_sum_cuda;
  const Plan plan = make_plan(trace, options);
  EXPECT_EQ(find_fault(plan), "");
  EXPECT_EQ(std::ranges::count(plan.trace.ops, "aten::addmm.dtype_out", &Op::name), 2 * 4);
  EXPECT_EQ(std::ranges::count(plan.trace.ops, "aten::mm.dtype_out", &Op::name), 2 * 4);  // of the first micro batch
  for (const Op& op : plan.trace.ops) {
    if (!op.name.ends_with("dtype_out")) continue;
    EXPECT_EQ(op.arguments.back().views[0].dtype, DType::float32);
    EXPECT_EQ(op.call->constants.size(), op.arguments.size());
    EXPECT_EQ(op.call->op.schema().arguments().size(), op.arguments.size());
  }
}

// Without accumulation each gradient is used by its update only, and nothing is added.
TEST(AddProductsRun, OneMicroBatchIsUnchanged) {
  DecoderConfig config;
  config.vocab_size = 64;
  config.hidden_size = 32;
  config.num_layers = 2;
  config.num_heads = 2;
  const Trace trace = record_step(decoder_step(config, 2, 16), {.precision = Precision::bf16_mixed});
  PlanOptions options;
  const size_t ops = make_plan(trace, options).trace.ops.size();
  options.product_sum = product_sum_cuda;
  EXPECT_EQ(make_plan(trace, options).trace.ops.size(), ops);
}

}  // namespace
}  // namespace plimsoll
