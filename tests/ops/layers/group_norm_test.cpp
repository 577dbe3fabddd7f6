#include "ops/layers/group_norm.h"

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

struct Case {
  std::vector<int64_t> sizes;
  int64_t groups;
  bool last;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {{2, 6, 5, 7}, 3, false}, {{2, 6, 5, 7}, 3, true},     {{3, 40, 9, 4}, 8, true}, {{1, 32, 33, 20}, 32, true},
      {{2, 32, 700}, 1, false}, {{2, 20, 3, 4, 5}, 4, true}, {{1, 17, 129}, 17, true}, {{4, 8, 1}, 2, false}};
  return all;
}

// Returns the values with the channels last in memory.
Tensor laid_out(const Tensor& x, bool last) {
  return last ? x.movedim(1, -1).contiguous().movedim(-1, 1) : x;
}

Tensor activated(const Tensor& z, Activation activation) {
  return activation == Activation::silu ? at::silu(z) : activation == Activation::relu ? at::relu(z) : z;
}

TEST(GroupNorm, AgreesWithLibtorchInDouble) {
  torch::manual_seed(1);
  for (const auto type : kTypes) {
    for (const auto& [sizes, groups, last] : cases()) {
      const Tensor x = laid_out(2 * torch::randn(sizes, at::kDouble) + 1, last).to(type).requires_grad_(true);
      const Tensor weight = torch::randn({sizes[1]}, at::kDouble).to(type).requires_grad_(true);
      const Tensor bias = torch::randn({sizes[1]}, at::kDouble).to(type).requires_grad_(true);
      std::vector<Tensor> exact;
      for (const Tensor& each : {x, weight, bias}) exact.push_back(each.detach().to(at::kDouble).requires_grad_(true));
      const Tensor grad = torch::randn(sizes, at::kDouble).to(type);
      const auto [y, mean, variance] = group_norm(x, weight, bias, groups, kNormEps);
      const Tensor want = at::group_norm(exact[0], groups, exact[1], exact[2], kNormEps);
      EXPECT_EQ(y.scalar_type(), type);
      EXPECT_EQ(y.strides(), x.strides());
      y.backward(grad);
      want.backward(grad.to(at::kDouble));
      expect_close(y, want, tolerance(type), "result");
      expect_close(x.grad(), exact[0].grad(), tolerance(type), "gradient of x");
      expect_close(weight.grad(), exact[1].grad(), tolerance(type), "gradient of the weight");
      expect_close(bias.grad(), exact[2].grad(), tolerance(type), "gradient of the bias");
      const Tensor rows = exact[0].detach().reshape({sizes[0], groups, -1});
      expect_close(mean, rows.mean(2), tolerance(type), "mean");
      expect_close(variance, rows.var(2, /*unbiased=*/false), tolerance(type), "variance");
    }
  }
}

TEST(GroupNorm, IsABatchNormOfAllSamples) {
  torch::manual_seed(5);
  const Tensor x = laid_out(2 * torch::randn({3, 20, 7, 5}) + 1, true).requires_grad_(true),
               grad = torch::randn({3, 20, 7, 5});
  const Tensor weight = torch::randn({20}).requires_grad_(true), bias = torch::randn({20}).requires_grad_(true);
  std::vector<Tensor> exact;
  for (const Tensor& each : {x, weight, bias}) exact.push_back(each.detach().to(at::kDouble).requires_grad_(true));
  Tensor y = std::get<0>(group_norm(x, weight, bias, 20, kNormEps, /*batch=*/true));
  EXPECT_EQ(y.strides(), x.strides());
  EXPECT_FALSE(y.is_view());
  const Tensor want = at::relu(at::batch_norm(exact[0], exact[1], exact[2], {}, {}, true, 0, kNormEps, false));
  y.relu_().backward(grad);
  want.backward(grad.to(at::kDouble));
  expect_close(y, want, 2e-5, "result");
  expect_close(x.grad(), exact[0].grad(), 2e-5, "gradient of x");
  expect_close(weight.grad(), exact[1].grad(), 2e-5, "gradient of the weight");
  expect_close(bias.grad(), exact[2].grad(), 2e-5, "gradient of the bias");
}

