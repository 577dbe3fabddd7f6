#include "ops/scan/causal_conv1d.h"

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

Tensor conv_reference(const Tensor& x, const Tensor& weight, const Tensor& bias, bool reverse) {
  const int64_t channels = weight.size(0), taps = weight.size(1);
  const Tensor in = (reverse ? x.flip(1) : x).transpose(1, 2);
  const int64_t one[] = {1}, none[] = {0};
  const Tensor padded = at::constant_pad_nd(in, {taps - 1, 0});
  const Tensor sums = at::conv1d(padded, weight.unsqueeze(1), bias, at::IntArrayRef(one), at::IntArrayRef(none),
                                 at::IntArrayRef(one), channels);
  const Tensor y = at::silu(sums).transpose(1, 2);
  return reverse ? y.flip(1) : y;
}

TEST(CausalConv1d, AgreesWithConvolutionAndSilu) {
  torch::manual_seed(1);
  for (const auto type : kTypes) {
    for (const auto weight_type : {type, type == at::kDouble ? at::kDouble : at::kFloat}) {
      for (const auto& [batch, time, channels, taps] :
           {std::tuple{1, 1, 1, 4}, {2, 2, 5, 4}, {3, 70, 16, 3}, {1, 200, 37, 4}, {2, 65, 48, 2}, {1, 9, 7, 1}}) {
        for (const bool reverse : {false, true}) {
          const Tensor x = torch::randn({batch, time, channels}, at::kDouble).to(type).requires_grad_(true);
          const Tensor weight = torch::randn({channels, taps}, at::kDouble).to(weight_type).requires_grad_(true);
          const Tensor bias = torch::randn({channels}, at::kDouble).to(weight_type).requires_grad_(true);
          std::vector<Tensor> exact;
          for (const Tensor& t : {x, weight, bias}) exact.push_back(t.detach().to(at::kDouble).requires_grad_(true));
          const Tensor grad = torch::randn(x.sizes(), at::kDouble).to(type);
          const Tensor y = causal_conv1d(x, weight, bias, reverse);
          const Tensor want = conv_reference(exact[0], exact[1], exact[2], reverse);
          EXPECT_EQ(y.scalar_type(), type);
          y.backward(grad);
          want.backward(grad.to(at::kDouble));
          expect_close(y, want, tolerance(type), "y");
          expect_close(x.grad(), exact[0].grad(), 2 * tolerance(type), "dx");
          expect_close(weight.grad(), exact[1].grad(), 2 * tolerance(type), "dweight", 0.1);
          expect_close(bias.grad(), exact[2].grad(), 2 * tolerance(type), "dbias", 0.1);
        }
      }
    }
  }
}

TEST(CausalConv1d, HasTheGradientOfFiniteDifferences) {
  const Threads one(1);  // thousands of small calls: waiting for a second thread would take longer than they do
  torch::manual_seed(2);
  for (const bool reverse : {false, true}) {
    const Tensor x = torch::randn({1, 7, 3}, at::kDouble).requires_grad_(true);
    const Tensor weight = torch::randn({3, 4}, at::kDouble).requires_grad_(true);
    const Tensor bias = torch::randn({3}, at::kDouble).requires_grad_(true);
    const Tensor factors = torch::randn(x.sizes(), at::kDouble);
    const auto value = [&] { return (causal_conv1d(x, weight, bias, reverse) * factors).sum(); };
    value().backward();
    const torch::NoGradGuard no_grad;
    for (const Tensor& operand : {x, weight, bias}) {
      Tensor flat = operand.view({-1});
      for (int64_t i = 0; i < flat.numel(); ++i) {
        const double before = flat[i].item<double>();
        const auto at = [&](double to) {
          flat[i].fill_(to);
          return value().item<double>();
        };
        const double slope = (at(before + 1e-5) - at(before - 1e-5)) / 2e-5;
        flat[i].fill_(before);
        EXPECT_NEAR(operand.grad().view({-1})[i].item<double>(), slope, 1e-7);
      }
    }
  }
}

TEST(CausalConv1d, TakesSlicesAndAnnouncesItsResultsAndItsWorkspace) {
  torch::manual_seed(3);
  for (const auto type : {at::kFloat, at::kBFloat16, at::kDouble}) {
    const Tensor wide = torch::randn({2, 150, 60}).to(type);
    for (const Tensor& x : {wide, wide.narrow(2, 7, 40), wide.transpose(1, 2), wide.slice(1, 0, 150, 2)}) {
      for (const int64_t taps : {2, 4}) {
        const Tensor weight = torch::randn({x.size(2), taps}).to(type), bias = torch::randn({x.size(2)}).to(type);
        const std::vector<c10::IValue> forward = {x, weight, bias, true};
        const Tensor y = call("plimsoll::causal_conv1d", forward)[0].toTensor();
        EXPECT_TRUE(at::equal(y, causal_conv1d(x.contiguous(), weight, bias, true)));
        expect_meta_agrees("plimsoll::causal_conv1d", forward);
        expect_workspace("plimsoll::causal_conv1d", forward);
        for (const Tensor& grad : {torch::randn(x.sizes()).to(type), torch::ones({}).to(type).expand(x.sizes())}) {
          const std::vector<c10::IValue> backward = {grad, x, weight, bias, true};
          expect_meta_agrees("plimsoll::causal_conv1d_backward", backward);
          expect_workspace("plimsoll::causal_conv1d_backward", backward);
        }
      }
    }
  }
}

TEST(CausalConv1d, DoesNotDependOnTheThreadCount) {
  torch::manual_seed(4);
  const std::vector<c10::IValue> backward = {torch::randn({2, 900, 40}), torch::randn({2, 900, 40}),
                                             torch::randn({40, 4}), torch::randn({40}), false};
  const auto with = [&](int threads) {
    const Threads guard(threads);
    return call("plimsoll::causal_conv1d_backward", backward);
  };
  const auto one = with(1), three = with(3);
  for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(at::equal(one[i].toTensor(), three[i].toTensor())) << i;
}

TEST(CausalConv1d, AutocastLowersWhatIsLarge) {
  const Tensor x = torch::randn({1, 20, 24}).requires_grad_(true), weight = torch::randn({24, 4}).requires_grad_(true);
  const Tensor bias = torch::randn({24}).requires_grad_(true);
  Tensor y;
  {
    const Autocast autocast(at::kBFloat16);
    y = causal_conv1d(x, weight, bias);
  }
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  y.sum().backward();
  for (const Tensor& each : {x, weight, bias}) EXPECT_EQ(each.grad().scalar_type(), at::kFloat);
}

TEST(CausalConv1d, RefusesWhatDoesNotAgree) {
  const Tensor x = torch::randn({2, 8, 6}), bias = torch::randn({6});
  EXPECT_THROW(causal_conv1d(x, torch::randn({5, 4}), bias), UserError);
  EXPECT_THROW(causal_conv1d(x, torch::randn({6, 5}), bias), UserError);
  EXPECT_THROW(causal_conv1d(x, torch::randn({6, 4}), torch::randn({5})), UserError);
  EXPECT_THROW(causal_conv1d(x, torch::randn({6, 4}, at::kDouble), bias), UserError);
}

}  // namespace
}  // namespace plimsoll::ops
