// Shapes of operators whose Meta kernels libtorch has in Python only. A program in C++ does not load them.
#include "record/shape_rules.h"

#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <ATen/native/Pool.h>

#include <algorithm>
#include <numeric>

namespace plimsoll {
namespace python_rules {
namespace {

using Arguments = std::vector<c10::IValue>;
using Outputs = std::vector<at::Tensor>;

at::Tensor empty(at::IntArrayRef sizes, at::ScalarType dtype) {
  return at::empty(sizes, at::TensorOptions().dtype(dtype).device(at::kMeta));
}

at::Tensor contiguous_like(const c10::IValue& value) {
  return empty(value.toTensor().sizes(), value.toTensor().scalar_type());
}

// The layout of kernels that support channels_last; contiguous otherwise.
at::Tensor suggested_like(const at::Tensor& tensor, at::IntArrayRef sizes, at::ScalarType dtype) {
  return at::empty(sizes, at::TensorOptions().dtype(dtype).device(at::kMeta), tensor.suggest_memory_format());
}

template <size_t kIndex>
Outputs contiguous(const Arguments& a) {
  return {contiguous_like(a[kIndex])};
}

template <size_t kIndex>
Outputs suggested(const Arguments& a) {
  const at::Tensor tensor = a[kIndex].toTensor();
  return {suggested_like(tensor, tensor.sizes(), tensor.scalar_type())};
}

template <size_t kIndex>
Outputs preserved(const Arguments& a) {
  return {at::empty_like(a[kIndex].toTensor())};
}

template <size_t kFirst, size_t kSecond>
Outputs pointwise_of(const Arguments& a) {
  return {at::mul(a[kFirst].toTensor(), a[kSecond].toTensor())};
}

Outputs scalar(const Arguments& a) {
  return {empty({}, a[0].toTensor().scalar_type())};
}

Outputs trace(const Arguments& a) {
  const auto type = a[0].toTensor().scalar_type();
  return {empty({}, at::isIntegralType(type, /*includeBool=*/true) ? at::kLong : type)};
}

Outputs is_nan(const Arguments& a) {
  return {at::ne(a[0].toTensor(), a[0].toTensor())};
}

Outputs angle(const Arguments& a) {
  const at::Tensor self = a[0].toTensor();
  const auto type = self.scalar_type();
  return {at::empty_like(self, self.options().dtype(at::isIntegralType(type, /*includeBool=*/true) ? at::kFloat
                                                    : self.is_complex() ? c10::toRealValueType(type)
                                                                        : type))};
}

Outputs unary_float(const Arguments& a) {
  return {at::sigmoid(a[0].toTensor())};
}

Outputs floor_divide(const Arguments& a) {
  return {at::div(a[0].toTensor(), a[1].toTensor(), "floor")};
}

Outputs reversed_difference(const Arguments& a) {
  return {at::sub(a[1].toTensor(), a[0].toTensor(), a[2].toScalar())};
}

Outputs weight_norm(const Arguments& a) {  // v, g, dim
  const at::Tensor g = a[1].toTensor();
  const auto type = at::isReducedFloatingType(g.scalar_type()) ? at::kFloat : g.scalar_type();
  return {contiguous_like(a[0]), at::empty_strided(g.sizes(), g.strides(), g.options().dtype(type))};
}

Outputs weight_norm_backward(const Arguments& a) {  // grad, v, g, norms, dim
  return {contiguous_like(a[1]), contiguous_like(a[2])};
}

Outputs prelu_backward(const Arguments& a) {  // grad, self, weight
  const at::Tensor of_all = at::addcmul(a[1].toTensor(), a[2].toTensor(), a[0].toTensor());
  return {of_all, at::empty_like(of_all)};
}

constexpr int64_t kNoReduction = 0;  // at::Reduction::None

Outputs binary_cross_entropy(const Arguments& a) {  // self, target, weight, reduction
  return a[3].toInt() == kNoReduction ? preserved<0>(a) : scalar(a);
}

Outputs grid_sampler(const Arguments& a) {  // input, grid
  const at::Tensor input = a[0].toTensor(), grid = a[1].toTensor();
  std::vector<int64_t> sizes{input.size(0), input.size(1)};
  for (int64_t i = 1; i + 1 < grid.dim(); ++i) sizes.push_back(grid.size(i));
  return {empty(sizes, input.scalar_type())};
}

Outputs grid_sampler_backward(const Arguments& a) {  // grad, input, grid, interpolation, padding, align_corners, mask
  return {a[6].toBoolList().get(0) ? contiguous_like(a[1]) : at::Tensor(), contiguous_like(a[2])};
}

Outputs pad(const Arguments& a) {  // self, padding: pairs for the last dimension first
  const at::Tensor self = a[0].toTensor();
  auto sizes = self.sizes().vec();
  const auto padding = a[1].toDimVector();
  for (size_t i = 0; i < padding.size(); ++i) sizes[sizes.size() - 1 - i / 2] += padding[i];
  return {suggested_like(self, sizes, self.scalar_type())};
}

int64_t entry(const c10::IValue& list, size_t index) {
  const auto values = list.toDimVector();
  return values.size() == 1 ? values[0] : values[index];
}

Outputs im2col(const Arguments& a) {  // self, kernel_size, dilation, padding, stride
  const at::Tensor self = a[0].toTensor();
  const int64_t first = self.dim() - 3;
  int64_t rows = self.size(first), columns = 1;
  for (size_t i = 0; i < 2; ++i) {
    const int64_t kernel = entry(a[1], i);
    rows *= kernel;
    columns *=
        (self.size(first + 1 + static_cast<int64_t>(i)) + 2 * entry(a[3], i) - entry(a[2], i) * (kernel - 1) - 1) /
            entry(a[4], i) +
        1;
  }
  return {first == 0 ? empty({rows, columns}, self.scalar_type())
                     : empty({self.size(0), rows, columns}, self.scalar_type())};
}

Outputs col2im(const Arguments& a) {  // self, output_size, kernel_size, dilation, padding, stride
  const at::Tensor self = a[0].toTensor();
  const int64_t channels = self.size(-2) / (entry(a[2], 0) * entry(a[2], 1));
  std::vector<int64_t> sizes{channels, entry(a[1], 0), entry(a[1], 1)};
  if (self.dim() == 3) sizes.insert(sizes.begin(), self.size(0));
  return {empty(sizes, self.scalar_type())};
}

Outputs max_pool3d(const Arguments& a) {  // self, kernel_size, stride, padding, dilation, ceil_mode
  const at::Tensor self = a[0].toTensor();
  auto sizes = self.sizes().vec();
  const c10::IValue& stride = a[2].toDimVector().empty() ? a[1] : a[2];
  for (size_t i = 0; i < 3; ++i) {
    int64_t& size = sizes[sizes.size() - 3 + i];
    size = at::native::pooling_output_shape<int64_t>(size, entry(a[1], i), entry(a[3], i), entry(stride, i),
                                                     entry(a[4], i), a[5].toBool());
  }
  return {suggested_like(self, sizes, self.scalar_type()), suggested_like(self, sizes, at::kLong)};
}

Outputs max_unpool(const Arguments& a) {  // self, indices, output_size
  const at::Tensor self = a[0].toTensor();
  auto sizes = self.sizes().vec();
  const auto output = a[2].toDimVector();
  std::copy(output.begin(), output.end(), sizes.end() - static_cast<int64_t>(output.size()));
  return {suggested_like(self, sizes, self.scalar_type())};
}

Outputs distances(const Arguments& a) {  // x1, x2
  const at::Tensor x = a[0].toTensor(), y = a[1].toTensor();
  auto sizes = at::infer_size(x.sizes().slice(0, x.dim() - 2), y.sizes().slice(0, y.dim() - 2));
  sizes.push_back(x.size(-2));
  sizes.push_back(y.size(-2));
  return {empty(sizes, x.scalar_type())};
}

Outputs distances_backward(const Arguments& a) {  // grad, x1, x2, p, distances
  const at::Tensor x = a[1].toTensor(), y = a[2].toTensor();
  auto sizes = at::infer_size(x.sizes().slice(0, x.dim() - 2), y.sizes().slice(0, y.dim() - 2));
  sizes.push_back(x.size(-2));
  sizes.push_back(x.size(-1));
  return {empty(sizes, x.scalar_type())};
}

Outputs pairwise_distances(const Arguments& a) {
  const at::Tensor self = a[0].toTensor();
  return {empty({self.size(0) * (self.size(0) - 1) / 2}, self.scalar_type())};
}

// Returns the sizes of a reduction along dimensions; all of them if there is no list.
std::vector<int64_t> reduced(const at::Tensor& self, const c10::IValue& dims, bool keepdim) {
  std::vector<bool> drop(self.dim(), dims.isNone() || (dims.isIntList() && dims.toDimVector().empty()));
  const auto note = [&](int64_t dim) {
    if (self.dim() > 0) drop[at::maybe_wrap_dim(dim, self.dim())] = true;
  };
  if (dims.isInt()) note(dims.toInt());
  if (dims.isIntList())
    for (const int64_t dim : dims.toDimVector()) note(dim);
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < self.dim(); ++i)
    if (!drop[i] || keepdim) sizes.push_back(drop[i] ? 1 : self.size(i));
  return sizes;
}

Outputs nansum(const Arguments& a) {  // self, dim, keepdim, dtype
  const at::Tensor self = a[0].toTensor();
  const bool integral = at::isIntegralType(self.scalar_type(), /*includeBool=*/true);
  const auto type = a[3].isNone() ? (integral ? at::kLong : self.scalar_type()) : a[3].toScalarType();
  return {empty(reduced(self, a[1], a[2].toBool()), type)};
}

Outputs count_nonzero(const Arguments& a) {  // self, dims
  return {empty(reduced(a[0].toTensor(), a[1], false), at::kLong)};
}

Outputs mode(const Arguments& a) {  // self, dim, keepdim
  const at::Tensor self = a[0].toTensor();
  const auto sizes = reduced(self, a[1], a[2].toBool());
  return {empty(sizes, self.scalar_type()), empty(sizes, at::kLong)};
}

Outputs kthvalue_out(const Arguments& a) {  // self, k, dim, keepdim, values, indices
  const auto sizes = reduced(a[0].toTensor(), a[2], a[3].toBool());
  return {a[4].toTensor().resize_(sizes), a[5].toTensor().resize_(sizes)};
}

Outputs take(const Arguments& a) {  // self, index
  return {empty(a[1].toTensor().sizes(), a[0].toTensor().scalar_type())};
}

Outputs multinomial(const Arguments& a) {  // self, num_samples
  auto sizes = a[0].toTensor().sizes().vec();
  sizes.back() = a[1].toInt();
  return {empty(sizes, at::kLong)};
}

// Returns the positions of values in sorted ones; `values` is the tensor or a number.
at::Tensor positions(const c10::IValue& values, bool narrow) {
  const auto type = narrow ? at::kInt : at::kLong;
  return values.isTensor() ? empty(values.toTensor().sizes(), type) : empty({}, type);
}

Outputs search(const Arguments& a) {  // sorted_sequence, values, out_int32
  return {positions(a[1], a[2].toBool())};
}

Outputs bucketize(const Arguments& a) {  // values, boundaries, out_int32
  return {positions(a[0], a[2].toBool())};
}

Outputs lower_indices(const Arguments& a) {  // rows, columns, offset, dtype
  const at::Tensor indices = at::tril_indices(a[0].toInt(), a[1].toInt(), a[2].toInt());
  return {empty(indices.sizes(), a[3].isNone() ? at::kLong : a[3].toScalarType())};
}

Outputs upper_indices(const Arguments& a) {  // rows, columns, offset, dtype
  const at::Tensor indices = at::triu_indices(a[0].toInt(), a[1].toInt(), a[2].toInt());
  return {empty(indices.sizes(), a[3].isNone() ? at::kLong : a[3].toScalarType())};
}

Outputs unfold_backward(const Arguments& a) {  // grad, input_sizes
  return {empty(a[1].toDimVector(), a[0].toTensor().scalar_type())};
}

Outputs batched_sum(const Arguments& a) {  // addbmm: self, batch1, batch2
  return {empty({a[1].toTensor().size(1), a[2].toTensor().size(2)}, a[0].toTensor().scalar_type())};
}

Outputs batch_norm_without_statistics(const Arguments& a) {  // input, weight, bias, training
  const at::Tensor input = a[0].toTensor();
  const bool weighted = a[1].isTensor() && a[1].toTensor().defined();
  const auto type = weighted ? a[1].toTensor().scalar_type() : input.scalar_type();
  const int64_t channels = a[3].toBool() ? input.size(1) : 0;
  return {suggested_like(input, input.sizes(), input.scalar_type()), empty({channels}, type), empty({channels}, type)};
}

Outputs permutation_out(const Arguments& a) {  // n, generator, out
  return {a[2].toTensor().resize_({a[0].toInt()})};
}

Outputs like_first_out(const Arguments& a) {
  return {a.back().toTensor().resize_(a[0].toTensor().sizes())};
}

// Returns the result of libtorch's transform on the CPU (_exec_fft): transformed dimensions are the innermost ones, in
// the order of `dims`; the others keep the order of their strides.
at::Tensor transformed(const at::Tensor& self, at::IntArrayRef out_sizes, std::vector<int64_t> dims,
                       at::ScalarType type) {
  std::vector<int64_t> order;
  for (int64_t i = 0; i < self.dim(); ++i)
    if (std::ranges::find(dims, i) == dims.end()) order.push_back(i);
  std::ranges::stable_sort(order, std::greater<>(), [&](int64_t dim) { return self.stride(dim); });
  order.insert(order.end(), dims.begin(), dims.end());
  std::vector<int64_t> strides(self.dim());
  int64_t stride = 1;
  for (auto dim = order.rbegin(); dim != order.rend(); ++dim) {
    strides[*dim] = stride;
    stride *= out_sizes[*dim];
  }
  return at::empty_strided(out_sizes, strides, at::TensorOptions().dtype(type).device(at::kMeta));
}

// Returns dimensions by their strides, the largest first; the last one stays if `keep_last`.
std::vector<int64_t> sorted_dims(const at::Tensor& self, const c10::IValue& list, bool keep_last) {
  const auto given = list.toDimVector();
  std::vector<int64_t> dims(given.begin(), given.end());
  for (int64_t& dim : dims) dim = at::maybe_wrap_dim(dim, self.dim());
  std::ranges::stable_sort(dims.begin(), dims.end() - (keep_last ? 1 : 0), std::greater<>(),
                           [&](int64_t dim) { return self.stride(dim); });
  return dims;
}

Outputs fft_complex(const Arguments& a) {  // self, dim, normalization, forward
  const at::Tensor self = a[0].toTensor();
  if (a[1].toDimVector().empty()) return {at::empty_like(self)};
  return {transformed(self, self.sizes(), sorted_dims(self, a[1], false), self.scalar_type())};
}

Outputs fft_of_real(const Arguments& a) {  // self, dim, normalization, onesided
  const at::Tensor self = a[0].toTensor();
  const std::vector<int64_t> dims = sorted_dims(self, a[1], true);
  auto sizes = self.sizes().vec();
  if (a[3].toBool()) sizes[dims.back()] = sizes[dims.back()] / 2 + 1;
  return {transformed(self, sizes, dims, c10::toComplexType(self.scalar_type()))};
}

Outputs fft_to_real(const Arguments& a) {  // self, dim, normalization, last_dim_size
  at::Tensor self = a[0].toTensor();
  auto dims = a[1].toDimVector();
  const int64_t last = at::maybe_wrap_dim(dims.back(), self.dim());
  if (dims.size() > 1) {
    dims.pop_back();
    self = transformed(self, self.sizes(),
                       sorted_dims(self, c10::IValue(std::vector<int64_t>(dims.begin(), dims.end())), false),
                       self.scalar_type());
  }
  auto sizes = self.sizes().vec();
  sizes[last] = a[3].toInt();
  return {transformed(self, sizes, {last}, c10::toRealValueType(self.scalar_type()))};
}

const std::unordered_map<std::string, ShapeRule>& table() {
  static const std::unordered_map<std::string, ShapeRule> rules = {
      {"aten::dot", scalar},
      {"aten::vdot", scalar},
      {"aten::trace", trace},
      {"aten::isnan", is_nan},
      {"aten::angle", angle},
      {"aten::logit", unary_float},
      {"aten::floor_divide", floor_divide},
      {"aten::rsub.Tensor", reversed_difference},
      {"aten::_weight_norm_interface", weight_norm},
      {"aten::_weight_norm_interface_backward", weight_norm_backward},
      {"aten::_prelu_kernel", pointwise_of<0, 1>},
      {"aten::_prelu_kernel_backward", prelu_backward},
      {"aten::hardtanh", preserved<0>},
      {"aten::hardtanh_backward", pointwise_of<0, 1>},
      {"aten::hardswish", preserved<0>},
      {"aten::hardswish_backward", pointwise_of<0, 1>},
      {"aten::glu_backward", contiguous<1>},
      {"aten::rrelu_with_noise", contiguous<0>},
      {"aten::binary_cross_entropy", binary_cross_entropy},
      {"aten::binary_cross_entropy_backward", preserved<1>},
      {"aten::grid_sampler_2d", grid_sampler},
      {"aten::grid_sampler_3d", grid_sampler},
      {"aten::grid_sampler_2d_backward", grid_sampler_backward},
      {"aten::grid_sampler_3d_backward", grid_sampler_backward},
      {"aten::reflection_pad2d", pad},
      {"aten::reflection_pad2d_backward", suggested<1>},
      {"aten::replication_pad2d_backward", suggested<1>},
      {"aten::replication_pad3d_backward", suggested<1>},
      {"aten::im2col", im2col},
      {"aten::col2im", col2im},
      {"aten::max_pool3d_with_indices", max_pool3d},
      {"aten::max_pool3d_with_indices_backward", suggested<1>},
      {"aten::max_unpool2d", max_unpool},
      {"aten::max_unpool3d", max_unpool},
      {"aten::_cdist_forward", distances},
      {"aten::_cdist_backward", distances_backward},
      {"aten::_pdist_forward", pairwise_distances},
      {"aten::_pdist_backward", contiguous<1>},
      {"aten::nansum", nansum},
      {"aten::count_nonzero.dim_IntList", count_nonzero},
      {"aten::mode", mode},
      {"aten::kthvalue.values", kthvalue_out},
      {"aten::take", take},
      {"aten::multinomial", multinomial},
      {"aten::poisson", contiguous<0>},
      {"aten::randperm.generator_out", permutation_out},
      {"aten::nan_to_num.out", like_first_out},
      {"aten::mvlgamma.out", like_first_out},
      {"aten::searchsorted.Tensor", search},
      {"aten::searchsorted.Scalar", search},
      {"aten::bucketize.Tensor", bucketize},
      {"aten::bucketize.Scalar", bucketize},
      {"aten::tril_indices", lower_indices},
      {"aten::triu_indices", upper_indices},
      {"aten::unfold_backward", unfold_backward},
      {"aten::addbmm", batched_sum},
      {"aten::_native_batch_norm_legit.no_stats", batch_norm_without_statistics},
      {"aten::_fft_c2c", fft_complex},
      {"aten::_fft_r2c", fft_of_real},
      {"aten::_fft_c2r", fft_to_real},
  };
  return rules;
}

}  // namespace
}  // namespace python_rules

const std::unordered_map<std::string, ShapeRule>& python_shape_rules() {
  return python_rules::table();
}

}  // namespace plimsoll
