#include "ops/loss/linear_cross_entropy_blocks.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <limits>

#include "ops/block_products_cpu.h"
#include "ops/cpu_capability.h"
#include "ops/kernel_choice.h"
#include "ops/loss/loss_kernel.h"
#include "ops/loss/loss_tiles_cpu.h"
#include "ops/op_support.h"
#include "ops/ops_testing.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;
using namespace testing;

/// Returns the types for which this machine has matmuls.
std::vector<at::ScalarType> types() {
  if (has_pair_products()) return {at::kFloat, at::kBFloat16};
  return {at::kFloat};
}

struct LossResult {
  Tensor losses, grad_x, grad_weight;  ///< losses, and gradients of their sum
};

LossResult blocks(const Tensor& x, const Tensor& weight, const Tensor& targets, int64_t ignore_index, double cap = 0,
                  bool wants_x = true, bool wants_weight = true) {
  LossResult result{{},
                    wants_x ? at::full_like(x, NAN, at::MemoryFormat::Contiguous) : Tensor(),
                    wants_weight ? at::full_like(weight, NAN, at::MemoryFormat::Contiguous) : Tensor()};
  result.losses = linear_cross_entropy_blocks(x, weight, targets, ignore_index, cap, result.grad_x, result.grad_weight);
  return result;
}

LossResult exactly(const Tensor& x, const Tensor& weight, const Tensor& targets, int64_t ignore_index, double cap) {
  const Tensor exact = x.detach().to(at::kDouble).requires_grad_(true);
  const Tensor exact_weight = weight.detach().to(at::kDouble).requires_grad_(true);
  Tensor logits = at::linear(exact, exact_weight);
  if (cap > 0) logits = cap * at::tanh(logits / cap);
  const Tensor losses = at::cross_entropy_loss(logits, targets, {}, at::Reduction::None, ignore_index);
  losses.sum().backward();
  return {losses.detach(), exact.grad(), exact_weight.grad()};
}

Tensor some_targets(int64_t tokens, int64_t vocabulary, int64_t ignore_index) {
  Tensor targets = torch::randint(vocabulary, {tokens}, at::kLong);
  targets[0] = vocabulary - 1;
  if (tokens > 3) targets.slice(0, 2, tokens, 3).fill_(ignore_index);
  if (tokens > 1) targets[1] = 0;
  return targets;
}

void expect_same(const LossResult& got, const LossResult& want) {
  EXPECT_TRUE(at::equal(got.losses, want.losses));
  if (got.grad_x.defined() && want.grad_x.defined()) {
    EXPECT_TRUE(at::equal(got.grad_x, want.grad_x));
  }
  if (got.grad_weight.defined() && want.grad_weight.defined()) {
    EXPECT_TRUE(at::equal(got.grad_weight, want.grad_weight));
  }
}

TEST(LossBlocks, AgreeWithTheirPartsInFloat64) {
  torch::manual_seed(1);
  struct Case {
    int64_t tokens, vocabulary, width;
  };
  // Whole and part blocks, stretches, panels and lanes; tokens and rows of the weight that have no neighbor in a pair.
  for (const Case& c :
       {Case{1, 1, 2}, {5, 7, 4}, {33, 130, 18}, {64, 512, 64}, {65, 577, 66}, {131, 1601, 146}, {48, 1090, 34}})
    for (const auto type : types())
      for (const double cap : {0.0, 4.0})
        for (const int64_t ignored : {int64_t{-100}, int64_t{0}}) {
          const std::string what = c10::str(c.tokens, " x ", c.vocabulary, " x ", c.width, " ", c10::toString(type),
                                            " cap ", cap, " ignored ", ignored);
          const Tensor x = torch::randn({c.tokens, c.width}).to(type);
          const Tensor weight = (torch::randn({c.vocabulary, c.width}) / std::sqrt(c.width)).to(type);
          const Tensor targets = some_targets(c.tokens, c.vocabulary, ignored);
          const LossResult got = blocks(x, weight, targets, ignored, cap);
          const LossResult want = exactly(x, weight, targets, ignored, cap);
          expect_close(got.losses, want.losses, type == at::kFloat ? 2e-6 : 4e-3, what + " losses");
          if (c.vocabulary == 1) continue;  // no gradient but rounding
          expect_close(got.grad_x, want.grad_x, type == at::kFloat ? 1e-5 : 1e-2, what + " grad_x");
          expect_close(got.grad_weight, want.grad_weight, type == at::kFloat ? 1e-5 : 1e-2, what + " grad_weight");
        }
}

