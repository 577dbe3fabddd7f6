#include "ops/layers/quantized_linear.h"

#include <gmock/gmock.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "ops/layers/quantized_plan.h"
#include "ops/ops_testing.h"
#include "ops/workspace/workspace.h"
#include "plimsoll/error.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;
using namespace testing;

// The published values (QLoRA, appendix E), to the digits of float32.
constexpr double kLevels[] = {-1.0,
                              -0.6961928009986877,
                              -0.5250730514526367,
                              -0.39491748809814453,
                              -0.28444138169288635,
                              -0.18477343022823334,
                              -0.09105003625154495,
                              0.0,
                              0.07958029955625534,
                              0.16093020141124725,
                              0.24611230194568634,
                              0.33791524171829224,
                              0.44070982933044434,
                              0.5626170039176941,
                              0.7229568362236023,
                              1.0};

/// Quantizes and dequantizes naively in float64: each number becomes the nearest level of its block of 64 along the
/// row.
Tensor quantized_reference(const Tensor& weight, bool four_bits) {
  Tensor result = weight.to(at::kDouble).clone();
  const int64_t rows = result.size(0), width = result.size(1);
  double* w = result.mutable_data_ptr<double>();
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t begin = 0; begin < width; begin += 64) {
      double* block = w + r * width + begin;
      const int64_t size = std::min<int64_t>(64, width - begin);
      double largest = 0;
      for (int64_t i = 0; i < size; ++i) largest = std::max(largest, std::abs(block[i]));
      for (int64_t i = 0; i < size && largest > 0; ++i) {
        const double share = block[i] / largest;
        const double level =
            four_bits ? *std::ranges::min_element(kLevels, {}, [&](double each) { return std::abs(each - share); })
                      : std::nearbyint(share * 127) / 127;
        block[i] = level * largest;
      }
    }
  }
  return result;
}

std::vector<c10::IValue> with_weight(const Tensor& x, const QuantizedTensors& weight,
                                     std::optional<int64_t> width = {}) {
  std::vector<c10::IValue> arguments = {x, weight.codes, weight.scales};
  arguments.emplace_back(weight.second.defined() ? c10::IValue(weight.second) : c10::IValue());
  if (width) arguments.emplace_back(*width);
  return arguments;
}

class QuantizedLinear : public ::testing::TestWithParam<std::string> {
 protected:
  bool four_bits() const { return GetParam() == "nf4"; }
};

TEST_P(QuantizedLinear, TakesTheNearestLevelOfEachBlock) {
  torch::manual_seed(1);
  for (const auto type : kTypes)
    for (const int64_t width : {1, 2, 63, 64, 65, 130, 300}) {
      const Tensor weight = torch::randn({5, width}, at::kDouble).to(type);
      const QuantizedTensors made = quantize_weight(weight, GetParam(), false);
      EXPECT_EQ(made.codes.nbytes(), static_cast<size_t>(5 * (four_bits() ? (width + 1) / 2 : width)));
      EXPECT_EQ(made.scales.numel(), 5 * ((width + 63) / 64));
      expect_close(dequantize_weight(made, width, at::kDouble), quantized_reference(weight, four_bits()), 1e-6,
                   "weight");
    }
}

TEST_P(QuantizedLinear, ZerosStayZerosAndNumbersThatAreNotFiniteShow) {
  Tensor weight = torch::zeros({3, 128});
  EXPECT_TRUE(at::equal(dequantize_weight(quantize_weight(weight, GetParam(), false), 128, at::kFloat), weight));
  weight[1][70] = std::numeric_limits<float>::infinity();
  const Tensor back = dequantize_weight(quantize_weight(weight, GetParam(), false), 128, at::kFloat);
  EXPECT_TRUE(back[1].narrow(0, 64, 64).isnan().all().item<bool>());
  EXPECT_TRUE(at::equal(back[0], weight[0]));
  EXPECT_TRUE(at::equal(back[1].narrow(0, 0, 64), weight[1].narrow(0, 0, 64)));
}

