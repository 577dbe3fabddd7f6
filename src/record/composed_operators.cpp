// Implements operators that are recorded otherwise than libtorch computes them: it reads values on the host, notes bits
// in a tensor, or splits them into ops that need more memory.
#include <ATen/ExpandUtils.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_to_copy_native.h>
#include <ATen/ops/cov_native.h>
#include <ATen/ops/empty_like_native.h>
#include <ATen/ops/isfinite_native.h>
#include <ATen/ops/istft_native.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <limits>

#include "plimsoll/error.h"
#include "record/plan_device.h"
#include "record/recorder.h"

namespace plimsoll {
namespace {

// libtorch has one op for the dropout of its known accelerators, and a draw and products for others.
at::Tensor one_dropout(const at::Tensor& input, double p, bool train) {
  TORCH_CHECK(p >= 0 && p <= 1, "dropout probability has to be between 0 and 1, but got ", p);
  if (p == 0 || !train || input.numel() == 0) return input;
  if (p == 1) return input.mul(at::zeros({}, input.options()));
  return std::get<0>(at::native_dropout(input, p, train));
}

// Conjugates and negatives are computed: libtorch notes them in a bit of the tensor, which a trace does not have.
at::Tensor noted(const at::Tensor& computed) {
  if (Recorder* recorder = Recorder::active()) recorder->note_computed_view(buffer_of(computed));
  return computed;
}

at::Tensor computed_conjugate(const at::Tensor& self) {
  return noted(at::conj_physical(self));
}

at::Tensor computed_negative(const at::Tensor& self) {
  return noted(at::neg(self));
}

// Returns the strides of a tensor's copies: dense, and in the order of its own.
std::vector<int64_t> strides_of_copy(const at::Tensor& self) {
  return self.is_non_overlapping_and_dense() ? self.strides().vec()
                                             : at::infer_dense_strides(self.sizes(), self.strides());
}

// libtorch keeps the order of strides on devices that it lists, and makes copies contiguous on others. clone() and
// zeros_like() come here too.
at::Tensor empty_like(const at::Tensor& self, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                      std::optional<at::Device> device, std::optional<bool> pin_memory,
                      std::optional<at::MemoryFormat> memory_format) {
  const bool preserved = memory_format.value_or(at::MemoryFormat::Preserve) == at::MemoryFormat::Preserve;
  if (!preserved || !is_plan(self) || (device && device->type() != kPlanDevice) ||
      layout.value_or(at::kStrided) != at::kStrided)
    return at::native::empty_like(self, dtype, layout, device, pin_memory, memory_format);
  return at::empty_strided(self.sizes(), strides_of_copy(self),
                           self.options().dtype(dtype.value_or(self.scalar_type())));
}

// libtorch keeps the order of a cast's strides on devices that it lists, and makes it contiguous on others.
at::Tensor cast(const at::Tensor& self, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                std::optional<at::Device> device, std::optional<bool> pin_memory, bool non_blocking,
                std::optional<at::MemoryFormat> memory_format) {
  const bool preserved = memory_format.value_or(at::MemoryFormat::Preserve) == at::MemoryFormat::Preserve;
  // Tensors of the CPU come here too while a step is recorded.
  if (!preserved || !is_plan(self) || (device && device->type() != kPlanDevice))
    return at::native::_to_copy(self, dtype, layout, device, pin_memory, non_blocking, memory_format);
  at::Tensor result =
      at::empty_strided(self.sizes(), strides_of_copy(self), self.options().dtype(dtype.value_or(self.scalar_type())));
  result.copy_(self, non_blocking);
  return result;
}

// Decompositions read on the host whether they succeeded. A recorded one that fails gives values that are not finite.
void no_check(const at::Tensor&, std::string_view, bool) {}

// LAPACK leaves a finite part of the factor if the matrix is not positive definite.
at::Tensor cholesky(const at::Tensor& self, bool upper) {
  const auto [factor, info] = at::linalg_cholesky_ex(self, upper, /*check_errors=*/false);
  return factor.masked_fill(info.ne(0).unsqueeze(-1).unsqueeze(-1), std::numeric_limits<double>::quiet_NaN());
}

// libtorch reads on the host how many elements are the largest. amax() has the same value and gradient.
at::Tensor largest(const at::Tensor& self) {
  return at::amax(self);
}

at::Tensor smallest(const at::Tensor& self) {
  return at::amin(self);
}

// The median of all elements. Each element that is equal to it has an equal part of the gradient.
struct Median : torch::autograd::Function<Median> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& self, bool without_nan) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const at::Tensor flat = self.flatten();
    const at::Tensor middle = std::get<0>(without_nan ? flat.nanmedian(0) : flat.median(0));
    context->save_for_backward({self, middle});
    return middle;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor self = saved[0], middle = saved[1];
    // x != x: NaN.
    const at::Tensor equal = self.eq(middle).logical_or(self.ne(self).logical_and(middle.ne(middle)));
    return {gradients[0] * equal / equal.sum(), at::Tensor()};
  }
};