TEST(LossBlocks, AreTheSameWhateverIsWantedAndOnAnyNumberOfThreads) {
  torch::manual_seed(2);
  const int threads = at::get_num_threads();
  for (const auto type : types()) {
    const Tensor x = torch::randn({97, 50}).to(type), weight = (torch::randn({1500, 50}) / 7).to(type);
    const Tensor targets = some_targets(97, 1500, -1);
    const LossResult both = blocks(x, weight, targets, -1);
    expect_same(blocks(x, weight, targets, -1, 0, true, false), both);
    expect_same(blocks(x, weight, targets, -1, 0, false, true), both);
    expect_same(blocks(x, weight, targets, -1, 0, false, false), both);
    for (const int other : {1, 2, 3, 12}) {
      at::set_num_threads(other);
      expect_same(blocks(x, weight, targets, -1), both);
    }
    at::set_num_threads(threads);
  }
}

// Several chunks at the same time, compared with the same chunks one by one.
void expect_added_up(int64_t tokens, int64_t vocabulary, int64_t width, int64_t count) {
  SCOPED_TRACE(c10::str(tokens, " x ", vocabulary, " x ", width));
  for (const auto type : types()) {
    const LossChunks chunks =
        loss_chunks(tokens, vocabulary, static_cast<int64_t>(c10::elementSize(type)), kLossChunkBytes);
    ASSERT_EQ(chunks.count, count);
    const Tensor x = torch::randn({tokens, width}).to(type), weight = torch::randn({vocabulary, width}).to(type);
    const Tensor targets = some_targets(tokens, vocabulary, -1);
    const LossResult all = blocks(x, weight, targets, -1);
    Tensor grad_weight = torch::zeros({vocabulary, width}, at::kDouble), sizes = torch::zeros_like(grad_weight);
    std::vector<Tensor> losses, grad_x;
    for (int64_t begin = 0; begin < tokens; begin += chunks.rows) {
      const int64_t size = std::min(chunks.rows, tokens - begin);
      const LossResult part = blocks(x.narrow(0, begin, size), weight, targets.narrow(0, begin, size), -1);
      losses.push_back(part.losses);
      grad_x.push_back(part.grad_x);
      grad_weight += part.grad_weight;
      sizes += part.grad_weight.abs();
    }
    EXPECT_TRUE(at::equal(all.losses, at::cat(losses)));
    EXPECT_TRUE(at::equal(all.grad_x, at::cat(grad_x)));
    if (type == at::kFloat) {
      expect_close(all.grad_weight, grad_weight, 2e-6, "grad_weight");
    } else {
      // The sum is rounded once, at the end, as each of the parts was.
      const Tensor error =
          (all.grad_weight.to(at::kDouble) - grad_weight).abs() - 1.01 * (sizes + grad_weight.abs()) / 256;
      EXPECT_LE(error.max().item<double>(), 1e-6);
    }
  }
}

TEST(LossBlocks, AddUpTheirChunks) {
  torch::manual_seed(3);
  expect_added_up(180, 400003, 4, 3);
  expect_added_up(100, 400003, 66, 2);
}

