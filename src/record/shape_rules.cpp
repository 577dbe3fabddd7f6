#include "record/shape_rules.h"

#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <ATen/core/Reduction.h>
#include <ATen/native/ConvUtils.h>
#include <ATen/native/Pool.h>

#include <unordered_map>

#include "record/recorder.h"

namespace plimsoll {
namespace {

using Arguments = std::vector<c10::IValue>;
using Outputs = std::vector<at::Tensor>;

at::Tensor like(const c10::IValue& value) {
  return at::empty_like(value.toTensor(), value.toTensor().options().device(at::kMeta), at::MemoryFormat::Contiguous);
}

// Returns an output with the layout of a pointwise kernel: that of the input if it is dense.
at::Tensor like_preserved(const c10::IValue& value) {
  return at::empty_like(value.toTensor(), value.toTensor().options().device(at::kMeta));
}

// Returns an output with the layout of kernels that support channels_last, and is contiguous otherwise.
at::Tensor like_suggested(const c10::IValue& value) {
  const at::Tensor tensor = value.toTensor();
  return at::empty_like(tensor, tensor.options().device(at::kMeta), tensor.suggest_memory_format());
}

at::Tensor empty(at::IntArrayRef sizes, at::ScalarType dtype) {
  return at::empty(sizes, at::TensorOptions().dtype(dtype).device(at::kMeta));
}

// Returns the dtype of a norm's statistics and of its bias's gradient on the CPU: of the weight, if it has one.
at::ScalarType statistics_type(const at::Tensor& input, const c10::IValue& weight) {
  return weight.isTensor() && weight.toTensor().defined() ? weight.toTensor().scalar_type() : input.scalar_type();
}

bool has_wide_statistics() {
  const Recorder* const recorder = Recorder::active();
  return recorder && recorder->kernels().wide_statistics;
}

// Returns the dtype of the statistics of a layer or batch norm.
at::ScalarType wide_statistics_type(const at::Tensor& input, const c10::IValue& weight) {
  if (has_wide_statistics()) return input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return statistics_type(input, weight);
}

Outputs masked(const Arguments& arguments, size_t mask_index, std::initializer_list<at::Tensor> candidates) {
  const std::vector<bool> mask = arguments[mask_index].toBoolList().vec();
  Outputs outputs;
  size_t i = 0;
  for (const at::Tensor& tensor : candidates) outputs.push_back(mask[i++] ? tensor : at::Tensor());
  return outputs;
}

at::Tensor weight_like(const c10::IValue& value) {
  return value.isTensor() && value.toTensor().defined() ? like(value) : at::Tensor();
}

Outputs layer_norm(const Arguments& a) {  // input, normalized_shape, weight, bias, eps
  const at::Tensor input = a[0].toTensor();
  auto sizes = input.sizes().vec();
  const size_t normalized = a[1].toDimVector().size();
  for (size_t i = sizes.size() - normalized; i < sizes.size(); ++i) sizes[i] = 1;
  const auto type = wide_statistics_type(input, a[2]);
  return {like(a[0]), empty(sizes, type), empty(sizes, type)};
}

Outputs layer_norm_backward(const Arguments& a) {  // grad, input, shape, mean, rstd, weight, bias, mask
  return masked(a, 7, {like(a[1]), weight_like(a[5]), weight_like(a[6])});
}

Outputs group_norm(const Arguments& a) {  // input, weight, bias, N, C, HxW, group, eps
  const auto type = statistics_type(a[0].toTensor(), a[1]);
  const std::vector<int64_t> sizes{a[3].toInt(), a[6].toInt()};
  return {like_preserved(a[0]), empty(sizes, type), empty(sizes, type)};
}

Outputs group_norm_backward(const Arguments& a) {  // grad, input, mean, rstd, weight, N, C, HxW, group, mask
  const at::Tensor input = a[1].toTensor();
  const auto bias =
      a[4].isTensor() && a[4].toTensor().defined() ? like(a[4]) : empty({a[6].toInt()}, input.scalar_type());
  return masked(a, 9, {like_preserved(a[1]), weight_like(a[4]), bias});
}

Outputs batch_norm(const Arguments& a) {  // input, weight, bias, running_mean, running_var, training, momentum, eps
  const at::Tensor input = a[0].toTensor();
  const int64_t channels = a[5].toBool() || has_wide_statistics() ? input.size(1) : 0;
  const auto type = wide_statistics_type(input, a[1]);
  return {like_suggested(a[0]), empty({channels}, type), empty({channels}, type)};
}

Outputs batch_norm_backward(const Arguments& a) {  // grad, input, weight, mean.., train, eps, mask
  const at::Tensor input = a[1].toTensor();
  return masked(a, 9, {like_suggested(a[1]), weight_like(a[2]), empty({input.size(1)}, statistics_type(input, a[2]))});
}

// Groups end at `offsets`: of rows of `a`, with a matrix for each group, or of columns of `a` and rows of `b`, with a
// result for each group. Rows of the output begin at multiples of 16 bytes, as in libtorch.
Outputs grouped_product(const Arguments& arguments) {  // a, b, offsets, bias, dtype
  const at::Tensor a = arguments[0].toTensor(), b = arguments[1].toTensor();
  const int64_t columns = b.size(-1), unit = 16 / static_cast<int64_t>(a.element_size());
  const int64_t row = (columns + unit - 1) / unit * unit;
  std::vector<int64_t> sizes{a.size(-2), columns}, strides{row, 1};
  if (a.dim() == b.dim()) {
    sizes.insert(sizes.begin(), a.dim() == 3 ? a.size(0) : arguments[2].toTensor().size(0));
    strides.insert(strides.begin(), a.size(-2) * row);
  }
  return {at::empty_strided(sizes, strides, at::TensorOptions().dtype(a.scalar_type()).device(at::kMeta))};
}

Outputs histogram(const Arguments& a) {  // input, bins, min, max
  return {empty({a[1].toInt()}, a[0].toTensor().scalar_type())};
}

Outputs embedding(const Arguments& a) {  // weight, indices
  auto sizes = a[1].toTensor().sizes().vec();
  sizes.push_back(a[0].toTensor().size(1));
  return {empty(sizes, a[0].toTensor().scalar_type())};
}

Outputs likelihood_2d(const Arguments& a) {  // self, target, weight, reduction, ignore_index
  const at::Tensor self = a[0].toTensor();
  const bool each = a[3].toInt() == at::Reduction::None;
  return {each ? empty(a[1].toTensor().sizes(), self.scalar_type()) : empty({}, self.scalar_type()),
          empty({}, self.scalar_type())};
}

Outputs likelihood_2d_backward(const Arguments& a) {  // grad_output, self, …
  return {like_preserved(a[1])};
}

Outputs embedding_dense_backward(const Arguments& a) {  // grad, indices, num_weights
  const at::Tensor grad = a[0].toTensor();
  return {empty({a[2].toInt(), grad.size(-1)}, grad.scalar_type())};
}

// Returns the list with a single number repeated for every spatial dimension.
std::vector<int64_t> expanded(const c10::IValue& list, int64_t dimensions) {
  const auto values = list.toDimVector();
  if (values.size() == 1) return std::vector<int64_t>(dimensions, values[0]);
  return {values.begin(), values.end()};
}

// Returns the format of a convolution's results: oneDNN uses channels_last for all of them if one of its operands has
// it.
at::MemoryFormat convolution_format(const at::Tensor& input, const at::Tensor& weight) {
  if (!at::native::mkldnn_conv_use_channels_last(input, weight)) return at::MemoryFormat::Contiguous;
  return input.dim() == 5 ? at::MemoryFormat::ChannelsLast3d : at::MemoryFormat::ChannelsLast;
}

Outputs convolution(
    const Arguments& a) {  // input, weight, bias, stride, padding, dilation, transposed, output_padding, groups
  const at::Tensor input = a[0].toTensor(), weight = a[1].toTensor();
  const int64_t dimensions = weight.dim() - 2;
  const auto stride = expanded(a[3], dimensions), padding = expanded(a[4], dimensions),
             dilation = expanded(a[5], dimensions);
  const auto output_padding = expanded(a[7], dimensions);
  const auto sizes = a[6].toBool()
                         ? at::native::conv_input_size(input.sizes(), weight.sizes(), padding, output_padding, stride,
                                                       dilation, a[8].toInt())
                         : at::native::conv_output_size(input.sizes(), weight.sizes(), padding, stride, dilation);
  return {at::empty(sizes, input.options().device(at::kMeta), convolution_format(input, weight))};
}

Outputs convolution_backward(const Arguments& a) {  // grad, input, weight, bias_sizes, ..., mask
  const at::Tensor weight = a[2].toTensor();
  const int64_t channels = a[7].toBool() ? weight.size(1) * a[9].toInt() : weight.size(0);
  const at::MemoryFormat format = convolution_format(a[1].toTensor(), weight);
  const auto laid_out = [&](const at::Tensor& like) {
    return at::empty(like.sizes(), like.options().device(at::kMeta), format);
  };
  return masked(a, 10, {laid_out(a[1].toTensor()), laid_out(weight), empty({channels}, weight.scalar_type())});
}

Outputs dropout(const Arguments& a) {  // input, p, train
  const at::Tensor input = a[0].toTensor();
  return {like_preserved(a[0]), at::empty_like(input, input.options().device(at::kMeta).dtype(at::kBool))};
}

at::Tensor reduced(const at::Tensor& input, const c10::IValue& dims, bool keepdim, at::ScalarType dtype) {
  if (input.dim() == 0) return empty({}, dtype);
  std::vector<bool> drop(input.dim(), dims.isNone() || dims.toDimVector().empty());
  if (!dims.isNone())
    for (int64_t dim : dims.toDimVector()) drop[at::maybe_wrap_dim(dim, input.dim())] = true;
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < input.dim(); ++i) {
    if (!drop[i])
      sizes.push_back(input.size(i));
    else if (keepdim)
      sizes.push_back(1);
  }
  return empty(sizes, dtype);
}

at::ScalarType real_type(at::ScalarType type) {
  return c10::isComplexType(type) ? c10::toRealValueType(type) : type;
}

Outputs variance(const Arguments& a) {  // input, dim, correction, keepdim
  const at::Tensor input = a[0].toTensor();
  return {reduced(input, a[1], a[3].toBool(), real_type(input.scalar_type()))};
}

Outputs variance_mean(const Arguments& a) {
  const at::Tensor input = a[0].toTensor();
  return {reduced(input, a[1], a[3].toBool(), real_type(input.scalar_type())),
          reduced(input, a[1], a[3].toBool(), input.scalar_type())};
}

Outputs where(const Arguments& a) {  // condition, self, other
  // The layout is that of a pointwise kernel over the three operands, in this order.
  const auto type = at::result_type(a[1].toTensor(), a[2].toTensor());
  const auto operand = [&](const c10::IValue& value) {
    const at::Tensor tensor = value.toTensor();
    return tensor.is_meta() ? tensor.to(type) : empty(tensor.sizes(), type);  // a scalar stays on the CPU
  };
  return {at::addcmul(operand(a[0]), operand(a[1]), operand(a[2]))};
}

constexpr int64_t kNoReduction = 0;  // at::Reduction::None

Outputs pointwise_loss(const Arguments& a) {  // input, target, reduction
  const at::Tensor input = a[0].toTensor(), target = a[1].toTensor();
  const auto type = at::result_type(input, target);
  if (a[2].toInt() != kNoReduction) return {empty({}, type)};
  return {at::sub(input.to(type), target.to(type))};  // layout of a pointwise kernel
}

Outputs pointwise_loss_backward(const Arguments& a) {  // grad, input, target
  return {empty(at::infer_size(a[1].toTensor().sizes(), a[2].toTensor().sizes()), a[1].toTensor().scalar_type())};
}

// Returns the loss of each row, or one loss.
at::Tensor loss_of_rows(const at::Tensor& input, bool reduced) {
  const bool rows = !reduced && input.dim() > 1;
  return empty(rows ? std::vector<int64_t>{input.size(0)} : std::vector<int64_t>{}, input.scalar_type());
}

Outputs multi_margin_loss(const Arguments& a) {  // input, target, p, margin, weight, reduction
  return {loss_of_rows(a[0].toTensor(), a[5].toInt() != kNoReduction)};
}

Outputs multilabel_margin_loss(const Arguments& a) {  // input, target, reduction; the second output is a mask
  return {loss_of_rows(a[0].toTensor(), a[2].toInt() != kNoReduction),
          empty(a[1].toTensor().sizes(), a[0].toTensor().scalar_type())};
}

Outputs log_sigmoid(const Arguments& a) {  // input; the second output is a buffer, which some kernels do not need
  return {like(a[0]), has_wide_statistics() ? empty({0}, a[0].toTensor().scalar_type()) : like(a[0])};
}

// Returns the output of advanced indexing. Indices broadcast. Their dimensions replace the indexed ones if these are
// adjacent; otherwise they come first.
Outputs index(const Arguments& a) {  // self, indices
  const at::Tensor self = a[0].toTensor();
  std::vector<int64_t> broadcast, sizes;
  std::vector<bool> indexed(self.dim(), false);
  int64_t position = 0, first = -1, last = -1;
  const auto note = [&](const at::Tensor& tensor) {
    if (tensor.defined()) {
      broadcast = first < 0 ? tensor.sizes().vec() : at::infer_size(broadcast, tensor.sizes());
      indexed[position] = true;
      if (first < 0) first = position;
      last = position;
    }
    ++position;
  };
  if (a[1].isTensorList()) {
    for (const at::Tensor tensor : a[1].toTensorList()) note(tensor);
  } else {
    for (const std::optional<at::Tensor> tensor : a[1].toOptionalTensorList()) note(tensor.value_or(at::Tensor()));
  }
  bool adjacent = true;
  for (int64_t i = std::max<int64_t>(first, 0); i <= last; ++i) adjacent &= indexed[i];
  const int64_t at_dim = adjacent ? std::max<int64_t>(first, 0) : 0;
  for (int64_t i = 0; i < self.dim(); ++i)
    if (!indexed[i]) sizes.push_back(self.size(i));
  sizes.insert(sizes.begin() + at_dim, broadcast.begin(), broadcast.end());
  return {empty(sizes, self.scalar_type())};
}

Outputs adaptive_pool(const Arguments& a) {  // input, output_size
  auto sizes = a[0].toTensor().sizes().vec();
  const auto output = a[1].toDimVector();
  std::copy(output.begin(), output.end(), sizes.end() - static_cast<int64_t>(output.size()));
  return {at::empty(sizes, a[0].toTensor().options().device(at::kMeta), a[0].toTensor().suggest_memory_format())};
}

Outputs like_second(const Arguments& a) {
  return {like_preserved(a[1])};
}

Outputs first_argument(const Arguments& a) {
  return {a[0].toTensor()};
}
Outputs second_argument_in_place(const Arguments& a) {
  return {a[1].toTensor()};
}
Outputs suggested_second(const Arguments& a) {
  return {like_suggested(a[1])};
}

Outputs contiguous_like(const Arguments& a) {
  return {like(a[0])};
}
Outputs contiguous_like_second(const Arguments& a) {
  return {like(a[1])};
}

Outputs pointwise(const Arguments& a) {
  return {like_preserved(a[0])};
}
Outputs pointwise_pair(const Arguments& a) {  // layout of a pointwise kernel over the two
  return {at::mul(a[0].toTensor(), a[1].toTensor())};
}
Outputs last_argument(const Arguments& a) {
  return {a.back().toTensor()};
}
Outputs nothing(const Arguments&) {
  return {};
}

Outputs unary_out(const Arguments& a) {
  return {a[1].toTensor().resize_(a[0].toTensor().sizes())};
}

Outputs broadcast_out(const Arguments& a) {  // operands, out
  std::vector<int64_t> sizes;
  for (size_t i = 0; i + 1 < a.size(); ++i)
    if (a[i].isTensor()) sizes = at::infer_size(sizes, a[i].toTensor().sizes());
  return {a.back().toTensor().resize_(sizes)};
}

Outputs median_out(const Arguments& a) {  // self, dim, keepdim, values, indices
  const at::Tensor self = a[0].toTensor();
  const auto sizes = reduced(self, std::vector<int64_t>{a[1].toInt()}, a[2].toBool(), self.scalar_type()).sizes().vec();
  return {a[3].toTensor().resize_(sizes), a[4].toTensor().resize_(sizes)};
}

Outputs index_select(const Arguments& a) {  // self, dim, index
  const at::Tensor self = a[0].toTensor();
  auto sizes = self.sizes().vec();
  if (!sizes.empty()) sizes[at::maybe_wrap_dim(a[1].toInt(), self.dim())] = a[2].toTensor().numel();
  return {empty(sizes, self.scalar_type())};
}

Outputs vector_norm(const Arguments& a) {  // self, ord, dim, keepdim, dtype
  const at::Tensor self = a[0].toTensor();
  const auto type = a[4].isNone() ? real_type(self.scalar_type()) : a[4].toScalarType();
  return {reduced(self, a[2], a[3].toBool(), type)};
}

const std::unordered_map<std::string, ShapeRule>& rules() {
  static const std::unordered_map<std::string, ShapeRule> table = {
      {"aten::native_layer_norm", layer_norm},
      {"aten::native_layer_norm_backward", layer_norm_backward},
      {"aten::native_group_norm", group_norm},
      {"aten::native_group_norm_backward", group_norm_backward},
      {"aten::native_batch_norm", batch_norm},
      {"aten::_native_batch_norm_legit", batch_norm},
      {"aten::native_batch_norm_backward", batch_norm_backward},
      {"aten::_grouped_mm", grouped_product},
      {"aten::histc", histogram},
      {"aten::nll_loss2d_forward", likelihood_2d},
      {"aten::nll_loss2d_backward", likelihood_2d_backward},
      {"aten::embedding", embedding},
      {"aten::embedding_dense_backward", embedding_dense_backward},
      {"aten::convolution", convolution},
      {"aten::convolution_backward", convolution_backward},
      {"aten::native_dropout", dropout},
      {"aten::native_dropout_backward", pointwise},
      {"aten::var.correction", variance},
      {"aten::std.correction", variance},
      {"aten::var_mean.correction", variance_mean},
      {"aten::std_mean.correction", variance_mean},
      {"aten::where.self", where},
      {"aten::mse_loss", pointwise_loss},
      {"aten::mse_loss_backward", pointwise_loss_backward},
      {"aten::huber_loss", pointwise_loss},
      {"aten::huber_loss_backward", pointwise_loss_backward},
      {"aten::smooth_l1_loss", pointwise_loss},
      {"aten::multi_margin_loss", multi_margin_loss},
      {"aten::multi_margin_loss_backward", contiguous_like_second},
      {"aten::multilabel_margin_loss_forward", multilabel_margin_loss},
      {"aten::multilabel_margin_loss_backward", contiguous_like_second},
      {"aten::_ctc_loss_backward", contiguous_like_second},
      {"aten::fractional_max_pool3d_backward", contiguous_like_second},
      {"aten::_cummax_helper", nothing},
      {"aten::_cummin_helper", nothing},
      {"aten::_logcumsumexp", contiguous_like},
      {"aten::log_sigmoid_forward", log_sigmoid},
      {"aten::log_sigmoid_backward", like_second},
      {"aten::index.Tensor", index},
      {"aten::index_select", index_select},
      {"aten::linalg_vector_norm", vector_norm},
      {"aten::_adaptive_avg_pool2d", adaptive_pool},
      {"aten::_adaptive_avg_pool2d_backward", suggested_second},
      {"aten::_adaptive_avg_pool3d", adaptive_pool},
      {"aten::_adaptive_avg_pool3d_backward", suggested_second},
      {"aten::relu", pointwise},
      {"aten::mish_backward", pointwise_pair},
      {"aten::relu_", first_argument},
      {"aten::abs.out", unary_out},
      {"aten::conj_physical.out", unary_out},
      {"aten::logical_not.out", unary_out},
      {"aten::angle.out", unary_out},
      {"aten::logical_and.out", broadcast_out},
      {"aten::logical_or.out", broadcast_out},
      {"aten::logical_xor.out", broadcast_out},
      {"aten::where.self_out", broadcast_out},
      {"aten::complex.out", broadcast_out},
      {"aten::polar.out", broadcast_out},
      {"aten::median.dim_values", median_out},
      {"aten::nanmedian.dim_values", median_out},
      {"aten::roll", contiguous_like},
      {"aten::flip", pointwise},
      {"aten::mse_loss_backward.grad_input", last_argument},
      {"aten::smooth_l1_loss_backward.grad_input", last_argument},
      {"aten::huber_loss_backward.out", last_argument},
      {"aten::_fused_adamw_", nothing},
      {"aten::_fused_adamw_.tensor_lr", nothing},
      {"aten::_fused_sgd_", nothing},
      {"aten::_fused_sgd_.tensor_lr", nothing},
      {"aten::normal_", first_argument},
      {"aten::uniform_", first_argument},
      {"aten::bernoulli_.float", first_argument},
      {"aten::bernoulli_.Tensor", first_argument},
      {"aten::exponential_", first_argument},
      {"aten::random_", first_argument},
      {"aten::random_.from", first_argument},
      {"aten::random_.to", first_argument},
      {"aten::binomial", contiguous_like},
      {"aten::_standard_gamma", contiguous_like},
      {"aten::_standard_gamma_grad", contiguous_like},
      {"aten::_sample_dirichlet", contiguous_like},
      {"aten::_dirichlet_grad", contiguous_like},
      {"aten::index_put_", first_argument},
      {"aten::_index_put_impl_", first_argument},
      {"aten::masked_fill_.Scalar", first_argument},
      {"aten::masked_fill_.Tensor", first_argument},
      {"aten::copy_", first_argument},
      {"aten::_copy_from", second_argument_in_place},
  };
  return table;
}

}  // namespace

