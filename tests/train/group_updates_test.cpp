// Tests `compile` on and off over the updates of many small parameters. Losses, weights and optimizer state are the
// same, bit for bit: with every optimizer, in every precision, with values offloaded, and from a checkpoint of the
// other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "plan/passes/passes.h"
#include "plan/placement/validator.h"
#include "plimsoll/training.h"
#include "run/equality.h"
#include "run/training_runs.h"
#include "train/tiny_job.h"

namespace plimsoll {
namespace {

using torch::Tensor;

// Matrices of more than 4 096 numbers, whose state is packed if requested, vectors, and a number.
constexpr int64_t kGroupedRows = 8, kGroupedWidth = 72, kGroupedLayers = 5;

struct Layers : torch::nn::Module {
  Layers() {
    for (int64_t i = 0; i < kGroupedLayers; ++i) {
      layers->push_back(torch::nn::Linear(kGroupedWidth, kGroupedWidth));
      norms->push_back(torch::nn::LayerNorm(torch::nn::LayerNormOptions({kGroupedWidth})));
    }
    register_module("layers", layers);
    register_module("norms", norms);
    scale = register_parameter("scale", torch::ones({}));
  }
  Tensor loss(const Tensor& x, const Tensor& y) {
    Tensor hidden = x;
    for (int64_t i = 0; i < kGroupedLayers; ++i) {
      const Tensor normed = norms->at<torch::nn::LayerNormImpl>(i).forward(hidden);
      hidden = hidden + at::silu(layers->at<torch::nn::LinearImpl>(i).forward(normed)) * scale;
    }
    return torch::mse_loss(hidden.to(torch::kFloat32), y.to(torch::kFloat32));
  }
  torch::nn::ModuleList layers, norms;
  Tensor scale;
};

Step layers_step() {
  Step step;
  step.model = [] { return std::make_shared<Layers>(); };
  step.inputs = {{"x", {kGroupedRows, kGroupedWidth}, torch::kFloat32},
                 {"y", {kGroupedRows, kGroupedWidth}, torch::kFloat32}};
  step.loss = [](torch::nn::Module& model, const StepInputs& in) {
    return static_cast<Layers&>(model).loss(in["x"], in["y"]);
  };
  return step;
}

struct GroupedRun {
  std::vector<double> losses, norms;
  std::vector<bool> skipped;
  std::vector<Tensor> state;
  Plan plan;
  MemoryUse used;
};

GroupedRun train_layers(TrainingOptions options, Choice compile, int steps = 4) {
  options.compile = compile;
  Training training(layers_step(), options);
  training.start();
  torch::manual_seed(5);
  GroupedRun run;
  const auto batch = [] {
    return testing::Batch{{"x", torch::randn({kGroupedRows, kGroupedWidth})},
                          {"y", torch::randn({kGroupedRows, kGroupedWidth})}};
  };
  for (int i = 0; i < steps; ++i) {
    const StepResult result =
        options.accumulate ? training.step({batch(), batch(), batch()}, 1e-2) : training.step({batch()}, 1e-2);
    run.losses.push_back(result.loss);
    run.norms.push_back(result.gradient_norm);
    run.skipped.push_back(result.skipped);
  }
  for (const auto& [name, tensor] : training.state()) run.state.push_back(tensor.clone());
  run.plan = training.plan();
  run.used = training.used();
  return run;
}

void expect_same(const GroupedRun& a, const GroupedRun& b) {
  EXPECT_EQ(a.losses, b.losses);
  EXPECT_EQ(a.skipped, b.skipped);
  ASSERT_EQ(a.norms.size(), b.norms.size());
  for (size_t i = 0; i < a.norms.size(); ++i)
    EXPECT_TRUE(a.norms[i] == b.norms[i] || (std::isnan(a.norms[i]) && std::isnan(b.norms[i])));
  ASSERT_EQ(a.state.size(), b.state.size());
  for (size_t i = 0; i < a.state.size(); ++i) EXPECT_TRUE(testing::same_bits(a.state[i], b.state[i])) << i;
}

class GroupUpdates : public ::testing::TestWithParam<std::tuple<std::string, Precision>> {
 protected:
  GroupUpdates() {
    options_.optimizer.name = std::get<0>(GetParam());
    if (options_.optimizer.name == "plain_sgd") {
      options_.optimizer.name = "sgd";
      options_.optimizer.momentum = 0;
    }
    options_.precision = std::get<1>(GetParam());
    options_.threads = 2;
  }
  bool groups() const { return options_.optimizer.name != "adafactor"; }  // updates of adafactor need scratch

  void expect_grouped(const GroupedRun& run, int64_t least) const {
    EXPECT_EQ(find_fault(run.plan), "");
    EXPECT_LE(run.used.measured_peak(), run.plan.peak_bytes);
    EXPECT_GE(grouped_updates_of(run.plan.trace).norms, least);
    if (!groups()) return;
    EXPECT_GE(grouped_updates_of(run.plan.trace).updates, least);
  }