// Logits of 0 make all probabilities one number, so that the sums are known.
TEST(LossBlocks, SumsOfChunksIn16BitsAreRoundedOnce) {
  if (!has_pair_products()) GTEST_SKIP() << "this processor has no products of bfloat16 pairs";
  constexpr int64_t kVocabulary = 1 << 19, kWidth = 66;
  const Tensor weight = torch::zeros({kVocabulary, kWidth}, at::kBFloat16);
  // After two of three chunks the sum is between two numbers of 8 bits, nearer to neither.
  for (const std::vector<double>& parts : {std::vector{256., 1., 0.5}, {256., 1.5}, {4., 256., 1., 0.5}}) {
    const int64_t count = static_cast<int64_t>(parts.size()), tokens = count * 64;
    const LossChunks chunks = loss_chunks(tokens, kVocabulary, 2, kLossChunkBytes);
    ASSERT_EQ(chunks.count, count);
    Tensor x = torch::zeros({tokens, kWidth}, at::kBFloat16);
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) {
      x[i * chunks.rows + 5].fill_(parts[static_cast<size_t>(i)]);
      sum += parts[static_cast<size_t>(i)];
    }
    const Tensor got = blocks(x, weight, torch::zeros({tokens}, at::kLong), -1).grad_weight.slice(0, 1);
    EXPECT_TRUE(at::equal(got, torch::full_like(got, sum / kVocabulary))) << count << " chunks";
  }
}

TEST(LossBlocks, TakeRowsThatLieApart) {
  torch::manual_seed(4);
  for (const auto type : types()) {
    const Tensor x = torch::randn({40, 70}).to(type).narrow(1, 3, 36), weight = torch::randn({36, 600}).to(type).t();
    const Tensor targets = torch::randint(600, {80}, at::kLong).slice(0, 0, 80, 2);
    expect_same(blocks(x, weight, targets, -1), blocks(x.contiguous(), weight.contiguous(), targets.contiguous(), -1));
  }
}

TEST(LossBlocks, LargeLogitsStayFiniteAndNanShows) {
  for (const auto type : types()) {
    // Logits that bfloat16 rounds by whole numbers: no probability may come out above 1.
    const Tensor x = torch::full({32, 2}, 30.3).to(type),
                 weight = torch::linspace(-30, 30.7, 1200).view({600, 2}).to(type);
    for (const int64_t target : {599, 598, 597, 300}) {
      const LossResult large = blocks(x, weight, torch::full({32}, target, at::kLong), -1);
      EXPECT_TRUE(at::isfinite(large.losses).all().item<bool>());
      EXPECT_LE(large.grad_weight.abs().max().item<double>(), 32 * 30.5);
      // Probabilities add up to 1, so the gradients of all rows add up to nothing; logarithms near 1856 end at 2^-13.
      const Tensor gradients = large.grad_weight.to(at::kDouble);
      EXPECT_LE(gradients.sum().abs().item<double>(), 0.3 + 0.01 * gradients.abs().sum().item<double>());
    }
    Tensor broken = x.clone();
    broken[3][0] = NAN;
    const LossResult shows = blocks(broken, weight, torch::zeros({32}, at::kLong), -1);
    EXPECT_TRUE(std::isnan(shows.losses[3].item<float>()));
    EXPECT_FALSE(std::isnan(shows.losses[4].item<float>()));
    EXPECT_TRUE(at::isnan(shows.grad_x[3]).all().item<bool>());
    // A token that does not count has no loss and no gradient, whatever it holds.
    broken = x.clone();
    broken[3][0] = std::numeric_limits<float>::infinity();
    Tensor targets = torch::zeros({32}, at::kLong);
    targets[3] = -1;
    const LossResult skipped = blocks(broken, weight, targets, -1);
    EXPECT_EQ(skipped.losses[3].item<float>(), 0.f);
    EXPECT_TRUE(at::equal(skipped.grad_x[3], torch::zeros({2}).to(type)));
  }
}

