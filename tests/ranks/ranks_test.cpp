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
#include <cmath>
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

/// State of several kinds that forward changes; one buffer is transposed.
struct ChangingModel : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& x) {
    const torch::Tensor h = torch::tanh(norm(first(x)));
    {
      const torch::NoGradGuard no_grad;
      calls.add_(1);
      products.mul_(0.9).add_(h.t().mm(h), 0.1);
    }
    return second(h.mm(products) / calls).square().mean();
  }
  torch::nn::Linear first = register_module("first", torch::nn::Linear(6, 4));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(4));
  torch::nn::Linear second = register_module("second", torch::nn::Linear(4, 1));
  torch::Tensor calls = register_buffer("calls", torch::zeros({}, torch::kLong));
  torch::Tensor products = register_buffer("products", torch::zeros({4, 4}).t());
};

constexpr int kStateRanks = 2, kStateMicro = 2, kStateSteps = 3;

std::map<std::string, torch::Tensor> state_micro_batch(int step, int rank, int micro) {
  torch::manual_seed(100 * step + 10 * rank + micro);
  return {{"x", torch::randn({8, 6})}};
}

/// The sum of each tensor's elements, weighted so that transposition changes it.
std::string text_of_state(const std::map<std::string, torch::Tensor>& state) {
  std::string text;
  for (const auto& [name, tensor] : state) {
    if (name.starts_with("optimizer.")) continue;
    const torch::Tensor flat = tensor.reshape(-1).to(torch::kDouble);
    text += fmt::format("{} {:.9g}\n", name, (flat * torch::arange(1, flat.numel() + 1)).sum().item<double>());
  }
  return text;
}

// Each rank's micro batches begin with the first rank's state of the last step, as in DistributedDataParallel.
std::string eager_state() {
  torch::manual_seed(3);
  ChangingModel model;
  for (int step = 0; step < kStateSteps; ++step) {
    std::map<std::string, torch::Tensor> before, first;
    for (const auto& entry : model.named_buffers()) before[entry.key()] = entry.value().clone();
    for (int rank = 0; rank < kStateRanks; ++rank) {
      const torch::NoGradGuard no_grad;
      for (auto& entry : model.named_buffers()) entry.value().copy_(before.at(entry.key()));
      {
        const at::AutoGradMode grad(true);
        for (int micro = 0; micro < kStateMicro; ++micro)
          (model.forward(state_micro_batch(step, rank, micro).at("x")) / (kStateRanks * kStateMicro)).backward();
      }
      if (rank == 0)
        for (const auto& entry : model.named_buffers()) first[entry.key()] = entry.value().clone();
    }
    const torch::NoGradGuard no_grad;
    for (auto& entry : model.named_buffers()) entry.value().copy_(first.at(entry.key()));
    for (auto& parameter : model.parameters()) {
      parameter.sub_(parameter.grad(), 0.1);
      parameter.mutable_grad() = torch::Tensor();
    }
  }
  std::map<std::string, torch::Tensor> state;
  for (const auto& entry : model.named_parameters()) state[entry.key()] = entry.value().detach();
  for (const auto& entry : model.named_buffers()) state[entry.key()] = entry.value();
  return text_of_state(state);
}

TEST(RankStatistics, AndOtherChangingStateAreThoseOfEager) {
  const TempFolder folder;
  const std::string expected =
      run_ranks(1, folder.path(), [](int, const std::shared_ptr<Exchange>&) { return eager_state(); })[0];
  EXPECT_THAT(expected, HasSubstr("products "));
  for (const Strategy strategy : {Strategy::ddp, Strategy::zero2, Strategy::zero3})
    for (const Choice checkpointing : {Choice::off, Choice::on}) {
      const auto texts =
          run_ranks(kStateRanks, folder.path(), [&](int rank, const std::shared_ptr<Exchange>& exchange) {
            Step step;
            step.inputs = {{.name = "x", .sizes = {8, 6}, .dtype = at::kFloat}};
            step.model = [] { return std::make_shared<ChangingModel>(); };
            step.loss = [](torch::nn::Module& module, const StepInputs& inputs) {
              return dynamic_cast<ChangingModel&>(module).forward(inputs["x"]);
            };
            TrainingOptions options;
            options.threads = 1;
            options.accumulate = true;
            options.optimizer = {.name = "sgd", .weight_decay = 0, .momentum = 0};
            options.max_grad_norm = 0;
            options.gradient_checkpointing = checkpointing;
            options.ranks = {.count = kStateRanks, .rank = rank, .strategy = strategy};
            options.exchange = exchange;
            Training training(step, options);
            training.start();
            torch::manual_seed(3);
            const ChangingModel weights;
            std::map<std::string, torch::Tensor> given;
            for (const auto& entry : weights.named_parameters()) given[entry.key()] = entry.value().detach();
            for (const auto& [name, tensor] : training.state())
              if (given.contains(name) && tensor.numel() == given.at(name).numel()) tensor.copy_(given.at(name));
            for (int i = 0; i < kStateSteps; ++i) {
              std::vector<std::map<std::string, torch::Tensor>> batches;
              for (int micro = 0; micro < kStateMicro; ++micro) batches.push_back(state_micro_batch(i, rank, micro));
              training.step(batches, 0.1);
            }
            std::map<std::string, torch::Tensor> state;
            for (const auto& [name, tensor] : training.state()) state[name] = tensor;
            return text_of_state(state);
          });
      EXPECT_EQ(texts[1], texts[0]) << name_of(strategy);
      std::istringstream ours(texts[0]), theirs(expected);
      for (std::string name, its_name; theirs >> its_name;) {
        double value = 0, its_value = 0;
        ours >> name >> value;
        theirs >> its_value;
        EXPECT_EQ(name, its_name);
        EXPECT_NEAR(value, its_value, 1e-5 * (1 + std::abs(its_value))) << name << ", " << name_of(strategy);
      }
    }
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
