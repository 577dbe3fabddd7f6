// Steps of several ranks give the bits of one rank with as many micro batches, in the planned bytes.
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <fmt/format.h>

#include <array>
#include <map>
#include <sstream>

#include "collectives/exchange_ops.h"
#include "plimsoll/models.h"
#include "plimsoll/training.h"
#include "ranks/forked_ranks.h"
#include "run/batches.h"
#include "test_files.h"

namespace plimsoll {
namespace {

using testing::Batch;
using ::testing::HasSubstr;
using testing::run_ranks;
using testing::token_batch;

constexpr int64_t kSamples = 2, kTime = 16, kVocabulary = 320;
constexpr int kSteps = 3;

// Matrices of 64 x 320 and 64 x 256 are sliced over up to four ranks; 64 x 64 are over one only, norms never.
Step small_decoder() {
  DecoderConfig config;
  config.vocab_size = kVocabulary;
  config.hidden_size = 64;
  config.intermediate_size = 256;
  config.num_layers = 2;
  config.num_heads = 4;
  config.dropout = 0.1;
  return decoder_step(config, kSamples, kTime);
}

struct RankCase {
  std::string name;
  int ranks = 2;
  int64_t accumulation = 1;
  std::function<void(TrainingOptions&)> change = [](TrainingOptions&) {};
};

std::ostream& operator<<(std::ostream& out, const RankCase& each) {
  return out << each.name << ", " << each.ranks << " ranks, accumulation " << each.accumulation;
}

TrainingOptions options_of(const RankCase& of, int ranks, int rank, Strategy strategy) {
  TrainingOptions options;
  options.threads = 1;
  options.seed = 5;
  options.accumulate = ranks > 1 ? of.accumulation > 1 : of.ranks * of.accumulation > 1;
  options.max_grad_norm = 0.5;
  of.change(options);
  options.ranks = {.count = ranks, .rank = rank, .strategy = strategy};
  return options;
}

// Losses, norms and the bytes of the parameters, as text; of slices the whole.
std::string train(const RankCase& of, int ranks, int rank, Strategy strategy,
                  const std::shared_ptr<Exchange>& exchange) {
  TrainingOptions options = options_of(of, ranks, rank, strategy);
  options.exchange = exchange;
  Training training(small_decoder(), options);
  training.start();
  const int64_t all = of.ranks * of.accumulation, own = all / ranks;
  torch::manual_seed(2);
  std::string text;
  for (int step = 0; step < kSteps; ++step) {
    std::vector<Batch> batches;
    for (int64_t i = 0; i < all; ++i) {
      const Batch batch = token_batch(kSamples, kTime, kVocabulary);
      if (i % ranks == rank) batches.push_back(batch);
    }
    EXPECT_EQ(static_cast<int64_t>(batches.size()), own);
    const StepResult result = training.step(batches, 1e-2);
    text += fmt::format("loss {} norm {} skipped {}\n", result.loss, result.gradient_norm, result.skipped);
  }
  const auto slices = training.slices();
  for (const auto& [name, tensor] : training.state()) {
    at::Tensor whole = tensor.contiguous().view(-1);
    if (const auto found = slices.find(name); found != slices.end()) {
      at::Tensor padded = at::zeros({whole.numel() * ranks}, whole.options());
      padded.narrow(0, rank * whole.numel(), whole.numel()).copy_(whole);
      exchange->all_gather(padded);
      int64_t elements = 1;
      for (const int64_t size : found->second) elements *= size;
      whole = padded.narrow(0, 0, elements).clone();
    }
    const std::string_view bytes(static_cast<const char*>(whole.const_data_ptr()), whole.nbytes());
    text += fmt::format("{} {:x}\n", name, std::hash<std::string_view>()(bytes));
  }
  const int64_t planned = training.plan().peak_bytes, used = training.used().measured_peak();
  if (planned != used) text += fmt::format("{} bytes used, {} planned\n", used, planned);
  return text;
}

class Ranks : public ::testing::TestWithParam<RankCase> {
 protected:
  TempFolder folder_;
};

// What a rank stores is smaller, as planned, where nothing else is chosen.
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
  const std::string reference =
      run_ranks(1, folder_.path(), [&](int, const auto& none) { return train(of, 1, 0, Strategy::ddp, none); })[0];
  EXPECT_THAT(reference, HasSubstr("loss "));
  for (const Strategy strategy : {Strategy::ddp, Strategy::zero1, Strategy::zero2, Strategy::zero3}) {
    const std::vector<std::string> texts =
        run_ranks(of.ranks, folder_.path(), [&](int rank, const std::shared_ptr<Exchange>& exchange) {
          return train(of, of.ranks, rank, strategy, exchange);
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