// A vocabulary may be masked by logits of minus infinity, whole blocks and stretches of it.
TEST(LossTiles, LogitsOfMinusInfinityCountNothing) {
  constexpr int64_t kRows = 5, kLanes = 16, kStride = 24;
  constexpr float kMinus = -std::numeric_limits<float>::infinity();
  std::vector<float> maximum(2 * kLanes, kMinus), sums(2 * kLanes, 0.f), numbers(kLanes);
  for (int64_t part = 0; part < 2; ++part)
    for (int64_t block = 0; block < 2; ++block) {
      std::vector<float> scores(kRows * kLanes, kMinus);
      if (part == 1 && block == 1) std::fill_n(scores.begin(), 2 * kLanes, 3.f);
      logit_tile({.scores = scores.data(),
                  .rows = kRows,
                  .lanes = kLanes,
                  .cap = 0,
                  .maximum = maximum.data() + part * kLanes,
                  .sums = sums.data() + part * kLanes,
                  .logits = nullptr,
                  .dtype = DType::float32,
                  .stride = 0});
    }
  logarithm_of_sums(maximum.data(), sums.data(), 2, kLanes, numbers.data());
  for (const float number : numbers) EXPECT_FLOAT_EQ(number, 3.f + std::log(2.f));

  std::vector<float> logits(kRows * kLanes, kMinus), counts(kLanes, 1.f), gradients(kRows * kStride, NAN);
  std::fill_n(logits.begin(), 2 * kLanes, 3.f);
  const LogitGradients args{.logits = logits.data(),
                            .dtype = DType::float32,
                            .rows = kRows,
                            .lanes = kLanes,
                            .cap = 0,
                            .log_sum = numbers.data(),
                            .counts = counts.data(),
                            .gradients = gradients.data(),
                            .pairs = nullptr,
                            .stride = kStride};
  logit_gradients(args);
  target_gradient(args, 1, 2);
  for (int64_t row = 0; row < kRows; ++row)
    for (int64_t lane = 0; lane < kLanes; ++lane)
      EXPECT_NEAR(gradients[static_cast<size_t>(row * kStride + lane)],
                  row > 1                 ? 0
                  : row == 1 && lane == 2 ? -0.5
                                          : 0.5,
                  1e-6);
}

TEST(LossTiles, SplitSumsKeepSixteenBits) {
  torch::manual_seed(5);
  const Tensor values = torch::randn({3, 32}), high = torch::empty({3, 40}, at::kBFloat16),
               low = torch::empty_like(high);
  Tensor back = torch::full({3, 32}, NAN);
  const SplitRows rows{{high.data_ptr(), DType::bfloat16, 40, 3, 21}, low.data_ptr()};
  store_split(values.const_data_ptr<float>(), 32, rows);
  load_split(rows, 32, back.mutable_data_ptr<float>());
  expect_close(back.narrow(1, 0, 21), values.narrow(1, 0, 21), 1.0 / 65536, "sum");
  EXPECT_TRUE(at::equal(back.narrow(1, 21, 11), torch::zeros({3, 11})));
  EXPECT_TRUE(at::equal(high.narrow(1, 0, 21), values.narrow(1, 0, 21).to(at::kBFloat16)));
}

/// Returns each type with libtorch's kernel and with blocks.
std::vector<std::pair<at::ScalarType, bool>> every_kernel(const std::vector<at::ScalarType>& types) {
  std::vector<std::pair<at::ScalarType, bool>> result;
  for (const auto type : types)
    for (const bool in_blocks : {false, true}) result.emplace_back(type, in_blocks);
  return result;
}

