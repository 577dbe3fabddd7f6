// Tests norms with their sums as one op and as two, over precisions and all features that reorder a step: the same
// losses and the same state, bit for bit.
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include <algorithm>
#include <functional>
#include <map>

#include "ops/layers/rms_norm.h"
#include "plan/placement/validator.h"
#include "plimsoll/models.h"
#include "plimsoll/training.h"
#include "run/equality.h"
#include "run/training_runs.h"

namespace plimsoll {
namespace {

using testing::RunResult;
using testing::train;

constexpr std::string_view kAddRmsNorm = "fused: add, rms_norm", kRmsNormBackwardAdd = "fused: rms_norm_backward, add";
constexpr int kDecoderLayers = 3;

struct Case {
  std::string name;
  std::function<void(DecoderConfig&, TrainingOptions&)> change;
  int micro = 1;
  bool every_pair = true;  ///< all existing pairs can be fused: two a layer each way
};

class FuseNorms : public ::testing::TestWithParam<std::tuple<Precision, Case>> {
 protected:
  FuseNorms() {
    // Rows that end in the midst of a vector.
    config_.vocab_size = 512;
    config_.hidden_size = 72;
    config_.num_layers = kDecoderLayers;
    config_.num_heads = 2;
    options_.precision = std::get<0>(GetParam());
    options_.threads = 1;
    const Case& what = std::get<1>(GetParam());
    options_.accumulate = what.micro > 1;
    if (what.change) what.change(config_, options_);
  }

  RunResult run(Choice compile) {
    options_.compile = compile;
    return train(decoder_step(config_, 2, 64), options_, std::get<1>(GetParam()).micro, 3);
  }

  DecoderConfig config_;
  TrainingOptions options_;
};

int64_t count(const Plan& plan, std::string_view name, SegmentKind segment = SegmentKind::micro) {
  const Segment* found = plan.trace.segment(segment);
  return std::count_if(plan.trace.ops.begin() + found->begin, plan.trace.ops.begin() + found->end,
                       [&](const Op& op) { return op.name == name; });
}

void expect_same(const RunResult& got, const RunResult& want) {
  EXPECT_EQ(got.losses, want.losses);
  EXPECT_EQ(got.norms, want.norms);
  ASSERT_EQ(got.state.size(), want.state.size());
  for (const auto& [name, tensor] : want.state) EXPECT_TRUE(testing::same_bits(got.state.at(name), tensor)) << name;
  EXPECT_EQ(find_fault(got.plan), "");
  EXPECT_LE(got.used.measured_peak(), got.plan.peak_bytes);
}

TEST_P(FuseNorms, LossesStay) {
  const RunResult plain = run(Choice::off);
  for (const auto name : {kAddRmsNorm, kRmsNormBackwardAdd}) EXPECT_EQ(count(plain.plan, name), 0);
  for (const Choice compile : {Choice::automatic, Choice::on}) {
    const RunResult fused = run(compile);
    expect_same(fused, plain);
    EXPECT_GT(count(fused.plan, kRmsNormBackwardAdd), 0);
    if (compile != Choice::on || !std::get<1>(GetParam()).every_pair) continue;
    // The first norm is not of a sum; the last one's gradient is the only one of its stream.
    EXPECT_EQ(count(fused.plan, kAddRmsNorm), 2 * kDecoderLayers);
    EXPECT_EQ(count(fused.plan, kRmsNormBackwardAdd), 2 * kDecoderLayers);
    EXPECT_EQ(fused.used.out_of_arena_allocations, 0);
    if (!options_.accumulate) continue;
    EXPECT_EQ(count(fused.plan, kRmsNormBackwardAdd, SegmentKind::accumulate), 2 * kDecoderLayers);
  }
}

// With values offloaded and recomputed, and updates of each parameter in between.
class FuseNormsUnderABudget : public FuseNorms {};

TEST_P(FuseNormsUnderABudget, LossesStay) {
  const RunResult plain = run(Choice::off);
  options_.budget.host = plain.plan.peak_bytes * 4;
  for (const Choice compile : {Choice::automatic, Choice::on}) {
    options_.compile = compile;
    options_.budget.device = 1;
    const int64_t least = Training(decoder_step(config_, 2, 64), options_).minimum_budget_bytes();
    options_.budget.device = std::max(least, plain.plan.peak_bytes * 7 / 10);
    const RunResult lean = run(compile);
    expect_same(lean, plain);
    EXPECT_LE(lean.used.measured_peak(), *options_.budget.device);
  }
}

// Both gradients of the norm's op are one parameter's, and the sum is theirs.
TEST(FuseNormsOfItself, AParameterThatIsItsOwnWeight) {
  struct Own : torch::nn::Module {
    torch::Tensor weight = register_parameter("weight", torch::linspace(-1, 1, 32));
  };
  Step step;
  step.model = [] { return std::make_shared<Own>(); };
  step.inputs = {{"x", {32}, torch::kFloat32}};
  step.loss = [](torch::nn::Module& module, const StepInputs& in) {
    const torch::Tensor& weight = static_cast<Own&>(module).weight;
    return (ops::rms_norm(weight, weight) * in["x"]).sum();
  };
  std::vector<double> losses;
  for (const Choice compile : {Choice::off, Choice::automatic, Choice::on}) {
    Training training(step, {.compile = compile});
    training.start();
    double sum = 0;
    for (int i = 0; i < 3; ++i) sum += training.step({{{"x", torch::arange(32) / 8.0f}}}, 1e-2).loss;
    losses.push_back(sum);
  }
  EXPECT_EQ(losses[1], losses[0]);
  EXPECT_EQ(losses[2], losses[0]);
}

std::vector<Case> cases() {
  return {
      {"Plain", nullptr},
      {"Accumulated", nullptr, 3},
      {"UpdatedInBackward",
       [](DecoderConfig&, TrainingOptions& options) {
         options.update_in_backward = Choice::on;
         options.max_grad_norm = 0;
       }},
      {"TwoThreads", [](DecoderConfig&, TrainingOptions& options) { options.threads = 2; }},
      {"Recomputed", [](DecoderConfig&, TrainingOptions& options) { options.gradient_checkpointing = Choice::on; }, 1,
       false},
      {"WithDropout", [](DecoderConfig& config, TrainingOptions&) { config.dropout = 0.1; }, 1, false},
      {"WithPostNorms",
       [](DecoderConfig& config, TrainingOptions&) {
         config.post_norms = true;
         config.qk_norm = true;
       },
       1, false},
  };
}

std::string name_of(const ::testing::TestParamInfo<std::tuple<Precision, Case>>& info) {
  static const std::map<Precision, std::string> names = {{Precision::fp32_true, "Fp32"},
                                                         {Precision::bf16_mixed, "Bf16Mixed"},
                                                         {Precision::fp16_mixed, "Fp16Mixed"},
                                                         {Precision::bf16_true, "Bf16"}};
  return names.at(std::get<0>(info.param)) + std::get<1>(info.param).name;
}

INSTANTIATE_TEST_SUITE_P(Steps, FuseNorms,
                         ::testing::Combine(::testing::Values(Precision::fp32_true, Precision::bf16_mixed,
                                                              Precision::fp16_mixed, Precision::bf16_true),
                                            ::testing::ValuesIn(cases())),
                         name_of);

INSTANTIATE_TEST_SUITE_P(Steps, FuseNormsUnderABudget,
                         ::testing::Combine(::testing::Values(Precision::fp32_true, Precision::bf16_mixed),
                                            ::testing::Values(cases()[0], cases()[1], cases()[2])),
                         name_of);

}  // namespace
}  // namespace plimsoll
