// Tests operators whose kernels choose the output's layout by their input's strides: their results are right, and at
// the planned place.
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "run/equality.h"

namespace plimsoll {
namespace {

using torch::Tensor;

struct LayoutCase {
  const char* name;
  std::vector<int64_t> x, weight;
  std::function<Tensor(const Tensor& x, const Tensor& weight)> run;
};

std::vector<LayoutCase> cases() {
  const auto channels_last = [](const Tensor& t) { return t.permute({0, 2, 3, 1}).contiguous().permute({0, 3, 1, 2}); };
  return {
      {"batch norm of a transposed sequence",
       {3, 7, 5},
       {5},
       [](const Tensor& x, const Tensor& w) {
         return std::get<0>(at::native_batch_norm(x.transpose(1, 2), w, {}, {}, {}, true, 0.1, 1e-5));
       }},
      {"conv1d of a transposed sequence",
       {3, 9, 5},
       {4, 5, 3},
       [](const Tensor& x, const Tensor& w) { return at::conv1d(x.transpose(1, 2), w, {}, 1, 1); }},
      {"conv2d, channels last",
       {2, 3, 9, 8},
       {6, 3, 3, 3},
       [=](const Tensor& x, const Tensor& w) { return at::conv2d(channels_last(x), w, {}, 1, 1); }},
      {"conv2d, a weight with channels last",
       {2, 3, 9, 8},
       {6, 3, 3, 3},
       [=](const Tensor& x, const Tensor& w) { return at::conv2d(x, channels_last(w), {}, 1, 1); }},
      {"where, transposed",
       {6, 4},
       {4, 6},
       [](const Tensor& x, const Tensor& w) { return at::where(x.t() > 0.5, x.t(), w); }},
      {"losses without reduction, transposed",
       {6, 4},
       {4, 6},
       [](const Tensor& x, const Tensor& w) {
         return at::mse_loss(x.t(), w, at::Reduction::None) + at::huber_loss(x.t(), w, at::Reduction::None) +
                at::smooth_l1_loss(x.t(), w, at::Reduction::None);
       }},
      {"roll and log_sigmoid, transposed",
       {6, 4},
       {4, 6},
       [](const Tensor& x, const Tensor& w) { return at::log_sigmoid(x.t().roll(1, 0) * w); }},
      {"layer norm and pooling, transposed",
       {2, 8, 6, 5},
       {8},
       [](const Tensor& x, const Tensor& w) {
         return at::layer_norm(x.transpose(1, 3), {8}, w, {}) +
                at::adaptive_avg_pool2d(x.transpose(2, 3), {2, 2}).sum();
       }},
      {"an index of the user's own",
       {6, 4},
       {3, 4},
       [](const Tensor& x, const Tensor& w) {
         return x.index({torch::tensor({0, 2, 5})}) * w;
       }},
      {"joined with a tensor of the user's own",
       {2, 3},
       {4, 3},
       [](const Tensor& x, const Tensor& w) {
         return torch::cat({x, torch::tensor({{1., 2., 3.}, {4., 5., 6.}})}) * w;
       }},
  };
}

struct Weighted : torch::nn::Module {
  explicit Weighted(const LayoutCase& c) : weight(register_parameter("weight", torch::rand(c.weight))) {}
  Tensor weight;
};

class Layouts : public ::testing::TestWithParam<size_t> {};

TEST_P(Layouts, ReplayIsEager) {
  const LayoutCase c = cases()[GetParam()];
  SCOPED_TRACE(c.name);
  torch::manual_seed(5);
  // The input goes through an operator so that its gradient is computed too.
  Step step;
  step.model = [&] { return std::make_shared<Weighted>(c); };
  step.inputs = {{"x", c.x, torch::kFloat32}};
  step.loss = [&](torch::nn::Module& module, const StepInputs& in) {
    const Tensor& weight = static_cast<Weighted&>(module).weight;
    return c.run(in["x"] * weight.mean(), weight).square().sum();
  };
  testing::expect_equal(
      step, {},
      [&] {
        return testing::Batch{{"x", torch::rand(c.x)}};
      },
      2, 1);
}

INSTANTIATE_TEST_SUITE_P(Cases, Layouts, ::testing::Range<size_t>(0, cases().size()));

}  // namespace
}  // namespace plimsoll
