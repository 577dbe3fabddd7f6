// Tests that steps of several ranks give the bits of one rank with as many micro batches, in the planned bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <fmt/format.h>

#include <array>
#include <sstream>

#include "plimsoll/training.h"
#include "ranks/decoder_training.h"
#include "ranks/forked_ranks.h"
#include "test_files.h"

namespace plimsoll {
namespace {

using ::testing::HasSubstr;
using testing::options_of;
using testing::RankCase;
using testing::reference_text;
using testing::run_ranks;
using testing::small_decoder;
using testing::train_steps;

class Ranks : public ::testing::TestWithParam<RankCase> {
 protected:
  TempFolder folder_;
};

// A rank stores fewer bytes, as planned, unless another strategy is chosen.
TEST(RankBytes, AreFewerWithEveryStrategy) {
  const TempFolder folder;
  const RankCase of{"float32", 4};
  std::vector<std::string> peaks;
  for (const Strategy strategy : {Strategy::ddp, Strategy::zero2, Strategy::zero3})
    peaks.push_back(run_ranks(1, folder.path(), [&](int, const auto&) {
      TrainingOptions options = options_of(of, of.ranks, 0, strategy);
      options.gradient_checkpointing = Choice::off;
      const PlannedStep planned = plan_step(small_decoder(), options);
      int64_t slices = 0;
      for (const NamedView& entry : planned.plan.trace.state) slices += !entry.whole_sizes.empty();
      return fmt::format("{} {} {}", planned.plan.persistent_bytes, planned.plan.peak_bytes, slices);
    })[0]);
  std::vector<std::array<int64_t, 3>> numbers;
  for (const std::string& each : peaks) {
    std::istringstream words(each);
    auto& [persistent, peak, slices] = numbers.emplace_back();
    words >> persistent >> peak >> slices;
    ASSERT_FALSE(words.fail()) << each;
  }
  EXPECT_EQ(numbers[0][2], 0);
  EXPECT_GT(numbers[1][2], 0);
  EXPECT_GT(numbers[2][2], numbers[1][2]);  // parameters too
  EXPECT_LT(numbers[1][0], numbers[0][0] * 3 / 4);
  EXPECT_LT(numbers[2][0], numbers[1][0] * 3 / 4);
  EXPECT_LT(numbers[1][1], numbers[0][1]);
  EXPECT_LT(numbers[2][1], numbers[1][1]);
}

TEST_P(Ranks, GiveTheBitsOfOne) {
  const RankCase of = GetParam();
  const std::string reference = reference_text(small_decoder(), of, folder_.path());
  EXPECT_THAT(reference, HasSubstr("loss "));
  for (const Strategy strategy : {Strategy::ddp, Strategy::zero1, Strategy::zero2, Strategy::zero3}) {
    const std::vector<std::string> texts =
        run_ranks(of.ranks, folder_.path(), [&](int rank, const std::shared_ptr<Exchange>& exchange) {
          return train_steps(small_decoder(), of, options_of(of, of.ranks, rank, strategy, exchange));
        });
    for (const std::string& text : texts) EXPECT_EQ(text, reference) << name_of(strategy);
  }
}

struct NormedModel : torch::nn::Module {
  NormedModel()
      : first(register_module("first", torch::nn::Linear(64, 256))),
        norm(register_module("norm", torch::nn::BatchNorm1d(256))),
        second(register_module("second", torch::nn::Linear(256, 1))) {}
  torch::nn::Linear first;
  torch::nn::BatchNorm1d norm;
  torch::nn::Linear second;
};

// Every rank makes statistics of its own micro batches; those of the first count.
TEST(RankStatistics, AreThoseOfTheFirst) {
  const TempFolder folder;
  const std::vector<std::string> texts =
      run_ranks(2, folder.path(), [](int rank, const std::shared_ptr<Exchange>& exchange) {
        Step step;
        step.inputs = {{.name = "x", .sizes = {8, 64}, .dtype = at::kFloat}};
        step.model = [] { return std::make_shared<NormedModel>(); };
        step.loss = [](torch::nn::Module& module, const StepInputs& inputs) {
          auto& model = dynamic_cast<NormedModel&>(module);
          return model.second(model.norm(model.first(inputs["x"]))).square().mean();
        };
        TrainingOptions options;
        options.threads = 1;
        options.ranks = {.count = 2, .rank = rank, .strategy = Strategy::zero2};
        options.exchange = exchange;
        Training training(step, options);
        training.start();
        torch::manual_seed(rank);
        training.step({{{"x", torch::randn({8, 64})}}}, 1e-2);
        std::string text;
        for (const auto& [name, tensor] : training.state())
          if (name.starts_with("norm.running")) text += fmt::format("{} {}\n", name, tensor.sum().item<double>());
        return text;
      });
  EXPECT_THAT(texts[0], HasSubstr("norm.running_mean "));
  EXPECT_EQ(texts[1], texts[0]);
}

INSTANTIATE_TEST_SUITE_P(
    All, Ranks,
    ::testing::Values(
        RankCase{"float32"}, RankCase{"float32", 3, 2}, RankCase{"float32", 4},
        RankCase{"bf16_mixed", 2, 2, [](TrainingOptions& o) { o.precision = Precision::bf16_mixed; }},
        RankCase{"fp16_mixed", 2, 1, [](TrainingOptions& o) { o.precision = Precision::fp16_mixed; }},
        RankCase{"bf16_true", 2, 2, [](TrainingOptions& o) { o.precision = Precision::bf16_true; }},
        RankCase{"bf16_true_master", 2, 1,
                 [](TrainingOptions& o) {
                   o.precision = Precision::bf16_true;
                   o.optimizer.weight_update = WeightUpdate::master;
                 }},
        RankCase{"state_of_8_bits", 4, 1, [](TrainingOptions& o) { o.optimizer.state_dtype = StateDtype::bits8; }},
        RankCase{"state_of_4_bits", 2, 1, [](TrainingOptions& o) { o.optimizer.state_dtype = StateDtype::bits4; }},
        RankCase{"adafactor", 2, 1, [](TrainingOptions& o) { o.optimizer.name = "adafactor"; }},
        RankCase{"muon", 2, 1, [](TrainingOptions& o) { o.optimizer.name = "muon"; }},
        RankCase{"float32_sums", 2, 2,
                 [](TrainingOptions& o) {
                   o.precision = Precision::bf16_true;
                   o.accumulator_dtype = AccumulatorDtype::float32;
                 }},
        RankCase{"updates_in_backward", 2, 2,
                 [](TrainingOptions& o) {
                   o.max_grad_norm = 0;
                   o.update_in_backward = Choice::on;
                 }},
        RankCase{"block_checkpointing", 2, 1, [](TrainingOptions& o) { o.gradient_checkpointing = Choice::on; }},
        RankCase{"no_checkpointing", 2, 1, [](TrainingOptions& o) { o.gradient_checkpointing = Choice::off; }}),
    [](const auto& info) { return info.param.name + "_" + std::to_string(info.index); });

}  // namespace
}  // namespace plimsoll
