#include "ops/layers/rms_norm.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "ops/ops_testing.h"
#include "plimsoll/error.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;
using namespace testing;

Tensor rms_norm_reference(const Tensor& x, const Tensor& weight) {
  return x * at::rsqrt(x.pow(2).mean(-1, true) + kNormEps) * weight;
}

TEST(RmsNorm, AgreesWithItsParts) {
  torch::manual_seed(1);
  for (const auto type : kTypes) {
    for (const auto weight_type : {type, type == at::kDouble ? at::kDouble : at::kFloat}) {
      for (const int64_t width : {1, 5, 16, 448, 77}) {
        const Tensor x = torch::randn({3, 70, width}, at::kDouble).to(type).requires_grad_(true);
        const Tensor weight = (1 + 0.3 * torch::randn({width}, at::kDouble)).to(weight_type).requires_grad_(true);
        const Tensor exact = x.detach().to(at::kDouble).requires_grad_(true);
        const Tensor exact_weight = weight.detach().to(at::kDouble).requires_grad_(true);
        const Tensor grad = torch::randn(x.sizes(), at::kDouble).to(type);
        const Tensor y = rms_norm(x, weight, kNormEps), want = rms_norm_reference(exact, exact_weight);
        EXPECT_EQ(y.scalar_type(), type);
        y.backward(grad);
        want.backward(grad.to(at::kDouble));
        EXPECT_EQ(weight.grad().scalar_type(), weight_type);
        expect_close(y, want, tolerance(type), "result");
        // With one element the true gradient is nearly nothing: compared with the size of what cancels.
        expect_close(width == 1 ? x.grad() + 1 : x.grad(), width == 1 ? exact.grad() + 1 : exact.grad(),
                     2 * tolerance(type), "dx");
        expect_close(weight.grad(), exact_weight.grad(), 2 * tolerance(type), "dweight");
      }
    }
  }
}

// A row of zeros has no scale: its gradient is not multiplied by 1 / sqrt(eps). Other rows keep their bits.
TEST(RmsNorm, TheGradientOfARowOfZerosIsNotScaled) {
  torch::manual_seed(4);
  for (const auto type : kTypes) {
    for (const int64_t width : {1, 5, 16, 77}) {
      const Tensor weight = (1 + 0.3 * torch::randn({width}, at::kDouble)).to(type);
      const Tensor without = torch::randn({4, width}, at::kDouble).to(type), grad = torch::randn({4, width}).to(type);
      Tensor x = without.clone();
      x[1].zero_();
      const auto forward = [&](const Tensor& from) {
        return call("plimsoll::rms_norm", {from, weight, kNormEps, c10::IValue()});
      };
      const auto backward = [&](const Tensor& from, const Tensor& rstd) {
        return call("plimsoll::rms_norm_backward", {grad, from, weight, rstd})[0].toTensor();
      };
      const auto zeros = forward(x), others = forward(without);
      const Tensor dx = backward(x, zeros[1].toTensor()), defaults = backward(without, others[1].toTensor());
      EXPECT_TRUE(at::equal(zeros[0].toTensor()[1], at::zeros({width}, type)));
      expect_close(dx[1], (grad[1].to(at::kDouble) * weight.to(at::kDouble)).to(type), tolerance(type), "dx");
      for (const int64_t row : {0, 2, 3}) {
        EXPECT_TRUE(at::equal(zeros[0].toTensor()[row], others[0].toTensor()[row]));
        EXPECT_TRUE(at::equal(dx[row], defaults[row]));
      }
    }
  }
}

// libtorch scales it.
TEST(RmsNorm, WithANegativeEpsTheGradientOfARowOfZerosIsScaled) {
  torch::manual_seed(5);
  for (const auto type : kTypes) {
    const Tensor weight = (1 + 0.3 * torch::randn({77}, at::kDouble)).to(type), grad = torch::randn({4, 77}).to(type);
    Tensor x = torch::randn({4, 77}, at::kDouble).to(type);
    const auto forward = [&](double eps) { return call("plimsoll::rms_norm", {x, weight, eps, c10::IValue()}); };
    EXPECT_TRUE(at::equal(forward(kNormEps)[0].toTensor(), forward(-kNormEps)[0].toTensor()));
    x[1].zero_();
    const auto results = forward(-kNormEps);
    EXPECT_TRUE(at::equal(results[0].toTensor(), forward(kNormEps)[0].toTensor()));
    const Tensor dx = call("plimsoll::rms_norm_backward", {grad, x, weight, results[1]})[0].toTensor();
    const Tensor want = grad[1].to(at::kDouble) * weight.to(at::kDouble) / std::sqrt(kNormEps);
    expect_close(dx[1], want.to(type), tolerance(type), "dx");
  }
}