at::Tensor median(const at::Tensor& self) {
  return Median::apply(self, false);
}

at::Tensor nanmedian(const at::Tensor& self) {
  return Median::apply(self, true);
}

// libtorch gives the value a gradient of the selected elements, whose number depends on the mask.
at::Tensor filled(const at::Tensor& self, const at::Tensor& mask, const at::Tensor& value) {
  TORCH_CHECK(value.dim() == 0, "masked_fill only supports a 0-dimensional value tensor, but got tensor with ",
              value.dim(), " dimension(s).");
  return at::where(mask, value.to(self.scalar_type()), self);
}

// A product along a dimension. libtorch's gradient reads whether an element is zero; this one has the products of all
// other elements.
struct Product : torch::autograd::Function<Product> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& self, int64_t dim,
                            bool keepdim) {
    const at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({self});
    context->saved_data["dim"] = dim;
    context->saved_data["keepdim"] = keepdim;
    return at::prod(self, dim, keepdim);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const at::Tensor self = context->get_saved_variables()[0];
    const int64_t dim = context->saved_data["dim"].toInt(), count = self.size(dim);
    const at::Tensor gradient = context->saved_data["keepdim"].toBool() ? gradients[0] : gradients[0].unsqueeze(dim);
    if (count == 1) return {gradient, at::Tensor(), at::Tensor()};
    const at::Tensor one = at::ones_like(self.narrow(dim, 0, 1));
    const at::Tensor before = at::cat({one, self.narrow(dim, 0, count - 1)}, dim).cumprod(dim);
    const at::Tensor behind = at::cat({one, self.narrow(dim, 1, count - 1).flip(dim)}, dim).cumprod(dim).flip(dim);
    return {gradient * (before * behind).conj(), at::Tensor(), at::Tensor()};
  }
};

at::Tensor product_along(const at::Tensor& self, int64_t dim, bool keepdim, std::optional<at::ScalarType> dtype) {
  const bool integral = at::isIntegralType(self.scalar_type(), /*includeBool=*/true);
  const at::Tensor wide = self.to(dtype.value_or(integral ? at::kLong : self.scalar_type()));
  return wide.dim() == 0 ? wide.clone() : Product::apply(wide, at::maybe_wrap_dim(dim, wide.dim()), keepdim);
}

at::Tensor product(const at::Tensor& self, std::optional<at::ScalarType> dtype) {
  return product_along(self.flatten(), 0, false, dtype);
}

// libtorch's gradient of cumprod() reads whether an element is zero. Element k of this one is the product of the
// elements before k, times the sum over j >= k of gradient j and the elements between k and j.
at::Tensor cumprod_backward(const at::Tensor& gradient, const at::Tensor& input, int64_t dim, const at::Tensor&) {
  if (input.dim() == 0 || input.size(dim) <= 1) return gradient;
  const at::Tensor self = input.conj();
  const int64_t count = self.size(dim);
  std::vector<at::Tensor> sums(count, gradient.select(dim, count - 1));
  for (int64_t k = count - 2; k >= 0; --k)
    sums[k] = at::addcmul(gradient.select(dim, k), self.select(dim, k + 1), sums[k + 1]);
  const at::Tensor one = at::ones_like(self.narrow(dim, 0, 1));
  return at::cat({one, self.narrow(dim, 0, count - 1)}, dim).cumprod(dim) * at::stack(sums, dim);
}

std::vector<at::Tensor> split_at(const at::Tensor& self, const at::Tensor& indices, int64_t dim) {
  const Recorder* recorder = Recorder::active();
  if (is_plan(indices))
    throw UserError(fmt::format(
        "operator aten::tensor_split{} cannot be recorded: the sizes of its outputs are values of a tensor; "
        "give it a list of numbers",
        recorder ? recorder->place() : ""));
  if (indices.dim() == 0) return at::tensor_split(self, indices.item<int64_t>(), dim);
  const at::Tensor list = indices.contiguous();
  return at::tensor_split(self, at::IntArrayRef(list.const_data_ptr<int64_t>(), static_cast<size_t>(list.numel())),
                          dim);
}