TEST(LossBlocks, TheOperatorChoosesThemAndStatesTheirWorkspace) {
  torch::manual_seed(6);
  const std::vector<at::ScalarType> all_types{at::kFloat, at::kBFloat16, at::kHalf, at::kDouble};
  for (const auto& [type, in_blocks] : every_kernel(all_types)) {
    const char* const kernel = in_blocks ? "blocks" : "libtorch";
    const KernelScope float32("loss_head.float32.small", kernel), bfloat16("loss_head.bfloat16.small", kernel);
    const Tensor x = torch::randn({70, 34}).to(type), weight = (torch::randn({1300, 34}) / 6).to(type);
    const Tensor targets = some_targets(70, 1300, -1);
    const bool chosen = loss_in_blocks({70, 1300, 34, plimsoll::dtype_of(type), true, true});
    EXPECT_EQ(chosen, in_blocks && ((type == at::kFloat && cpu_capability() != CpuCapability::baseline) ||
                                    (type == at::kBFloat16 && has_pair_products())));
    for (const auto& [wants_x, wants_weight] : {std::pair{true, true}, {true, false}, {false, true}}) {
      const std::vector<c10::IValue> arguments = {x, weight, targets, int64_t{-1}, wants_x, wants_weight, 0.0};
      expect_workspace("plimsoll::linear_cross_entropy", arguments);
      expect_workspace("plimsoll::linear_cross_entropy", {x.t().contiguous().t(), weight.t().contiguous().t(), targets,
                                                          int64_t{-1}, wants_x, wants_weight, 0.0});
    }
    expect_workspace("plimsoll::linear_cross_entropy_loss", {x, weight, targets, int64_t{-1}, 0.0});
    if (!chosen) continue;
    const auto results = call("plimsoll::linear_cross_entropy", {x, weight, targets, int64_t{-1}, true, true, 0.0});
    const LossResult want = blocks(x, weight, targets, -1);
    const double counted = (targets != -1).sum().item<double>(), loss = want.losses.sum().item<double>() / counted;
    EXPECT_EQ(results[1].toTensor().item<double>(), counted);
    EXPECT_NEAR(results[0].toTensor().item<double>(), loss, 1e-6 * loss);
    EXPECT_TRUE(
        at::equal(call("plimsoll::linear_cross_entropy_loss", {x, weight, targets, int64_t{-1}, 0.0})[0].toTensor(),
                  results[0].toTensor()));
    const auto ignored =
        call("plimsoll::linear_cross_entropy", {x, weight, at::full_like(targets, -1), int64_t{-1}, true, true, 0.0});
    for (const size_t nothing : {0, 2, 3})
      EXPECT_TRUE(at::equal(ignored[nothing].toTensor(), torch::zeros_like(ignored[nothing].toTensor())));
    EXPECT_TRUE(at::equal(results[2].toTensor(), want.grad_x));
    EXPECT_TRUE(at::equal(results[3].toTensor(), want.grad_weight));
  }
  EXPECT_FALSE(loss_in_blocks({31, 1300, 34, DType::float32, true, true}));
  EXPECT_FALSE(loss_in_blocks({70, 300, 34, DType::float32, true, true}));
  EXPECT_FALSE(loss_in_blocks({70, 1300, 33, DType::bfloat16, true, true}));
}

// Several chunks, and the panel of more threads than tests use otherwise.
TEST(LossBlocks, TheWorkspaceOfManyChunksAndThreadsIsStated) {
  const int threads = at::get_num_threads();
  for (const auto type : types()) {
    const int64_t tokens = type == at::kFloat ? 140 : 280;
    const Tensor x = torch::randn({tokens, 32}).to(type), weight = torch::randn({250000, 32}).to(type);
    const LossShape shape{tokens, 250000, 32, plimsoll::dtype_of(type), true, true};
    if (!loss_in_blocks(shape)) continue;
    ASSERT_EQ(loss_blocks(shape, 1).chunks.count, 3);
    expect_workspace("plimsoll::linear_cross_entropy",
                     {x, weight, some_targets(tokens, 250000, -1), int64_t{-1}, true, true, 0.0});
    at::set_num_threads(12);
    expect_workspace("plimsoll::linear_cross_entropy", {x.narrow(0, 0, 40), weight.narrow(0, 0, 2000),
                                                        some_targets(40, 2000, -1), int64_t{-1}, true, true, 0.0});
    at::set_num_threads(threads);
  }
}

// Evaluation keeps no logits.
TEST(LossBlocks, TheLossAloneTakesNoRoomForLogits) {
  const LossShape both{1024, 50304, 448, DType::float32, true, true},
      alone{1024, 50304, 448, DType::float32, false, false};
  EXPECT_GE(loss_blocks(both, 2).total, loss_blocks(both, 2).chunks.rows * 50304 * 4);
  EXPECT_LE(loss_blocks(alone, 2).total, 2 * MiB);
}

}  // namespace
}  // namespace plimsoll::ops