TEST_P(QuantizedLinear, WithDoubleScalesABlockThatIsNotFiniteTakesItsGroupOnly) {
  torch::manual_seed(3);
  constexpr int64_t rows = 64, width = 1024;  // 16 blocks a row, 16 rows a group
  Tensor weight = torch::randn({rows, width});
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    weight[20][5] = bad;
    const Tensor back = dequantize_weight(quantize_weight(weight, GetParam(), true), width, at::kFloat);
    EXPECT_TRUE(back.narrow(0, 16, 16).isnan().all().item<bool>());
    for (const auto& [begin, count] : {std::pair<int64_t, int64_t>{0, 16}, {32, 32}}) {
      const Tensor want = weight.narrow(0, begin, count), got = back.narrow(0, begin, count);
      EXPECT_LT((got - want).norm().item<double>(), 0.15 * want.norm().item<double>());
    }
  }
  // Not even the mean is left if no block is finite.
  const Tensor none = torch::full({2, 64}, std::nanf(""));
  EXPECT_TRUE(dequantize_weight(quantize_weight(none, GetParam(), true), 64, at::kFloat).isnan().all().item<bool>());
}

TEST_P(QuantizedLinear, DoubleScalesStayCloseInFewerBytes) {
  torch::manual_seed(2);
  const Tensor weight = torch::randn({70, 1000}) * 0.02;
  const QuantizedTensors once = quantize_weight(weight, GetParam(), false);
  const QuantizedTensors twice = quantize_weight(weight, GetParam(), true);
  EXPECT_TRUE(at::equal(once.codes, twice.codes));
  EXPECT_EQ(twice.scales.scalar_type(), at::kByte);
  EXPECT_EQ(twice.second.numel(), (70 * 16 + 255) / 256 + 1);
  const Tensor a = dequantize_weight(once, 1000, at::kDouble), b = dequantize_weight(twice, 1000, at::kDouble);
  const double error = (a - b).norm().item<double>() / a.norm().item<double>();
  EXPECT_GT(error, 0);
  EXPECT_LT(error, 0.01);
}

TEST_P(QuantizedLinear, AgreesWithTheProductOfTheWeightTakenApart) {
  torch::manual_seed(3);
  for (const auto type : kTypes)
    for (const bool twice : {false, true})
      for (int trial = 0; trial < 8; ++trial) {
        const int64_t tokens = 1 + trial * 3, in = 1 + torch::randint(200, {1}).item<int64_t>(),
                      out = 1 + torch::randint(90, {1}).item<int64_t>();
        const QuantizedTensors weight =
            quantize_weight(torch::randn({out, in}) / std::sqrt(static_cast<double>(in)), GetParam(), twice);
        const Tensor exact_weight = dequantize_weight(weight, in, at::kDouble);
        const Tensor x = torch::randn({2, tokens, in}, at::kDouble).to(type).requires_grad_(true);
        const Tensor exact = x.detach().to(at::kDouble).requires_grad_(true);
        const Tensor y = quantized_linear(x, weight), want = at::linear(exact, exact_weight);
        EXPECT_EQ(y.scalar_type(), type);
        const Tensor grad = torch::randn(y.sizes(), at::kDouble).to(type);
        y.backward(grad);
        want.backward(grad.to(at::kDouble));
        expect_close(y, want, 2 * tolerance(type), "y", 1e-2);
        expect_close(x.grad(), exact.grad(), 2 * tolerance(type), "dx", 1e-2);
        expect_meta_agrees("plimsoll::quantized_linear", with_weight(x.detach(), weight));
        expect_meta_agrees("plimsoll::quantized_linear_backward", with_weight(grad, weight, in));
      }
}

