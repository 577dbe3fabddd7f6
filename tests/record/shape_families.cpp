// Defines the families of operators whose shapes are compared.
#include "record/shape_family.h"

#include <torch/fft.h>
#include <torch/nn/functional.h>

namespace plimsoll::testing {

namespace F = torch::nn::functional;
using torch::Tensor;

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
      {"batch_norm by given statistics",
       [] {
         auto x = leaf({2, 8, 5, 3}), w = leaf({8}), b = leaf({8});
         auto m = torch::zeros({8}), v = torch::ones({8});
         return with_gradients(torch::batch_norm(x, w, b, m, v, false, 0.1, 1e-5, false), {x, w, b});
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
      {"complex numbers in polar form, times a complex number",
       [] {
         auto x = leaf({3, 5}), y = leaf({3, 5});
         return with_gradients(at::view_as_real(at::polar(x, y) * c10::complex<double>(0.5, -1)), {x, y});
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

}  // namespace plimsoll::testing
