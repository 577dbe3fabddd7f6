// Tests shapes of operators whose Meta kernels libtorch has in Python only.
#include <gtest/gtest.h>
#include <torch/fft.h>
#include <torch/nn/functional.h>

#include "record/shape_family.h"
#include "record/shape_rules.h"

namespace plimsoll {
namespace {

namespace F = torch::nn::functional;
using testing::Family;
using testing::leaf;
using testing::with_gradients;
using torch::Tensor;

std::vector<Family> python_families() {
  return {
      {"dot products and the trace",
       [] {
         auto x = leaf({5}), y = leaf({5}), m = leaf({5, 5});
         return with_gradients(x.dot(y) + at::vdot(x, y) + m.trace(), {x, y, m});
       }},
      {"activations",
       [] {
         auto x = leaf({4, 6}), w = leaf({6});
         const Tensor y = F::prelu(x, w) + at::hardtanh(x, 0.1, 0.9) + F::relu6(x) + at::hardswish(x) + at::logit(x);
         return with_gradients(y + at::rrelu(x, 0.1, 0.3, /*training=*/true), {x, w});
       }},
      {"gated halves",
       [] {
         auto x = leaf({6, 4});
         return with_gradients(at::glu(x.t(), 1), {x});
       }},
      {"activations of other layouts",
       [] {
         auto x = leaf({2, 5, 3, 4}), w = leaf({5});
         const Tensor y = x.contiguous(at::MemoryFormat::ChannelsLast);
         return with_gradients(F::prelu(y, w) + at::hardswish(y) + at::hardtanh(y), {x, w});
       }},
      {"weight norm",
       [] {
         auto v = leaf({4, 3}), g = leaf({4, 1});
         return with_gradients(at::_weight_norm(v, g, 0), {v, g});
       }},
      {"losses",
       [] {
         auto x = leaf({4, 3}), y = leaf({2, 3, 4, 5});
         const Tensor classes = torch::zeros({2, 4, 5}, torch::kLong);
         return with_gradients(at::binary_cross_entropy(x, torch::ones({4, 3})) + at::nll_loss2d(y, classes) +
                                   at::nll_loss2d(y, classes, {}, 0).sum() +
                                   at::binary_cross_entropy(x, torch::ones({4, 3}), {}, 0),
                               {x, y});
       }},
      {"grid samples",
       [] {
         auto x = leaf({2, 3, 5, 4}), grid = leaf({2, 6, 7, 2}), volume = leaf({1, 2, 3, 4, 5}),
              other = leaf({1, 2, 6, 7, 3});
         return with_gradients(
             at::grid_sampler(x, grid, 0, 0, true).sum() * at::grid_sampler(volume, other, 0, 0, true),
             {x, grid, volume, other});
       }},
      {"padding",
       [] {
         auto x = leaf({2, 3, 5, 4}), y = leaf({3, 5, 4}), z = leaf({1, 2, 3, 4, 5});
         const Tensor last = x.contiguous(at::MemoryFormat::ChannelsLast);
         const Tensor sum = at::reflection_pad2d(y, {1, 2, 0, 1}).sum() + at::replication_pad2d(x, {1, 2, 0, 1}).sum() +
                            at::replication_pad3d(z, {1, 2, 0, 1, 1, 0}).sum();
         return with_gradients(at::reflection_pad2d(last, {1, 2, 0, 1}) * sum, {x, y, z});
       }},
      {"columns and images",
       [] {
         auto x = leaf({2, 3, 6, 8}), y = leaf({12, 20});
         const Tensor images = at::col2im(y, {5, 6}, {2, 2}, {1, 1}, {0, 0}, {1, 1});
         return with_gradients(at::im2col(x, {3, 2}, {1, 2}, {1, 0}, {2, 1}) * images.sum(), {x, y});
       }},
      {"pools of volumes and back",
       [] {
         auto x = leaf({2, 3, 6, 8, 4}), y = leaf({2, 3, 4, 6});
         const auto [pooled, where] = at::max_pool3d_with_indices(x, {2, 2, 2});
         const auto [flat, place] = at::max_pool2d_with_indices(y, {2, 2});
         const Tensor back = at::max_unpool2d(flat, place, {4, 6});
         return with_gradients(at::max_unpool3d(pooled, where, {6, 8, 4}, {2, 2, 2}, {0, 0, 0}) * back.sum(), {x, y});
       }},
      {"distances",
       [] {
         auto x = leaf({2, 5, 3}), y = leaf({4, 3});
         return with_gradients(at::cdist(x, y, 1.5) * at::pdist(y).sum(), {x, y});
       }},
      {"reductions",
       [] {
         auto x = leaf({4, 6});
         const Tensor y = at::nansum(x, 1) + std::get<0>(at::mode(x, 1)) + std::get<0>(at::kthvalue(x, 2, 1));
         return with_gradients(y * at::count_nonzero(x, at::IntArrayRef{1}), {x});
       }},
      {"places in tensors",
       [] {
         auto x = leaf({4, 6});
         const Tensor index = torch::zeros({3, 2}, torch::kLong), sorted = torch::arange(5.0);
         const Tensor places = at::searchsorted(sorted, x.detach()) + at::bucketize(x.detach(), sorted);
         const Tensor corners = x.index({at::tril_indices(4, 4)[0], at::triu_indices(4, 4)[1]});
         return with_gradients(x.take(index).sum() * places + corners.sum(), {x});
       }},
      {"quotients, differences and NaN",
       [] {
         auto x = leaf({4, 6}), y = leaf({6});
         const Tensor whole = at::floor_divide(x.detach(), 0.3) + at::isnan(x);
         return with_gradients(at::rsub(x, y) * whole + at::nan_to_num(x) + at::angle(x), {x, y});
       }},
      {"windows",
       [] {
         auto x = leaf({10, 4});
         return with_gradients(x.unfold(0, 3, 2) * 2, {x});
       }},
      {"a sum of products",
       [] {
         auto x = leaf({3, 5}), y = leaf({2, 3, 4}), z = leaf({2, 4, 5});
         return with_gradients(at::addbmm(x, y, z), {x, y, z});
       }},
      {"a batch norm without statistics",
       [] {
         auto x = leaf({2, 3, 4, 5}), w = leaf({3}), b = leaf({3});
         return with_gradients(at::batch_norm(x, w, b, {}, {}, true, 0.1, 1e-5, false), {x, w, b});
       }},
      {"draws",
       [] {
         auto x = leaf({4, 6});
         return with_gradients(x.index_select(0, torch::randperm(4)) * at::poisson(x.detach()) *
                                   at::multinomial(x.detach() + 1, 6, /*replacement=*/true),
                               {x});
       }},
      {"transforms of complex numbers",
       [] {
         auto x = leaf({4, 6, 3}), y = leaf({4, 6, 3});
         const Tensor z = at::complex(x, y).permute({2, 0, 1});
         return with_gradients(at::view_as_real(torch::fft::fft2(z) + torch::fft::ifft(z, {}, 0)), {x, y});
       }},
      {"transforms of real numbers",
       [] {
         auto x = leaf({4, 6, 8}), y = leaf({8, 4, 6});
         const Tensor half = torch::fft::rfft2(x), turned = torch::fft::rfftn(y.permute({1, 2, 0}));
         return with_gradients(torch::fft::irfft2(half + turned) + torch::fft::hfft(half, 8), {x, y});
       }},
  };
}

class PythonShapes : public ::testing::TestWithParam<size_t> {};

TEST_P(PythonShapes, AreThoseOfTheCpu) {
  testing::expect_shapes_of_the_cpu(python_families()[GetParam()]);
}

INSTANTIATE_TEST_SUITE_P(Families, PythonShapes, ::testing::Range<size_t>(0, python_families().size()));

}  // namespace
}  // namespace plimsoll