// Wide enough that the weight comes in several pieces, the last one smaller.
TEST_P(QuantizedLinear, PiecesOfAWideWeightMakeTheWhole) {
  torch::manual_seed(4);
  const int64_t in = 1100, out = 1300;
  ASSERT_LT(quantized_tile_rows(out, in, 4), out);
  ASSERT_LT(quantized_tile_columns(out, in, 4), in);
  const QuantizedTensors weight = quantize_weight(torch::randn({out, in}) * 0.03, GetParam(), false);
  const Tensor exact = dequantize_weight(weight, in, at::kDouble);
  const Tensor x = torch::randn({9, in}).requires_grad_(true);
  const Tensor y = quantized_linear(x, weight), grad = torch::randn({9, out});
  y.backward(grad);
  expect_close(y, x.detach().to(at::kDouble).mm(exact.t()), 2e-5, "y");
  expect_close(x.grad(), grad.to(at::kDouble).mm(exact), 2e-5, "dx");
}

TEST_P(QuantizedLinear, StatesItsScratch) {
  torch::manual_seed(5);
  for (const auto type : {at::kFloat, at::kBFloat16})
    for (const auto& [in, out] : {std::pair{70, 33}, {2100, 1300}}) {
      const QuantizedTensors weight = quantize_weight(torch::randn({out, in}), GetParam(), true);
      const Tensor x = torch::randn({40, in}).to(type), grad = torch::randn({40, out}).to(type);
      expect_workspace("plimsoll::quantized_linear", with_weight(x, weight));
      expect_workspace("plimsoll::quantized_linear", with_weight(torch::randn({in, 40}).to(type).t(), weight));
      expect_workspace("plimsoll::quantized_linear_backward", with_weight(grad, weight, in));
      expect_workspace("plimsoll::quantized_linear_backward",
                       with_weight(torch::randn({out, 40}).to(type).t(), weight, in));
      // Many rows: nothing as large as the result is allocated in addition to it.
      if (in > 1000) {
        expect_workspace("plimsoll::quantized_linear", with_weight(torch::randn({1500, in}).to(type), weight));
        expect_workspace("plimsoll::quantized_linear_backward",
                         with_weight(torch::randn({1500, out}).to(type), weight, in));
      }
      expect_workspace("plimsoll::quantize_weight", {torch::randn({in, out}).to(type).t(), four_bits()});
      expect_workspace("plimsoll::quantize_scales", {torch::rand({out, in})});
      std::vector<c10::IValue> whole = with_weight(weight.codes, weight, in);
      whole.erase(whole.begin());
      whole.emplace_back(type);
      expect_workspace("plimsoll::dequantize_weight", whole);
    }
}

// For any number of rows, no matmul is larger than the measured one, and its scratch is added to our own.
TEST_P(QuantizedLinear, StatesWhatProductsOfSomebodyElseTake) {
  const int64_t tokens = 9000, in = 200, out = 300;
  const QuantizedTensors weight = quantize_weight(torch::zeros({out, in}), GetParam(), true);
  for (const std::string name : {"plimsoll::quantized_linear", "plimsoll::quantized_linear_backward"}) {
    const bool backward = name.ends_with("backward");
    const Tensor x = torch::zeros({tokens, backward ? out : in}, at::kBFloat16);
    const auto arguments = backward ? with_weight(x, weight, in) : with_weight(x, weight);
    const Op op = recorded(name, arguments, call(name, arguments));
    std::set<int64_t> rows;
    const auto greedy = [&](const LibraryMatmul& product) {
      rows.insert(product.left.sizes[0]);
      EXPECT_EQ(product.left.sizes[1], product.right.sizes[0]);
      EXPECT_EQ(product.result.sizes, (std::vector{product.left.sizes[0], product.right.sizes[1]}));
      return product.left.sizes[0] == kQuantizedProductRows ? int64_t{1 << 20} : int64_t{1 << 10};
    };
    const auto none = [](const LibraryMatmul&) { return int64_t{0}; };
    EXPECT_EQ(*cpu_workspace_bytes(op, 2, greedy), *cpu_workspace_bytes(op, 2, none) + (1 << 20));
    EXPECT_EQ(rows, (std::set<int64_t>{kQuantizedProductRows, tokens % kQuantizedProductRows}));
  }
}