TEST(RmsNorm, WritesTheTypeItIsAskedFor) {
  const Tensor x = torch::randn({4, 48}), weight = torch::randn({48});
  for (const auto type : {at::kBFloat16, at::kHalf, at::kFloat}) {
    const auto results = call("plimsoll::rms_norm", {x, weight, kNormEps, type});
    EXPECT_TRUE(at::equal(results[0].toTensor(), rms_norm(x, weight, kNormEps).to(type)));
    const Tensor grad = torch::randn({4, 48}).to(type);
    const auto gradients = call("plimsoll::rms_norm_backward", {grad, x, weight, results[1]});
    EXPECT_EQ(gradients[0].toTensor().scalar_type(), at::kFloat);
    expect_meta_agrees("plimsoll::rms_norm", {x, weight, kNormEps, type});
    expect_meta_agrees("plimsoll::rms_norm_backward", {grad, x, weight, results[1]});
  }
}

TEST(RmsNorm, TakesAnyStrides) {
  torch::manual_seed(2);
  const Tensor wide = torch::randn({6, 8, 40}), weights = torch::randn({40, 2});
  for (const Tensor& x :
       {wide, wide.narrow(2, 8, 24), wide.transpose(0, 1), wide.permute({1, 2, 0}), wide.slice(1, 0, 8, 2),
        wide.select(0, 0), wide.select(0, 0).select(0, 0), wide.narrow(1, 0, 1).expand({6, 5, 40})}) {
    const Tensor weight = weights.select(1, 0).narrow(0, 0, x.size(-1));
    const auto results = call("plimsoll::rms_norm", {x, weight, kNormEps, c10::IValue()});
    EXPECT_TRUE(results[0].toTensor().is_contiguous());
    EXPECT_TRUE(at::equal(results[0].toTensor(), rms_norm(x.contiguous(), weight.contiguous(), kNormEps)));
    const Tensor grad = torch::ones({}).expand(x.sizes());
    expect_meta_agrees("plimsoll::rms_norm", {x, weight, kNormEps, c10::IValue()});
    expect_workspace("plimsoll::rms_norm", {x, weight, kNormEps, c10::IValue()});
    expect_workspace("plimsoll::rms_norm", {x, weight.to(at::kHalf), kNormEps, c10::IValue()});
    expect_meta_agrees("plimsoll::rms_norm_backward", {grad, x, weight, results[1]});
    expect_workspace("plimsoll::rms_norm_backward", {grad, x, weight, results[1]});
  }
}

TEST(RmsNorm, WeightGradientDoesNotDependOnTheThreadCount) {
  torch::manual_seed(3);
  const Tensor x = torch::randn({3000, 64}), weight = torch::randn({64}), grad = torch::randn({3000, 64});
  const Tensor rstd = call("plimsoll::rms_norm", {x, weight, kNormEps, c10::IValue()})[1].toTensor();
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const Tensor one = call("plimsoll::rms_norm_backward", {grad, x, weight, rstd})[1].toTensor();
  at::set_num_threads(3);
  const Tensor three = call("plimsoll::rms_norm_backward", {grad, x, weight, rstd})[1].toTensor();
  at::set_num_threads(before);
  EXPECT_TRUE(at::equal(one, three));
}

TEST(RmsNorm, AutocastLowersTheResultOnly) {
  const Tensor x = torch::randn({4, 32}).requires_grad_(true), weight = torch::ones({32}).requires_grad_(true);
  Tensor y;
  {
    const Autocast autocast(at::kBFloat16);
    y = rms_norm(x, weight, kNormEps);
  }
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(at::equal(y, rms_norm(x, weight, kNormEps).to(at::kBFloat16)));
  y.sum().backward();
  EXPECT_EQ(x.grad().scalar_type(), at::kFloat);
  EXPECT_EQ(weight.grad().scalar_type(), at::kFloat);
}

TEST(RmsNorm, RefusesWhatDoesNotAgree) {
  EXPECT_THROW(rms_norm(torch::randn({2, 8}), torch::randn({7})), UserError);
  EXPECT_THROW(rms_norm(torch::randn({2, 8}), torch::randn({8}, at::kDouble)), UserError);
  EXPECT_THROW(rms_norm(torch::ones({2, 8}, at::kLong), torch::randn({8})), UserError);
}

}  // namespace
}  // namespace plimsoll::ops