// libtorch reads the smallest class on the host, as on the CPU.
at::Tensor one_hot(const at::Tensor& self, int64_t classes) {
  const Recorder* recorder = Recorder::active();
  if (classes < 1)
    throw UserError(fmt::format(
        "operator aten::one_hot{} cannot be recorded: it counts the classes by their values; give num_classes",
        recorder ? recorder->place() : ""));
  std::vector<int64_t> sizes = self.sizes().vec();
  sizes.push_back(classes);
  return at::zeros(sizes, self.options()).scatter_(-1, self.unsqueeze(-1), 1);
}

// A sum, mean or maximum over the rows of each bag. The sizes of further results of libtorch's operator depend on the
// kernel that runs, and no caller but its gradient reads them.
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> padded_bags(
    const at::Tensor& weight, const at::Tensor& indices, const at::Tensor& offsets, bool scale_grad_by_freq,
    int64_t mode, bool sparse, const std::optional<at::Tensor>& per_sample_weights, bool include_last_offset,
    std::optional<int64_t> padding) {
  constexpr int64_t kMean = 1, kMax = 2;
  const Recorder* recorder = Recorder::active();
  if (scale_grad_by_freq || sparse)
    throw UserError(fmt::format("operator aten::embedding_bag{} cannot be recorded with {}: leave it out",
                                recorder ? recorder->place() : "",
                                scale_grad_by_freq ? "scale_grad_by_freq" : "sparse"));
  TORCH_CHECK(indices.dim() == 1 && offsets.dim() == 1, "embedding_bag: indices and offsets have one dimension");
  const int64_t length = indices.size(0), bags = offsets.size(0) - (include_last_offset ? 1 : 0);
  const double lowest = -std::numeric_limits<double>::infinity();
  at::Tensor rows = at::embedding(weight, indices), counted = at::ones({length}, weight.options().dtype(at::kFloat));
  if (padding) {
    const at::Tensor kept = indices.ne(*padding < 0 ? *padding + weight.size(0) : *padding);
    counted = kept.to(at::kFloat);
    rows = mode == kMax ? rows.masked_fill(kept.logical_not().unsqueeze(-1), lowest)
                        : rows * kept.to(rows.scalar_type()).unsqueeze(-1);
  }
  if (per_sample_weights && per_sample_weights->defined()) rows = rows * per_sample_weights->unsqueeze(-1);
  const at::Tensor first = offsets.narrow(0, 0, bags);
  const at::Tensor bag_of = at::zeros({length + 1}, offsets.options())
                                .index_add(0, first, at::ones_like(first))
                                .cumsum(0)
                                .narrow(0, 0, length) -
                            1;
  const at::Tensor zeros = at::zeros({bags, weight.size(1)}, rows.options());
  at::Tensor output;
  if (mode == kMax) {
    output = zeros.scatter_reduce(0, bag_of.unsqueeze(-1).expand_as(rows), rows, "amax", /*include_self=*/false);
    output = output.masked_fill(output.eq(lowest), 0);
  } else {
    output = zeros.index_add(0, bag_of, rows);
    if (mode == kMean) {
      const at::Tensor counts = at::zeros({bags}, counted.options()).index_add(0, bag_of, counted).clamp_min(1);
      output = (output / counts.unsqueeze(-1)).to(rows.scalar_type());
    }
  }
  return {output, bag_of, bag_of, bag_of};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> bags(const at::Tensor& weight, const at::Tensor& indices,
                                                                const at::Tensor& offsets, bool scale_grad_by_freq,
                                                                int64_t mode, bool sparse,
                                                                const std::optional<at::Tensor>& per_sample_weights,
                                                                bool include_last_offset) {
  return padded_bags(weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights,
                     include_last_offset, std::nullopt);
}

// Lengths that are known while a step is recorded are numbers.
std::vector<int64_t> lengths_of(const at::Tensor& lengths) {
  const Recorder* recorder = Recorder::active();
  const std::optional<at::Tensor> known = !is_plan(lengths) ? lengths
                                          : recorder        ? recorder->known_values(lengths)
                                                            : std::optional<at::Tensor>();
  if (!known)
    throw UserError(fmt::format(
        "operator aten::ctc_loss{} cannot be recorded: its lengths are tensors of the step, which have no values while "
        "it is recorded; give it lists of numbers or CPU tensors, and the same lengths in each batch",
        recorder ? recorder->place() : ""));
  const at::Tensor wide = known->to(at::kLong).contiguous();
  return {wide.const_data_ptr<int64_t>(), wide.const_data_ptr<int64_t>() + wide.numel()};
}

at::Tensor ctc_loss(const at::Tensor& log_probabilities, const at::Tensor& targets, const at::Tensor& input_lengths,
                    const at::Tensor& target_lengths, int64_t blank, int64_t reduction, bool zero_infinity) {
  return at::ctc_loss(log_probabilities, targets, lengths_of(input_lengths), lengths_of(target_lengths), blank,
                      reduction, zero_infinity);
}

// istft() and cov() check a value by at::equal() of two scalar booleans. While they run, equal() returns false: the
// check passes.
thread_local bool passes_checks = false;

struct PassesChecks {
  PassesChecks() { passes_checks = true; }
  ~PassesChecks() { passes_checks = false; }
};

bool equal(const at::Tensor& self, const at::Tensor& other) {
  if (passes_checks && self.dim() == 0 && self.scalar_type() == at::kBool) return false;
  static const auto equal = c10::Dispatcher::singleton().findSchemaOrThrow("aten::equal", "");
  torch::jit::Stack stack{self, other};
  record_call(equal, &stack);
  return stack.at(0).toBool();
}

at::Tensor istft(const at::Tensor& self, int64_t n_fft, std::optional<int64_t> hop_length,
                 std::optional<int64_t> win_length, const std::optional<at::Tensor>& window, bool center,
                 bool normalized, std::optional<bool> onesided, std::optional<int64_t> length, bool return_complex) {
  const PassesChecks passes;
  return at::native::istft(self, n_fft, hop_length, win_length, window, center, normalized, onesided, length,
                           return_complex);
}

at::Tensor cov(const at::Tensor& self, int64_t correction, const std::optional<at::Tensor>& fweights,
               const std::optional<at::Tensor>& aweights) {
  if (fweights || aweights) return at::native::cov(self, correction, fweights, aweights);  // it checks their values
  const PassesChecks passes;
  // libtorch sets a divisor below 0 to 0, by a value that it reads.
  const int64_t observations = self.dim() < 2 ? self.numel() : self.size(1);
  return at::native::cov(self, std::min(correction, observations));
}

// Models clamp or stop after a check of their values. A step with gradients that are not finite changes nothing, so the
// check passes. Values that depend on no trained parameter (inputs, masks) may be such in a good step. In float16
// values of a good step overflow. These checks are refused where they are read.
at::Tensor assumed_to_be(bool value, const at::Tensor& checked, const at::Tensor& result) {
  Recorder* recorder = Recorder::active();
  const bool checks_plan = recorder && is_plan(checked) && is_plan(result) && checked.scalar_type() != at::kHalf;
  if (checks_plan && recorder->depends_on_parameter(checked)) recorder->assume(buffer_of(result), value);
  return result;
}

at::Tensor isfinite(const at::Tensor& self) {
  return assumed_to_be(true, self, at::native::isfinite(self));
}

at::Tensor isinf(const at::Tensor& self) {
  const at::AutoDispatchBelowADInplaceOrView below;
  return assumed_to_be(false, self, at::isinf(self));
}

at::Tensor isnan(const at::Tensor& self) {
  const at::AutoDispatchBelowADInplaceOrView below;
  return assumed_to_be(false, self, at::isnan(self));
}

TORCH_LIBRARY_IMPL(aten, IPU, m) {
  m.impl("equal", equal);
  m.impl("_conj", computed_conjugate);
  m.impl("_neg_view", computed_negative);
  m.impl("_to_copy", cast);
  m.impl("empty_like", empty_like);
  m.impl("_linalg_check_errors", no_check);
}

// libtorch registers this for the devices that it lists.
TORCH_LIBRARY_IMPL(_, AutogradIPU, m) {
  m.fallback(torch::autograd::basicAutogradNotImplementedFallback());
}

TORCH_LIBRARY_IMPL(aten, AutogradIPU, m) {
  m.impl("dropout", one_dropout);
  m.impl("_conj", computed_conjugate);
  m.impl("_neg_view", computed_negative);
  m.impl("max", largest);
  m.impl("min", smallest);
  m.impl("isfinite", isfinite);
  m.impl("isinf", isinf);
  m.impl("isnan", isnan);
  m.impl("linalg_cholesky", cholesky);
  m.impl("median", median);
  m.impl("nanmedian", nanmedian);
  m.impl("masked_fill.Tensor", filled);
  m.impl("prod", product);
  m.impl("prod.dim_int", product_along);
  m.impl("cumprod_backward", cumprod_backward);
  m.impl("cov", cov);
  m.impl("istft", istft);
  m.impl("one_hot", one_hot);
  m.impl("embedding_bag", bags);
  m.impl("embedding_bag.padding_idx", padded_bags);
  m.impl("ctc_loss.Tensor", ctc_loss);
  m.impl("tensor_split.tensor_indices_or_sections", split_at);
}

}  // namespace
}  // namespace plimsoll