// The rows are cut: every one is what it is alone.
TEST_P(QuantizedLinear, ManyRowsAreCutAndAllThere) {
  torch::manual_seed(6);
  const int64_t tokens = kQuantizedProductRows + 100, in = 66, out = 35;
  const QuantizedTensors weight = quantize_weight(torch::randn({out, in}), GetParam(), false);
  const Tensor exact = dequantize_weight(weight, in, at::kDouble);
  const Tensor x = torch::randn({tokens, in}).requires_grad_(true), grad = torch::randn({tokens, out});
  const Tensor y = quantized_linear(x, weight);
  y.backward(grad);
  expect_close(y, x.detach().to(at::kDouble).mm(exact.t()), 2e-5, "y");
  expect_close(x.grad(), grad.to(at::kDouble).mm(exact), 2e-5, "dx");
}

TEST_P(QuantizedLinear, KeepsNothingOfItsInput) {
  const QuantizedTensors weight = quantize_weight(torch::randn({8, 64}), GetParam(), false);
  Tensor x = torch::randn({4, 64}).requires_grad_(true) * 2;
  const c10::weak_intrusive_ptr<c10::TensorImpl> input(x.getIntrusivePtr());
  const Tensor y = quantized_linear(x, weight);
  x.reset();
  EXPECT_TRUE(input.expired()) << "the graph of y holds x";
  EXPECT_TRUE(y.requires_grad());
}

TEST_P(QuantizedLinear, AutocastLowersIt) {
  const QuantizedTensors weight = quantize_weight(torch::randn({8, 64}), GetParam(), false);
  const Tensor x = torch::randn({4, 64}).requires_grad_(true);
  Tensor y;
  {
    const Autocast autocast(at::kBFloat16);
    y = quantized_linear(x, weight);
  }
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  y.sum().backward();
  EXPECT_EQ(x.grad().scalar_type(), at::kFloat);
}

TEST_P(QuantizedLinear, TakesNothing) {
  const QuantizedTensors weight = quantize_weight(torch::randn({8, 64}), GetParam(), false);
  EXPECT_EQ(quantized_linear(torch::randn({0, 64}), weight).sizes(), (std::vector<int64_t>{0, 8}));
}

TEST_P(QuantizedLinear, RefusesWhatDoesNotBelongTogether) {
  const QuantizedTensors weight = quantize_weight(torch::randn({8, 130}), GetParam(), false);
  EXPECT_THROW(quantized_linear(torch::randn({4, 64}), weight), UserError);
  EXPECT_THROW(quantized_linear(torch::ones({4, 130}, at::kLong), weight), UserError);
  QuantizedTensors wrong = weight;
  wrong.scales = torch::ones({8, 2});
  EXPECT_THROW(quantized_linear(torch::randn({4, 130}), wrong), UserError);
  wrong = weight;
  wrong.second = torch::ones({2});
  EXPECT_THROW(quantized_linear(torch::randn({4, 130}), wrong), UserError);
  EXPECT_THROW(quantize_weight(torch::randn({8}), GetParam(), false), UserError);
  EXPECT_THROW(quantize_weight(torch::randn({8, 2}), "fp4", false), UserError);
}

INSTANTIATE_TEST_SUITE_P(Formats, QuantizedLinear, ::testing::Values("nf4", "int8"),
                         [](const auto& info) { return info.param; });

// A 4-bit weight of normal numbers is more exact than with 4 evenly spaced bits: the purpose of NormalFloat.
TEST(QuantizedLinearFormats, LoseWhatTheirBitsSay) {
  torch::manual_seed(6);
  const Tensor weight = torch::randn({64, 1024});
  const auto error = [&](const char* format) {
    const Tensor back = dequantize_weight(quantize_weight(weight, format, false), 1024, at::kFloat);
    return (back - weight).norm().item<double>() / weight.norm().item<double>();
  };
  EXPECT_LT(error("nf4"), 0.10);
  EXPECT_GT(error("nf4"), 0.05);
  EXPECT_LT(error("int8"), 0.01);
}

}  // namespace
}  // namespace plimsoll::ops
