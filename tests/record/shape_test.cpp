// Tests that the shapes that the plan device infers are the shapes of the CPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/functional.h>
#include <torch/types.h>

#include "plimsoll/error.h"
#include "record/recording.h"
#include "record/shape_family.h"

namespace plimsoll {
namespace {

namespace F = torch::nn::functional;
using torch::Tensor;

using testing::Family;
using testing::leaf;
using testing::with_gradients;

// One entry for each operator family that models use.
std::vector<Family> families() {
  const auto indices = [](std::vector<int64_t> sizes, int64_t end) { return torch::randint(end, sizes, torch::kLong); };
  return {
      {"linear",
       [] {
         auto x = leaf({2, 3, 4}), w = leaf({5, 4}), b = leaf({5});
         return with_gradients(torch::linear(x, w, b), {x, w, b});
       }},
      {"layer_norm",
       [] {
         auto x = leaf({2, 3, 4}), w = leaf({4}), b = leaf({4});
         return with_gradients(torch::layer_norm(x, {4}, w, b), {x, w, b});
       }},
      {"layer_norm without weight",
       [] {
         auto x = leaf({2, 3, 4});
         return with_gradients(torch::layer_norm(x, {3, 4}), {x});
       }},
      {"group_norm",
       [] {
         auto x = leaf({2, 8, 5}), w = leaf({8}), b = leaf({8});
         return with_gradients(torch::group_norm(x, 4, w, b), {x, w, b});
       }},
      {"batch_norm",
       [] {
         auto x = leaf({2, 8, 5, 3}), w = leaf({8}), b = leaf({8});
         auto m = torch::zeros({8}), v = torch::ones({8});
         return with_gradients(torch::batch_norm(x, w, b, m, v, true, 0.1, 1e-5, false), {x, w, b});
       }},
      {"embedding",
       [=] {
         auto w = leaf({11, 4});
         return with_gradients(torch::embedding(w, indices({2, 3}, 11)), {w});
       }},
      {"conv1d",
       [] {
         auto x = leaf({2, 4, 9}), w = leaf({6, 4, 3}), b = leaf({6});
         return with_gradients(torch::conv1d(x, w, b, 2, 1), {x, w, b});
       }},
      {"conv2d",
       [] {
         auto x = leaf({2, 4, 9, 8}), w = leaf({6, 2, 3, 3});
         return with_gradients(torch::conv2d(x, w, {}, 1, 1, 1, 2), {x, w});
       }},
      {"conv_transpose2d",
       [] {
         auto x = leaf({2, 4, 5, 5}), w = leaf({4, 3, 3, 3}), b = leaf({3});
         return with_gradients(torch::conv_transpose2d(x, w, b, 2), {x, w, b});
       }},
      {"max_pool2d",
       [] {
         auto x = leaf({2, 3, 8, 8});
         return with_gradients(torch::max_pool2d(x, 2), {x});
       }},
      {"avg_pool2d",
       [] {
         auto x = leaf({2, 3, 8, 8});
         return with_gradients(torch::avg_pool2d(x, 2), {x});
       }},
      {"adaptive_avg_pool2d",
       [] {
         auto x = leaf({2, 3, 8, 8});
         return with_gradients(torch::adaptive_avg_pool2d(x, {2, 2}), {x});
       }},
      {"interpolate",
       [] {
         auto x = leaf({2, 3, 4, 4});
         return with_gradients(F::interpolate(x, F::InterpolateFuncOptions()
                                                     .scale_factor(std::vector<double>{2, 2})
                                                     .mode(torch::kBilinear)
                                                     .align_corners(false)),
                               {x});
       }},
      {"softmax and log_softmax",
       [] {
         auto x = leaf({3, 4});
         return with_gradients(x.softmax(-1) + x.log_softmax(0), {x});
       }},
      {"gelu, silu, relu, tanh, sigmoid",
       [] {
         auto x = leaf({3, 4});
         return with_gradients(torch::gelu(x) + torch::silu(x) + torch::relu(x) + x.tanh() + x.sigmoid(), {x});
       }},
      {"mish, log_sigmoid, softplus, leaky_relu, elu",
       [] {
         auto x = leaf({3, 4});
         return with_gradients(
             torch::mish(x) + torch::log_sigmoid(x) + torch::softplus(x) + torch::leaky_relu(x) + torch::elu(x), {x});
       }},
      {"silu and mish of a transposed input",
       [] {
         auto x = leaf({3, 4});
         return with_gradients(torch::silu(x.t()) * torch::mish(x.t()), {x});
       }},
      {"mse, l1, huber, smooth_l1",
       [] {
         auto x = leaf({3, 4});
         auto y = torch::rand({3, 4});
         return with_gradients(
             torch::mse_loss(x, y) + torch::l1_loss(x, y) + torch::huber_loss(x, y) + torch::smooth_l1_loss(x, y), {x});
       }},
      {"mse without reduction",
       [] {
         auto x = leaf({3, 4});
         return with_gradients(torch::mse_loss(x, torch::rand({3, 4}), at::Reduction::None), {x});
       }},
      {"cross_entropy",
       [=] {
         auto x = leaf({6, 5});
         return with_gradients(torch::cross_entropy_loss(x, indices({6}, 5)), {x});
       }},
      {"bce with logits",
       [] {
         auto x = leaf({6, 5});
         return with_gradients(torch::binary_cross_entropy_with_logits(x, torch::rand({6, 5})), {x});
       }},
      {"where",
       [] {
         auto x = leaf({3, 1}), y = leaf({1, 4});
         return with_gradients(torch::where(torch::rand({3, 4}) > 0.5, x, y), {x, y});
       }},
      {"index with a tensor",
       [=] {
         auto x = leaf({5, 4});
         return with_gradients(x.index({indices({3}, 5)}), {x});
       }},
      {"index with a slice between",
       [=] {
         auto x = leaf({5, 4, 6});
         return with_gradients(x.index({indices({3}, 5), torch::indexing::Slice(), indices({3}, 6)}), {x});
       }},
      {"gather, index_select",
       [=] {
         auto x = leaf({5, 4});
         return with_gradients(x.gather(1, indices({5, 2}, 4)).sum() + x.index_select(0, indices({3}, 5)).sum(), {x});
       }},
      {"var, std",
       [] {
         auto x = leaf({5, 4});
         return with_gradients(x.var(1) + x.std(1), {x});
       }},
      {"sums",
       [] {
         auto x = leaf({5, 4});
         return with_gradients(x.mean(0) + x.amax(0) + x.logsumexp(0) + x.norm(2, 0), {x});
       }},
      {"cumsum, flip, roll",
       [] {
         auto x = leaf({5, 4});
         return with_gradients(x.cumsum(1) + x.flip(0) + x.roll(1, 0), {x});
       }},
      {"cat, stack, split",
       [] {
         auto x = leaf({4, 4});
         return with_gradients(torch::cat({x, x}).sum() + torch::stack({x, x}).sum() + x.split(1)[0].sum(), {x});
       }},
      {"pad",
       [] {
         auto x = leaf({2, 3, 4});
         return with_gradients(torch::constant_pad_nd(x, {1, 2}), {x});
       }},
      {"einsum, bmm, baddbmm",
       [] {
         auto x = leaf({2, 3, 4}), y = leaf({2, 4, 5});
         return with_gradients(torch::einsum("bij,bjk->bik", {x, y}) + torch::bmm(x, y), {x, y});
       }},
      {"masked_fill, tril",
       [] {
         auto x = leaf({4, 4});
         return with_gradients(x.masked_fill(torch::rand({4, 4}) > 0.5, 1.0) + x.tril(), {x});
       }},
      {"in place",
       [] {
         auto x = leaf({4});
         auto y = x * 2;
         y.add_(1).mul_(3);
         return with_gradients(y, {x});
       }},
      {"topk, sort",
       [] {
         auto x = leaf({4, 5});
         return with_gradients(std::get<0>(x.topk(2)).sum() + std::get<0>(x.sort()).sum(), {x});
       }},
      {"casts",
       [] {
         auto x = leaf({4, 5});
         return with_gradients(x.to(torch::kBFloat16).to(torch::kDouble), {x});
       }},
      {"attention as libtorch has it",
       [] {
         auto q = leaf({2, 4, 8, 16});
         return with_gradients(at::scaled_dot_product_attention(q, q, q, {}, 0.0, true), {q});
       }},
      {"margin losses",
       [] {
         auto x = leaf({4, 6}), y = leaf({4, 6});
         const auto classes = torch::zeros({4}, torch::kLong), labels = torch::zeros({4, 6}, torch::kLong);
         const auto first = at::multi_margin_loss(x, classes, 1, 1, {}, at::Reduction::None);
         return with_gradients(first + at::multilabel_margin_loss(y, labels, at::Reduction::None), {x, y});
       }},
      {"products and cumulative products",
       [] {
         auto x = leaf({3, 5}), y = leaf({3, 5});
         return with_gradients(x.prod(1) + x.prod(0, true).sum() + x.prod() + y.cumprod(1).sum(1), {x, y});
       }},
      {"extremes and medians of all elements",
       [] {
         auto x = leaf({3, 5});
         return with_gradients(x.max() + x.min() + x.median() + x.nanmedian(), {x});
       }},
      {"cumulative extremes and sums of exponentials",
       [] {
         auto x = leaf({3, 5});
         return with_gradients(std::get<0>(x.cummax(1)) + std::get<0>(x.cummin(0)) + x.logcumsumexp(1), {x});
       }},
      {"conjugates",
       [] {
         auto x = leaf({3, 5}), y = leaf({3, 5});
         return with_gradients(at::real(at::complex(x, y).conj() * at::complex(y, x)), {x, y});
       }},
      {"covariances",
       [] {
         auto x = leaf({3, 5});
         return with_gradients(x.cov() + x.corrcoef(), {x});
       }},
      {"solutions and inverses",
       [] {
         auto a = leaf({4, 4}), b = leaf({4, 2});
         return with_gradients(at::linalg_solve(a, b) + at::linalg_inv(a).matmul(b), {a, b});
       }},
      {"norm of a scalar, and a value that fills",
       [] {
         auto x = leaf({}), y = leaf({3, 5});
         return with_gradients(y.masked_fill(y > 0, at::linalg_vector_norm(x, 2, at::IntArrayRef{0}, true)), {x, y});
       }},
      {"draws with a gradient",
       [] {
         auto x = leaf({3, 5}), y = leaf({5, 3});
         return with_gradients(at::_standard_gamma(x) + at::_sample_dirichlet(y.detach().t()) +
                                   at::binomial(x.detach().t(), y.detach()).t(),
                               {x});
       }},
      {"one-hot classes",
       [] {
         auto x = leaf({3, 5});
         return with_gradients(x * at::one_hot(torch::zeros({3}, torch::kLong), 5), {x});
       }},
      {"arange and expand",
       [] {
         auto x = leaf({4, 1});
         return with_gradients(x.expand({4, 3}) * torch::arange(3), {x});
       }},
  };
}

class Shapes : public ::testing::TestWithParam<size_t> {};

TEST_P(Shapes, PlanIsTheCpu) {
  testing::expect_shapes_of_the_cpu(families()[GetParam()]);
}

INSTANTIATE_TEST_SUITE_P(Families, Shapes, ::testing::Range<size_t>(0, families().size()));

std::string refusal(const std::function<void()>& function) {
  std::string message;
  testing::record([&](Recorder&) {
    try {
      function();
    } catch (const UserError& error) {
      message = error.what();
    }
  });
  return message;
}

TEST(Refusals, DataDependentShapesAreRefusedByName) {
  using ::testing::HasSubstr;
  EXPECT_THAT(refusal([] { torch::rand({4}).nonzero(); }),
              AllOf(HasSubstr("aten::nonzero"), HasSubstr("torch::where")));
  EXPECT_THAT(refusal([] {
                auto x = torch::rand({4});
                x.masked_select(x > 0.5);
              }),
              HasSubstr("aten::masked_select"));
  EXPECT_THAT(refusal([] { torch::rand({}).item<float>(); }), HasSubstr("value"));
  EXPECT_THAT(refusal([] { at::one_hot(torch::zeros({3}, torch::kLong)); }), HasSubstr("give num_classes"));
}

TEST(Refusals, AnOperatorWithoutAShapeRuleIsNamed) {
  EXPECT_THAT(refusal([] { torch::rand({4, 4}).matrix_exp(); }), ::testing::HasSubstr("operator aten::"));
}

}  // namespace
}  // namespace plimsoll