const ShapeRule* find_shape_rule(const std::string& name) {
  for (const auto* table : {&rules(), &python_shape_rules()})
    if (const auto found = table->find(name); found != table->end()) return &found->second;
  return nullptr;
}

const std::string* find_refusal(const std::string& name) {
  static const std::string mask =
      "its output's shape depends on the data; multiply by a mask or use torch::where instead";
  static const std::string value =
      "it reads a value of a tensor, which has none while it is recorded; keep the value in a tensor, or "
      "return it from the step and read it afterwards";
  static const std::string equal =
      "it compares the values of two tensors to decide how to go on, and tensors have none while a step is recorded; "
      "decide by shapes, or by what the model was made with";
  static const std::string least_squares =
      "the size of its residuals depends on the data; use linalg_pinv(a).matmul(b), or solve the normal equations";
  static const std::string sparse = "sparse tensors are not recorded; use a dense tensor, or an index and its values";
  static const std::string bag =
      "the sizes of its further results depend on the kernel that runs; use an embedding, and its sum or mean over a "
      "bag";
  static const std::string storage = "it gives a tensor another's storage; use a view or a copy";
  static const std::unordered_map<std::string, const std::string*> table = {
      {"aten::set_", &storage},
      {"aten::nonzero", &mask},
      {"aten::masked_select", &mask},
      {"aten::unique_dim", &mask},
      {"aten::_unique", &mask},
      {"aten::_unique2", &mask},
      {"aten::unique_consecutive", &mask},
      {"aten::nonzero_static", &mask},
      {"aten::bincount", &mask},
      {"aten::repeat_interleave", &mask},
      {"aten::_local_scalar_dense", &value},
      {"aten::equal", &equal},
      {"aten::_embedding_bag", &bag},
      {"aten::linalg_lstsq", &least_squares},
      {"aten::_to_sparse", &sparse},
  };
  const auto found = table.find(name);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace plimsoll
