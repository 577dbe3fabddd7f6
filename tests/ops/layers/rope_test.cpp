#include "ops/layers/rope.h"

#include <gmock/gmock.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <set>

#include "ops/ops_testing.h"
#include "plimsoll/error.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;
using namespace testing;

Tensor turned(const Tensor& x, int64_t position, const Tensor& frequencies) {
  const int64_t half = x.size(3) / 2;
  const auto options = at::dtype(at::kDouble);
  const Tensor angles = (at::arange(x.size(1), options) + position).unsqueeze(1) * frequencies;
  const Tensor cosine = angles.cos().unsqueeze(1), sine = angles.sin().unsqueeze(1);
  const Tensor a = x.narrow(3, 0, half), b = x.narrow(3, half, half);
  return at::cat({a * cosine - b * sine, b * cosine + a * sine}, 3);
}

Tensor frequencies_of(int64_t width, double theta) {
  return at::pow(theta, -2.0 * at::arange(width / 2, at::dtype(at::kDouble)) / width);
}

Tensor rope_reference(const Tensor& x, int64_t position, double theta) {
  return turned(x, position, frequencies_of(x.size(3), theta));
}

TEST(Rope, AgreesWithItsParts) {
  torch::manual_seed(1);
  for (const auto type : kTypes) {
    for (const int64_t width : {2, 10, 32, 64, 70}) {
      for (const int64_t position : {0, 3, 100000}) {
        const Tensor x = torch::randn({2, 9, 3, width}, at::kDouble).to(type).requires_grad_(true);
        const Tensor exact = x.detach().to(at::kDouble).requires_grad_(true);
        const Tensor grad = torch::randn(x.sizes(), at::kDouble).to(type);
        const Tensor y = rope(x, position, 5e5), want = rope_reference(exact, position, 5e5);
        EXPECT_EQ(y.scalar_type(), type);
        y.backward(grad);
        want.backward(grad.to(at::kDouble));
        expect_close(y, want, tolerance(type), "result");
        expect_close(x.grad(), exact.grad(), tolerance(type), "gradient");
      }
    }
  }
}

// Every quadrant and both signs, to the last digits of float32.
TEST(Rope, SineAndCosineAreExactToFloat) {
  const Tensor x = torch::zeros({1, 5000, 1, 2});
  x.select(3, 0).fill_(1);
  const Tensor got = rope(x, 123456), want = rope_reference(x.to(at::kDouble), 123456, 1e4);
  EXPECT_LE((got.to(at::kDouble) - want).abs().max().item<double>(), 1.5e-7);
  const auto back = call("plimsoll::rope", {got, int64_t{123456}, 1e4, true, std::vector<double>{}})[0].toTensor();
  EXPECT_LE((back - x).abs().max().item<double>(), 4e-7);
}

// The formula of Llama 3.1's authors: by wavelengths, with a bend between the two kinds.
TEST(Rope, StretchesSlowFrequencies) {
  torch::manual_seed(4);
  const RopeFrequencies stretched{.theta = 5e5, .factor = 32, .low = 1, .high = 4, .original_length = 8192};
  const Tensor plain = frequencies_of(64, stretched.theta), wanted = at::empty_like(plain);
  std::set<int> kinds;
  for (int64_t i = 0; i < plain.size(0); ++i) {
    const double frequency = plain[i].item<double>(), wavelength = 2 * M_PI / frequency;
    if (wavelength < stretched.original_length / stretched.high) {
      wanted[i] = frequency;
      kinds.insert(0);
    } else if (wavelength > stretched.original_length / stretched.low) {
      wanted[i] = frequency / stretched.factor;
      kinds.insert(1);
    } else {
      const double smooth = (stretched.original_length / wavelength - stretched.low) / (stretched.high - stretched.low);
      wanted[i] = (1 - smooth) * frequency / stretched.factor + smooth * frequency;
      kinds.insert(2);
    }
  }
  EXPECT_EQ(kinds.size(), 3u);
  const Tensor x = torch::randn({1, 300, 2, 64}).requires_grad_(true), exact = x.detach().to(at::kDouble);
  exact.requires_grad_(true);
  const Tensor grad = torch::randn(x.sizes());
  const Tensor y = rope(x, 5, stretched), want = turned(exact, 5, wanted);
  y.backward(grad);
  want.backward(grad.to(at::kDouble));
  expect_close(y, want, 1e-5, "result");
  expect_close(x.grad(), exact.grad(), 1e-5, "gradient");
  EXPECT_FALSE(at::allclose(y, rope(x, 5, 5e5), 1e-2, 1e-2));
  expect_meta_agrees("plimsoll::rope", {x.detach(), int64_t{7}, 1e4, false, std::vector<double>{8, 1, 4, 8192}});
  EXPECT_THROW(rope(x, 0, RopeFrequencies{.factor = 0.5}), UserError);
  EXPECT_THROW(rope(x, 0, RopeFrequencies{.factor = 8, .low = 4, .high = 4}), UserError);
}

TEST(Rope, TakesAnyStridesAndAnnouncesItsResult) {
  torch::manual_seed(2);
  const Tensor wide = torch::randn({2, 8, 12, 16});
  for (const Tensor& x : {wide, wide.narrow(2, 3, 5), wide.transpose(1, 2), wide.narrow(3, 4, 8),
                          wide.permute({3, 1, 2, 0}), wide.narrow(0, 0, 1).expand({4, 8, 12, 16})}) {
    const Tensor y = rope(x, 7);
    EXPECT_TRUE(y.is_contiguous());
    EXPECT_TRUE(at::equal(y, rope(x.contiguous(), 7)));
    expect_meta_agrees("plimsoll::rope", {x, int64_t{7}, 1e4, false, std::vector<double>{}});
    expect_workspace("plimsoll::rope", {x, int64_t{7}, 1e4, false, std::vector<double>{}});
  }
}

TEST(Rope, RefusesWhatItCannotRotate) {
  EXPECT_THROW(rope(torch::randn({2, 3, 4})), UserError);
  EXPECT_THROW(rope(torch::randn({2, 3, 4, 5})), UserError);
  EXPECT_THROW(rope(torch::randn({2, 3, 4, 6}), 0, -1.0), UserError);
}

TEST(Rope, InPlaceHasTheSameBits) {
  torch::manual_seed(3);
  for (const auto type : kTypes)
    for (const bool inverse : {false, true}) {
      const Tensor packed = torch::randn({2, 9, 7, 10}).to(type), before = packed.clone();
      const Tensor heads = packed.narrow(2, 1, 4);
      rope_(heads, 5, {.theta = 5e5}, inverse);
      const std::vector<c10::IValue> arguments = {before.narrow(2, 1, 4), int64_t{5}, 5e5, inverse,
                                                  std::vector<double>{}};
      EXPECT_TRUE(at::equal(heads, call("plimsoll::rope", arguments)[0].toTensor()));
      EXPECT_TRUE(at::equal(packed.narrow(2, 0, 1), before.narrow(2, 0, 1)));
      EXPECT_TRUE(at::equal(packed.narrow(2, 5, 2), before.narrow(2, 5, 2)));
      expect_workspace("plimsoll::rope_", {heads, int64_t{5}, 5e5, inverse, std::vector<double>{8, 1, 4, 8192}});
    }
  EXPECT_THROW(rope_(torch::randn({2, 3, 6, 4}).transpose(2, 3), 0, {}, false), UserError);
  EXPECT_THROW(rope_(torch::randn({2, 3, 4, 5}), 0, {}, false), UserError);
}

}  // namespace
}  // namespace plimsoll::ops
