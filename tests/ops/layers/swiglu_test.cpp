#include "ops/layers/swiglu.h"

#include <gmock/gmock.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "ops/ops_testing.h"
#include "plimsoll/error.h"
#include "refusals.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;
using namespace testing;

Tensor swiglu_reference(const Tensor& gate_up) {
  const auto halves = gate_up.chunk(2, -1);
  return at::silu(halves[0]) * halves[1];
}

Tensor geglu_reference(const Tensor& gate_up) {
  const auto halves = gate_up.chunk(2, -1);
  return at::gelu(halves[0], "tanh") * halves[1];
}

TEST(Swiglu, AgreesWithItsParts) {
  torch::manual_seed(1);
  for (const auto type : kTypes) {
    for (const int64_t width : {1, 7, 16, 40, 100}) {
      const Tensor x = (3 * torch::randn({3, 5, 2 * width}, at::kDouble)).to(type).requires_grad_(true);
      const Tensor exact = x.detach().to(at::kDouble).requires_grad_(true);
      const Tensor grad = torch::randn({3, 5, width}, at::kDouble).to(type);
      const Tensor y = swiglu(x), want = swiglu_reference(exact);
      EXPECT_EQ(y.scalar_type(), type);
      y.backward(grad);
      want.backward(grad.to(at::kDouble));
      expect_close(y, want, tolerance(type), "result");
      expect_close(x.grad(), exact.grad(), tolerance(type), "gradient");
    }
  }
}

TEST(Geglu, AgreesWithItsParts) {
  torch::manual_seed(3);
  for (const auto type : kTypes) {
    for (const int64_t width : {1, 7, 16, 40, 100}) {
      const Tensor x = (3 * torch::randn({3, 5, 2 * width}, at::kDouble)).to(type).requires_grad_(true);
      const Tensor exact = x.detach().to(at::kDouble).requires_grad_(true);
      const Tensor grad = torch::randn({3, 5, width}, at::kDouble).to(type);
      const Tensor y = geglu(x), want = geglu_reference(exact);
      EXPECT_EQ(y.scalar_type(), type);
      y.backward(grad);
      want.backward(grad.to(at::kDouble));
      expect_close(y, want, tolerance(type), "result");
      expect_close(x.grad(), exact.grad(), tolerance(type), "gradient");
    }
  }
}

// Each element separately, and compared with differences of the function.
TEST(Geglu, ItsGradientIsTheDifferenceOfItsValues) {
  torch::manual_seed(4);
  const Tensor x = (2 * torch::randn({1, 24}, at::kDouble)).requires_grad_(true);
  const Tensor direction = torch::randn({1, 12}, at::kDouble);
  (geglu(x) * direction).sum().backward();
  const at::NoGradGuard no_grad;
  for (int64_t i = 0; i < 24; ++i) {
    Tensor step = at::zeros_like(x);
    step[0][i] = 1e-5;
    const double up = (geglu(x + step) * direction).sum().item<double>();
    const double down = (geglu(x - step) * direction).sum().item<double>();
    EXPECT_NEAR(x.grad()[0][i].item<double>(), (up - down) / 2e-5, 1e-7) << i;
  }
}

TEST(Geglu, AnnouncesItsResultsAndStaysFiniteAtTheEnds) {
  const Tensor wide = torch::randn({6, 4, 64});
  for (const Tensor& x : {wide.narrow(2, 8, 32), wide.permute({2, 0, 1})}) {
    const Tensor grad = torch::randn({x.size(-1) / 2}).expand(geglu(x).sizes());
    expect_meta_agrees("plimsoll::geglu", {x});
    expect_meta_agrees("plimsoll::geglu_backward", {grad, x});
    expect_workspace("plimsoll::geglu", {x});
    expect_workspace("plimsoll::geglu_backward", {grad, x});
  }
  const Tensor x =
      torch::tensor({-1e30f, -200.f, -10.f, 0.f, 100.f, 1e30f, 1.f, 1.f, 1.f, 1.f, 1.f, 1.f}).requires_grad_(true);
  const Tensor y = geglu(x);
  y.sum().backward();
  EXPECT_TRUE(at::isfinite(y).all().item<bool>()) << y;
  EXPECT_TRUE(at::isfinite(x.grad()).all().item<bool>()) << x.grad();
  EXPECT_NEAR(y[1].item<float>(), 0.0f, 1e-30f);
  EXPECT_EQ(y[4].item<float>(), 100.0f);
  EXPECT_TRUE(at::isnan(geglu(torch::tensor({NAN, 1.f}))).all().item<bool>());
}

TEST(Swiglu, TakesAnyStrides) {
  torch::manual_seed(2);
  const Tensor wide = torch::randn({6, 4, 64});
  for (const Tensor& x : {wide.narrow(2, 8, 32), wide.transpose(0, 1), wide.permute({2, 0, 1}), wide.select(0, 1).t(),
                          wide.narrow(0, 0, 1).expand({3, 4, 64}), wide.slice(1, 0, 4, 2)}) {
    const Tensor in = x.contiguous();
    expect_close(swiglu(x), swiglu_reference(in), 2e-5, "strided");
    const Tensor grad = torch::randn({x.size(-1) / 2}).expand(swiglu(x).sizes());
    const auto got = call("plimsoll::swiglu_backward", {grad, x})[0].toTensor();
    const auto same = call("plimsoll::swiglu_backward", {grad.contiguous(), in})[0].toTensor();
    EXPECT_TRUE(at::equal(got, same));
    expect_meta_agrees("plimsoll::swiglu", {x});
    expect_meta_agrees("plimsoll::swiglu_backward", {grad, x});
    expect_workspace("plimsoll::swiglu", {x});
    expect_workspace("plimsoll::swiglu_backward", {grad, x});
  }
}

TEST(Swiglu, StaysFiniteAtTheEnds) {
  const Tensor x =
      torch::tensor({-1e30f, -200.f, -100.f, 0.f, 100.f, 1e30f, 1.f, 1.f, 1.f, 1.f, 1.f, 1.f}).requires_grad_(true);
  const Tensor y = swiglu(x);
  y.sum().backward();
  EXPECT_TRUE(at::isfinite(y).all().item<bool>()) << y;
  EXPECT_TRUE(at::isfinite(x.grad()).all().item<bool>()) << x.grad();
  EXPECT_EQ(y[1].item<float>(), 0.0f);
  EXPECT_TRUE(at::isnan(swiglu(torch::tensor({NAN, 1.f}))).all().item<bool>());
}

TEST(Swiglu, RunsInItsOwnTypeUnderAutocast) {
  const Autocast autocast(at::kBFloat16);
  EXPECT_EQ(swiglu(torch::randn({2, 8})).scalar_type(), at::kFloat);
}

TEST(Swiglu, RefusesAnOddWidth) {
  EXPECT_THAT(refusal_of([] {
                swiglu(torch::randn({2, 7}));
              }),
              ::testing::AllOf(::testing::HasSubstr("plimsoll::swiglu"), ::testing::HasSubstr("[2, 7]")));
  EXPECT_THROW(swiglu(torch::ones({2, 8}, at::kInt)), UserError);
}

}  // namespace
}  // namespace plimsoll::ops