  TrainingOptions options_;
};

// Fifteen vectors and a number without weight decay; five matrices with it, which Muon updates one by one. Not every
// gradient can wait during its matmuls, which may be the peak.
TEST_P(GroupUpdates, AreTheUpdatesOneByOne) {
  const GroupedRun plain = train_layers(options_, Choice::off);
  EXPECT_EQ(grouped_updates_of(plain.plan.trace).groups, 0);
  for (const Choice compile : {Choice::automatic, Choice::on}) {
    const GroupedRun grouped = train_layers(options_, compile);
    expect_grouped(grouped, 12);
    EXPECT_LE(grouped.plan.live_bytes, plain.plan.live_bytes);
    EXPECT_LT(grouped.plan.trace.ops.size(), plain.plan.trace.ops.size());
    expect_same(plain, grouped);
  }
}

TEST_P(GroupUpdates, AreSoInEveryFormat) {
  options_.threads = 1;  // kernels of two wait for one another while other tests compute
  options_.accumulate = true;
  options_.max_grad_norm = 0;
  for (const StateDtype state : {StateDtype::bfloat16, StateDtype::bits8, StateDtype::bits4}) {
    for (const WeightUpdate update : {WeightUpdate::nearest, WeightUpdate::stochastic, WeightUpdate::kahan,
                                      WeightUpdate::split, WeightUpdate::master}) {
      const bool in_16_bits = options_.precision == Precision::bf16_true;
      if (!in_16_bits && update != WeightUpdate::stochastic) continue;
      if (!groups() && state != StateDtype::bfloat16) continue;  // its state has one format
      options_.optimizer.state_dtype = options_.optimizer.name == "adafactor" ? StateDtype::as_parameters : state;
      options_.optimizer.weight_update = update;
      options_.accumulator_dtype = update == WeightUpdate::split ? AccumulatorDtype::bits8 : AccumulatorDtype::float32;
      const GroupedRun plain = train_layers(options_, Choice::off, 2);
      const GroupedRun grouped = train_layers(options_, Choice::automatic, 2);
      expect_grouped(grouped, 12);
      expect_same(plain, grouped);
    }
  }
}

// Ops with copies stay in place; parameters that are always on the device are grouped.
TEST_P(GroupUpdates, AreSoWhereStateIsMoved) {
  options_.gradient_checkpointing = Choice::off;
  options_.update_in_backward = Choice::off;
  const GroupedRun plain = train_layers(options_, Choice::off);
  options_.budget.host = plain.plan.peak_bytes * 4;
  for (const int64_t tenths : {9, 7}) {
    options_.budget.device = plain.plan.peak_bytes * tenths / 10;
    if (!Training(layers_step(), options_).plan().fits) continue;
    const GroupedRun moved = train_layers(options_, Choice::automatic);
    EXPECT_GT(moved.plan.host_bytes, 0);
    expect_grouped(moved, 0);
    EXPECT_LE(moved.used.measured_peak(), *options_.budget.device);
    expect_same(plain, moved);
  }
}

TEST_P(GroupUpdates, StayAloneWithinBackward) {
  options_.max_grad_norm = 0;
  const GroupedRun plain = train_layers(options_, Choice::off);
  options_.update_in_backward = Choice::on;
  const GroupedRun within = train_layers(options_, Choice::automatic);
  EXPECT_EQ(grouped_updates_of(within.plan.trace).groups, 0);
  EXPECT_EQ(grouped_updates_of(within.plan.trace).norm_groups, 0);
  EXPECT_EQ(find_fault(within.plan), "");
  expect_same(plain, within);
}

INSTANTIATE_TEST_SUITE_P(Optimizers, GroupUpdates,
                         ::testing::Combine(::testing::Values("adamw", "lion", "sgd", "plain_sgd", "adafactor", "muon"),
                                            ::testing::Values(Precision::fp32_true, Precision::bf16_mixed,
                                                              Precision::fp16_mixed, Precision::bf16_true)),
                         [](const auto& info) {
                           std::string name =
                               std::get<0>(info.param) + "_" + std::string(name_of(std::get<1>(info.param)));
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

class GroupUpdatesJob : public ::testing::Test {
 protected:
  TempFolder folder_;
};

TEST_F(GroupUpdatesJob, ACheckpointGoesFromOneToTheOther) {
  for (const char* optimizer : {"adamw", "lion"}) {
    std::vector<std::vector<double>> losses;
    std::vector<std::string> files;
    for (const auto& [first, second] : {std::pair{Choice::off, Choice::off},
                                        {Choice::off, Choice::automatic},
                                        {Choice::automatic, Choice::off},
                                        {Choice::on, Choice::on}}) {
      Job job = tiny_job(folder_);
      job.optimizer.name = optimizer;
      job.optimizer.state_dtype = StateDtype::bits8;
      job.model.decoder.hidden_size = 64;
      const std::string folder = optimizer + std::to_string(files.size());
      job.checkpoint.directory = folder_ / folder;
      job.compile = first;
      losses.push_back(train_until(job, 3).losses);
      job.compile = second;
      const TrainReport rest = train(job);
      EXPECT_EQ(rest.resumed_step, 3);
      EXPECT_EQ(grouped_updates_of(rest.job.plan.trace).groups > 0, second != Choice::off);
      losses.back().insert(losses.back().end(), rest.losses.begin(), rest.losses.end());
      files.push_back(get_file(folder_ / folder / "step-00000006.safetensors"));
      EXPECT_EQ(losses.back(), losses.front());
      EXPECT_FALSE(files.back().empty());
      EXPECT_TRUE(files.back() == files.front()) << optimizer << " " << files.size();
    }
  }
}

// Without kernels for groups, each is updated separately.
TEST_F(GroupUpdatesJob, AreForTheCpuAndForCuda) {
  Job job = tiny_job(folder_);
  EXPECT_GT(grouped_updates_of(plan_job(job).plan.trace).groups, 0);
  job.device = "cuda";
  EXPECT_GT(grouped_updates_of(plan_job(job).plan.trace).groups, 0);
  job.compile = Choice::off;
  EXPECT_EQ(grouped_updates_of(plan_job(job).plan.trace).groups, 0);
  job.compile = Choice::automatic;
  job.device = "mps";
  EXPECT_EQ(grouped_updates_of(plan_job(job).plan.trace).groups, 0);
}

}  // namespace
}  // namespace plimsoll
