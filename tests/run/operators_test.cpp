// Tests operator families that models use: replay equals eager autograd bit for bit, forward, backward and update.
// at::scaled_dot_product_attention is left out, because libtorch uses another algorithm on each device (ops::attention
// is recorded whole).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/fft.h>
#include <torch/nn/functional.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "plimsoll/training.h"
#include "run/equality.h"

namespace plimsoll {
namespace {

namespace F = torch::nn::functional;
using testing::Batch;
using testing::EagerStep;
using testing::same_bits;
using torch::Tensor;
using Tensors = std::vector<Tensor>;

/// A module with only parameters p0, p1, … of the given sizes.
struct Parameters : torch::nn::Module {
  explicit Parameters(const std::vector<std::vector<int64_t>>& sizes) {
    for (size_t i = 0; i < sizes.size(); ++i)
      all.push_back(register_parameter("p" + std::to_string(i), torch::empty(sizes[i]).uniform_(-1, 1)));
  }
  Tensors all;
};

struct Family {
  std::string name;
  std::vector<std::vector<int64_t>> sizes;
  std::function<Tensor(const Tensors& p, const Tensor& x, const Tensor& i)>
      run;  // x: float [6, 4], i: int64 [6] in [0, 4)
};

std::vector<Family> families() {
  return {
      {"linear and bias", {{5, 4}, {5}}, [](auto& p, auto& x, auto&) { return torch::linear(x, p[0], p[1]); }},
      {"three-dimensional linear",
       {{5, 4}, {5}},
       [](auto& p, auto& x, auto&) {
         return torch::linear(x.view({2, 3, 4}), p[0], p[1]);
       }},
      {"layer_norm",
       {{4}, {4}, {6, 4}},
       [](auto& p, auto& x, auto&) { return torch::layer_norm(x * p[2], {4}, p[0], p[1]); }},
      {"group_norm",
       {{4}, {4}, {3, 4, 2}},
       [](auto& p, auto&, auto&) { return torch::group_norm(p[2], 2, p[0], p[1]); }},
      {"batch_norm",
       {{4}, {4}},
       [](auto& p, auto& x, auto&) {
         return torch::batch_norm(x, p[0], p[1], torch::zeros({4}), torch::ones({4}), true, 0.1, 1e-5, false);
       }},
      {"embedding", {{4, 3}}, [](auto& p, auto&, auto& i) { return torch::embedding(p[0], i); }},
      {"conv1d",
       {{6, 4, 3}, {6}},
       [](auto& p, auto& x, auto&) {
         return torch::conv1d(x.t().reshape({1, 4, 6}), p[0], p[1], 1, 1);
       }},
      {"conv2d",
       {{3, 1, 3, 3}, {3}, {2, 1, 7, 6}},
       [](auto& p, auto&, auto&) { return torch::conv2d(p[2], p[0], p[1], 2, 1); }},
      {"conv_transpose2d",
       {{2, 3, 3, 3}, {3}, {2, 2, 4, 4}},
       [](auto& p, auto&, auto&) { return torch::conv_transpose2d(p[2], p[0], p[1], 2); }},
      {"pooling",
       {{2, 3, 8, 8}},
       [](auto& p, auto&, auto&) {
         return torch::max_pool2d(p[0], 2).sum() + torch::avg_pool2d(p[0], 2).sum() +
                torch::adaptive_avg_pool2d(p[0], {2, 2}).sum();
       }},
      {"interpolate",
       {{2, 3, 4, 4}},
       [](auto& p, auto&, auto&) {
         return F::interpolate(p[0], F::InterpolateFuncOptions()
                                         .scale_factor(std::vector<double>{2, 2})
                                         .mode(torch::kBilinear)
                                         .align_corners(false));
       }},
      {"softmaxes", {{6, 4}}, [](auto& p, auto& x, auto&) { return (x * p[0]).softmax(-1) * p[0].log_softmax(0); }},
      {"activations",
       {{6, 4}},
       [](auto& p, auto& x, auto&) {
         return torch::gelu(p[0]) * torch::silu(x * p[0]) + torch::mish(p[0]) + torch::relu(p[0]) + p[0].tanh() +
                p[0].sigmoid() + torch::leaky_relu(p[0]) + torch::elu(p[0]) + torch::softplus(p[0]) +
                torch::log_sigmoid(p[0]);
       }},
      {"losses",
       {{6, 4}},
       [](auto& p, auto& x, auto& i) {
         return torch::mse_loss(p[0], x) + torch::l1_loss(p[0], x) + torch::huber_loss(p[0], x) +
                torch::smooth_l1_loss(p[0], x) + torch::cross_entropy_loss(p[0], i) +
                torch::binary_cross_entropy_with_logits(p[0], x.sigmoid());
       }},
      {"where and comparison",
       {{6, 4}, {4}},
       [](auto& p, auto& x, auto&) { return torch::where(x > 0.5, p[0], p[1]); }},
      {"indexing",
       {{6, 4}},
       [](auto& p, auto&, auto& i) {
         return p[0].index({i}).sum() + p[0].index_select(0, i).sum() + p[0].gather(1, i.view({6, 1})).sum();
       }},
      {"statistics",
       {{6, 4}},
       [](auto& p, auto&, auto&) {
         return p[0].var(1).sum() + p[0].std(0).sum() + p[0].mean() + p[0].amax(0).sum() + p[0].logsumexp(1).sum() +
                p[0].norm();
       }},
      {"scans and rearrangements",
       {{6, 4}},
       [](auto& p, auto& x, auto&) { return (p[0].cumsum(1) + p[0].flip(0) + p[0].roll(1, 0)) * x; }},
      {"cat, stack, split",
       {{6, 4}},
       [](auto& p, auto& x, auto&) {
         return torch::cat({p[0], x}).sum() + (torch::stack({x, p[0]}) * 2).sum() + p[0].split(2)[1].sum() +
                p[0].chunk(2, 1)[0].square().sum();
       }},
      {"batched products",
       {{2, 3, 4}, {2, 4, 5}},
       [](auto& p, auto&, auto&) {
         return torch::bmm(p[0], p[1]) + torch::einsum("bij,bjk->bik", {p[0], p[1]});
       }},
      {"masks and padding",
       {{6, 4}},
       [](auto& p, auto& x, auto&) {
         return torch::constant_pad_nd(p[0].masked_fill(x > 0.5, 1.0).tril(), {1, 2});
       }},
      {"in place",
       {{6, 4}},
       [](auto& p, auto& x, auto&) {
         auto y = p[0] * x;
         y.add_(1).mul_(x);
         return y;
       }},
      {"constants of the step",
       {{6, 4}},
       [](auto& p, auto&, auto&) {
         return p[0] * torch::arange(4) + torch::tensor({1.0f, 2.0f, 3.0f, 4.0f});
       }},
      {"powers and roots",
       {{6, 4}},
       [](auto& p, auto& x, auto&) {
         return (p[0].square() + 1).sqrt() * x.pow(3) + (p[0].abs() + 1).log() + p[0].exp() + (p[0] + 3).rsqrt() +
                p[0].clamp(-0.5, 0.5);
       }},
      {"further activations",
       {{6, 4}, {4}},
       [](auto& p, auto& x, auto&) {
         return F::prelu(p[0], p[1]) + torch::hardtanh(p[0], -0.5, 0.5) + torch::hardswish(x * p[0]) +
                torch::glu(torch::cat({p[0], x}, 1), 1);
       }},
      {"further losses",
       {{6, 4}, {2, 3, 4, 2}},
       [](auto& p, auto& x, auto& i) {
         return torch::binary_cross_entropy(p[0].sigmoid(), x) +
                torch::nll_loss2d(p[1], i.remainder(3).view({1, 3, 2}).repeat({2, 2, 1}).narrow(1, 0, 4));
       }},
      {"grid samples and padding",
       {{2, 3, 5, 4}, {2, 4, 4, 2}},
       [](auto& p, auto&, auto&) {
         return torch::grid_sampler(torch::reflection_pad2d(p[0], {1, 1, 2, 0}), p[1], 0, 0, true) *
                torch::replication_pad2d(p[0], {0, 0, 0, 0}).mean();
       }},
      {"columns, pools of volumes, distances",
       {{2, 3, 6, 4}, {1, 2, 4, 4, 4}, {5, 3}},
       [](auto& p, auto&, auto&) {
         const Tensor columns = torch::im2col(p[0], {3, 2}, {1, 1}, {1, 0}, {1, 1});
         return torch::col2im(columns * 2, {6, 4}, {3, 2}, {1, 1}, {1, 0}, {1, 1}).sum() +
                torch::max_pool3d(p[1], {2, 2, 2}).sum() + torch::cdist(p[2], p[2] * 2, 1.0).sum() +
                torch::pdist(p[2], 1.0).sum();
       }},
      {"Fourier transforms",
       {{6, 4, 8}},
       [](auto& p, auto&, auto&) {
         const Tensor half = torch::fft::rfft2(p[0].permute({1, 2, 0}));
         return torch::fft::irfft2(half * half) + torch::fft::ifft(half).abs().sum();
       }},
      {"norms of weights, dot products",
       {{6, 4}, {6, 1}, {4}},
       [](auto& p, auto& x, auto&) {
         const Tensor w = torch::_weight_norm(p[0], p[1], 0);
         return x.mm(w.t()).sum() + p[2].dot(x[0]) + w.narrow(0, 0, 4).trace();
       }},
      {"topk and sort",
       {{6, 4}},
       [](auto& p, auto&, auto&) {
         return std::get<0>(p[0].topk(2)).sum() + (std::get<0>(p[0].sort(1)) * torch::arange(4)).sum();
       }},
  };
}

class Operators : public ::testing::TestWithParam<size_t> {};

TEST_P(Operators, ReplayIsEager) {
  const Family family = families()[GetParam()];
  SCOPED_TRACE(family.name);
  torch::manual_seed(static_cast<int64_t>(GetParam()));
  Step step;
  step.model = [&] { return std::make_shared<Parameters>(family.sizes); };
  step.inputs = {{"x", {6, 4}, torch::kFloat32}, {"i", {6}, torch::kInt64}};
  step.loss = [&](torch::nn::Module& module, const StepInputs& in) {
    return family.run(static_cast<Parameters&>(module).all, in["x"], in["i"]).square().sum();
  };
  Training training(step, {});
  training.start();
  EagerStep eager(step, {});
  eager.copy_from(training);
  for (int i = 0; i < 3; ++i) {
    const Batch batch{{"x", torch::rand({6, 4})}, {"i", torch::randint(4, {6}, torch::kLong)}};
    const StepResult result = training.step({batch}, 1e-2);
    EXPECT_EQ(result.loss, eager.step({batch}, 1e-2));
    EXPECT_FALSE(result.skipped);
    const auto reference = eager.state();
    for (const auto& [name, tensor] : training.state())
      EXPECT_TRUE(same_bits(tensor, reference.at(name))) << name << " after step " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Operators, ::testing::Range<size_t>(0, families().size()));

// Dropout draws its numbers from (seed, step, micro batch, op): the same with and without recomputation, others in the
// next step.
TEST(Random, DropoutIsTheSameUnderRecomputation) {
  struct Block : torch::nn::Module {
    torch::nn::Linear layer = register_module("layer", torch::nn::Linear(16, 16));
  };
  struct Net : torch::nn::Module {
    torch::nn::ModuleList layers = register_module("layers", torch::nn::ModuleList());
    Net() {
      for (int i = 0; i < 3; ++i) layers->push_back(std::make_shared<Block>());
    }
  };
  std::vector<std::vector<double>> losses;
  for (Choice choice : {Choice::off, Choice::on}) {
    Step step;
    step.model = [] { return std::make_shared<Net>(); };
    step.inputs = {{"x", {8, 16}, torch::kFloat32}};
    step.loss = [](torch::nn::Module& module, const StepInputs& in) {
      Tensor x = in["x"];
      for (const auto& block : *static_cast<Net&>(module).layers)
        x = torch::dropout(torch::gelu(block->as<Block>()->layer(x)), 0.5, true) + x;
      return x.square().mean();
    };
    TrainingOptions options;
    options.gradient_checkpointing = choice;
    options.seed = 11;
    Training training(step, options);
    EXPECT_EQ(training.plan().checkpointed, choice == Choice::on);
    training.start();
    losses.emplace_back();
    for (int i = 0; i < 5; ++i) losses.back().push_back(training.step({{{"x", torch::ones({8, 16})}}}, 0.0).loss);
  }
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_NE(losses[0][0], losses[0][1]);
}

}  // namespace
}  // namespace plimsoll