TEST(GroupNorm, ComputesActivationsOfItsResult) {
  torch::manual_seed(2);
  for (const Activation activation : {Activation::silu, Activation::relu}) {
    for (const auto& [sizes, groups, last] : cases()) {
      const Tensor x = laid_out(torch::randn(sizes), last), weight = torch::randn({sizes[1]}),
                   bias = torch::randn({sizes[1]});
      const Tensor exact = x.to(at::kDouble).requires_grad_(true), grad = laid_out(torch::randn(sizes), last);
      const Tensor want =
          activated(at::group_norm(exact, groups, weight.to(at::kDouble), bias.to(at::kDouble), kNormEps), activation);
      want.backward(grad.to(at::kDouble));
      const auto moments = call("plimsoll::group_moments", {x, groups, kNormEps});
      const auto kind = static_cast<int64_t>(activation);
      const Tensor y = call("plimsoll::group_normalize", {x, moments[0], moments[1], weight, bias, kind})[0].toTensor();
      const Tensor dx =
          call("plimsoll::group_norm_backward", {grad, x, moments[0], moments[1], weight, bias, kind})[0].toTensor();
      expect_close(y, want, 2e-5, "result");
      expect_close(dx, exact.grad(), 2e-5, "gradient");
    }
  }
}

TEST(GroupNorm, AnnouncesItsResultsAndScratchAndDoesNotDependOnThreads) {
  torch::manual_seed(3);
  for (const auto& [sizes, groups, last] : cases()) {
    const Tensor weight = torch::randn({sizes[1]}), bias = torch::randn({sizes[1]});
    for (const Tensor& x :
         {laid_out(torch::randn(sizes), last), torch::randn(sizes).transpose(0, 1).contiguous().transpose(0, 1)}) {
      const auto moments = call("plimsoll::group_moments", {x, groups, kNormEps});
      for (const Tensor& grad : {laid_out(torch::randn(sizes), last), torch::randn(sizes)}) {
        const std::vector<std::pair<std::string, std::vector<c10::IValue>>> calls = {
            {"plimsoll::group_moments", {x, groups, kNormEps}},
            {"plimsoll::group_normalize", {x, moments[0], moments[1], weight, bias, 1}},
            {"plimsoll::group_norm_backward", {grad, x, moments[0], moments[1], weight, bias, 1}}};
        for (const auto& [name, arguments] : calls) {
          expect_meta_agrees(name, arguments);
          expect_workspace(name, arguments);
          std::vector<c10::IValue> one, two;
          {
            const Threads threads(1);
            one = call(name, arguments);
          }
          const Threads threads(2);
          two = call(name, arguments);
          for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(at::equal(one[i].toTensor(), two[i].toTensor())) << name;
        }
      }
    }
  }
}

TEST(GroupNorm, KeepsDigitsOfALargeMean) {
  torch::manual_seed(4);
  for (const bool last : {false, true}) {
    const Tensor x = laid_out(torch::randn({2, 8, 40, 50}) + 300, last), one = at::ones({8}), zero = at::zeros({8});
    const Tensor want = at::group_norm(x.to(at::kDouble), 2, one.to(at::kDouble), zero.to(at::kDouble), kNormEps);
    expect_close(std::get<0>(group_norm(x, one, zero, 2, kNormEps)), want, 2e-5, "result");
  }
}

TEST(GroupNorm, RefusesShapesThatDoNotAgree) {
  const Tensor x = at::zeros({2, 6, 4});
  EXPECT_THAT(refusal_of([&] { group_norm(x, at::ones({6}), at::zeros({6}), 4, kNormEps); }),
              ::testing::AllOf(::testing::HasSubstr("plimsoll::group_moments"), ::testing::HasSubstr("4 groups")));
  EXPECT_THAT(refusal_of([&] { group_norm(x, at::ones({5}), at::zeros({5}), 3, kNormEps); }),
              ::testing::AllOf(::testing::HasSubstr("plimsoll::group_normalize"), ::testing::HasSubstr("[5]")));
}

}  // namespace
}  // namespace plimsoll::ops
