// Implements the replacements of scaled_dot_product_attention, of attention that is written with matmul and softmax,
// and of a linear layer with cross entropy.
#include "record/replacement.h"

#include <ATen/ExpandUtils.h>
#include <ATen/FuncTorchTLS.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/Reduction.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cross_entropy_loss_native.h>
#include <ATen/ops/linear_native.h>
#include <ATen/ops/matmul_native.h>
#include <ATen/ops/nll_loss_nd_native.h>
#include <ATen/ops/scaled_dot_product_attention_native.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "ops/attention/attention.h"
#include "ops/loss/linear_cross_entropy.h"
#include "plimsoll/options.h"
#include "record/plan_device.h"
#include "record/recorder.h"
#include "record/row_loss.h"

namespace plimsoll {

using at::Tensor;

bool is_plainly_differentiated(std::initializer_list<const Tensor*> operands) {
  if (at::functorch::functorchTLSAccessor()) {
    try {
      at::functorch::functorchTLSAccessor()->checkSupportsCppAutogradFunction();
    } catch (const c10::Error&) {
      return false;
    }
  }
  return std::ranges::none_of(operands, [](const Tensor* tensor) { return tensor->_fw_grad(/*level=*/0).defined(); });
}

namespace {

// Returns whether the call is one that plimsoll::attention computes: operands [heads, T, D] or [batch, heads, T, D] of
// one type and alike, but for the number of heads and of tokens.
bool is_replaceable(const Tensor& q, const Tensor& k, const Tensor& v, bool is_causal, bool enable_gqa) {
  const Recorder* const recorder = Recorder::active();
  if (!recorder || !recorder->replacements().attention) return false;
  for (const Tensor* tensor : {&q, &k, &v})
    if (!is_plan(*tensor) || tensor->numel() == 0 || tensor->dim() != q.dim() ||
        !at::isFloatingType(tensor->scalar_type()) || tensor->scalar_type() != q.scalar_type())
      return false;
  if (q.dim() < 2 || q.dim() > 4 || q.size(-1) != k.size(-1) || k.sizes() != v.sizes()) return false;
  if (is_causal && q.size(-2) != k.size(-2)) return false;
  if (q.dim() == 3 && q.size(0) != k.size(0)) return false;
  if (q.dim() == 4) {
    const int64_t heads = q.size(1), kv_heads = k.size(1);
    // Without enable_gqa, libtorch's matmul broadcasts a single head.
    const bool grouped = enable_gqa ? heads % kv_heads == 0 : heads == kv_heads || kv_heads == 1;
    if (q.size(0) != k.size(0) || !grouped) return false;
  }
  return is_plainly_differentiated({&q, &k, &v});
}

// Returns [batch, heads, T, D]. Each head of three dimensions is a sequence of one head, so that the result is
// contiguous as libtorch's is.
Tensor with_heads(const Tensor& tensor) {
  if (tensor.dim() == 2) return tensor.unsqueeze(0).unsqueeze(0);
  return tensor.dim() == 3 ? tensor.unsqueeze(1) : tensor;
}

// Returns the result with the dimensions of the queries q.
Tensor without_heads(const Tensor& out, const Tensor& q) {
  if (q.dim() == 2) return out.squeeze(0).squeeze(0);
  return q.dim() == 3 ? out.squeeze(1) : out;
}

// Returns the result in the order of heads and tokens that q has, as libtorch's kernels do.
Tensor in_layout_of(const Tensor& out, const Tensor& q) {
  return q.dim() == 4 && q.stride(1) > q.stride(2) ? out.contiguous() : out;
}

// Returns whether plimsoll::attention takes the mask: it broadcasts to the matrix [.., T, S], and is not trained.
bool is_replaceable_mask(const Tensor& mask, const Tensor& q, at::IntArrayRef matrix) {
  const at::ScalarType type = mask.scalar_type();
  const bool trained = mask.requires_grad() && at::GradMode::is_enabled();
  return is_plan(mask) && (type == at::kBool || type == at::kFloat || type == q.scalar_type()) && !trained &&
         at::is_expandable_to(mask.sizes(), matrix) && is_plainly_differentiated({&mask});
}

// Returns one number. All bits of the dropout follow from it, in forward, backward and when forward is recomputed.
Tensor drawn_seed(const Tensor& q) {
  return at::empty({1}, q.options().dtype(at::kLong)).random_();
}

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>& mask, double dropout,
                 bool is_causal, std::optional<double> scale, bool enable_gqa) {
  bool replaceable = is_replaceable(q, k, v, is_causal, enable_gqa) && dropout >= 0 && dropout < 1;
  ops::AttentionOptions options{.causal = is_causal, .scale = scale, .dropout = dropout};
  if (replaceable && mask) {
    std::vector<int64_t> matrix = q.sizes().vec();
    matrix.back() = k.size(-2);
    replaceable = !is_causal && is_replaceable_mask(*mask, q, matrix);
    if (replaceable) options.mask = with_heads(mask->expand(matrix));
  }
  if (mask || dropout > 0) replaceable = replaceable && Recorder::active()->kernels().masked_attention;
  if (!replaceable)
    return at::native::scaled_dot_product_attention(q, k, v, mask, dropout, is_causal, scale, enable_gqa);
  if (dropout > 0) options.seed = drawn_seed(q);
  return in_layout_of(without_heads(ops::attention(with_heads(q), with_heads(k), with_heads(v), options), q), q);
}

// Returns the mask of written attention. If it hides all keys of a query by a finite number, all keys have the same
// probability, and q and k no gradient: the query then sees all keys, and q becomes 0.
std::optional<Tensor> written_mask(WrittenAttentions::Call& call) {
  if (!call.hidden) return call.added;
  Tensor hidden = call.hides ? *call.hidden : call.hidden->logical_not();
  if (call.added) return call.added->masked_fill(hidden, -std::numeric_limits<double>::infinity());
  if (!call.finite) return call.hides ? hidden.logical_not() : *call.hidden;
  if (hidden.dim() == 0) hidden = hidden.unsqueeze(0);
  const Tensor blind = hidden.all(-1, /*keepdim=*/true);
  call.q = call.q.masked_fill(blind, 0);
  return hidden.logical_not().logical_or(blind);
}

// Returns the largest number of a type, at most that of float32.
double max_of(at::ScalarType type) {
  if (type == at::kHalf) return std::numeric_limits<at::Half>::max();
  if (type == at::kBFloat16) return std::numeric_limits<at::BFloat16>::max();
  return std::numeric_limits<float>::max();
}

// Returns whether attention_with_sinks() can divide the sinks by the scale in q's type. Sinks above 1000 are clamped.
bool has_range_of_sinks(const WrittenAttentions::Call& call) {
  constexpr double kMinScale = 1.0 / 64;
  return !call.sinks || std::abs(call.scale) >= kMinScale ||
         (call.q.scalar_type() != at::kHalf && call.sinks->scalar_type() != at::kHalf);
}

// The result of written attention, with edges to the probabilities and the values that it has as it is written. No
// gradient flows there: the operands have theirs from the operator. Requests for gradients in between are seen.
struct DifferentiatedAttention : torch::autograd::Function<DifferentiatedAttention> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& out, const Tensor&, const Tensor&,
                        int64_t number) {
    context->saved_data["number"] = number;
    context->set_materialize_grads(false);
    // No view for autograd, which would refuse that the caller changes it in place.
    Tensor same = make_plan_view(out, out.sizes(), out.strides(), out.storage_offset(), out.scalar_type());
    torch::autograd::impl::set_version_counter(same, torch::autograd::impl::version_counter(out));
    return same;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    if (Recorder* const recorder = Recorder::active())
      recorder->written_attentions().begin_backward(context->saved_data["number"].toInt());
    return {gradients[0], Tensor(), Tensor(), Tensor()};
  }
};

// Returns attention with sinks: scores of one more key, whose value is 0. They are q's last column, and that key is 1
// there.
Tensor attention_with_sinks(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& sinks,
                            ops::AttentionOptions options) {
  const int64_t width = q.size(3), keys = k.size(2);
  const int64_t padded = (width / 8 + 1) * 8;  // as libtorch's flash kernels need it
  const std::vector<int64_t> column = {q.size(0), q.size(1), q.size(2), 1};
  // Sinks of -inf would be NaN: each other key times 0.
  const double limit =
      std::min(max_of(q.scalar_type()), max_of(sinks.scalar_type())) / std::max(1.0, 2 * std::abs(*options.scale));
  const Tensor last = (sinks / *options.scale).clamp(-limit, limit).to(q.scalar_type()).expand(column);
  const Tensor with_column = at::constant_pad_nd(at::cat({q, last}, 3), {0, padded - width - 1});
  const Tensor sink = at::arange(padded, q.options().dtype(at::kLong)).eq(width).to(k.scalar_type());
  const Tensor with_sink =
      at::cat({at::constant_pad_nd(k, {0, padded - width}), sink.expand({k.size(0), k.size(1), 1, padded})}, 2);
  if (options.mask) {
    std::vector<int64_t> sizes = options.mask->sizes().vec();
    sizes.back() = keys;
    options.mask = at::constant_pad_nd(options.mask->expand(sizes), {0, 1});
  }
  const Tensor values = at::constant_pad_nd(v, {0, padded - width, 0, 1});
  return ops::attention(with_column, with_sink, values, options).slice(3, 0, width);
}

// Returns probabilities times v as attention; an undefined tensor if they are not the probabilities of an attention
// that plimsoll::attention computes.
Tensor written_attention(Recorder& recorder, const Tensor& probabilities, const Tensor& v) {
  WrittenAttentions& attentions = recorder.written_attentions();
  std::optional<WrittenAttentions::Call> call = attentions.find(recorder.trace(), probabilities);
  if (!call || !is_replaceable(call->q, call->k, v, /*is_causal=*/false, /*enable_gqa=*/false) ||
      probabilities.scalar_type() != v.scalar_type())
    return {};
  const std::vector<int64_t> matrix = probabilities.sizes().vec();
  const bool masked = call->added || call->hidden, dropped = call->dropout > 0;
  for (const auto* mask : {&call->added, &call->hidden})
    if (*mask && !is_replaceable_mask(**mask, call->q, matrix)) return {};
  if ((masked || dropped) && !recorder.kernels().masked_attention) return {};
  if (call->sinks && (!is_plainly_differentiated({&*call->sinks}) || !has_range_of_sinks(*call))) return {};
  if (!attentions.replace(probabilities)) return {};
  ops::AttentionOptions options{.causal = false, .scale = call->scale, .softcap = call->cap, .dropout = call->dropout};
  const WrittenAttentions::Unrepeated few_keys = attentions.unrepeated(recorder.trace(), call->k);
  const WrittenAttentions::Unrepeated few_values = attentions.unrepeated(recorder.trace(), v);
  const Tensor &keys = few_keys.tensor, &values = few_values.tensor;
  const bool grouped = keys.defined() && values.defined() && keys.sizes() == values.sizes();
  if (grouped) attentions.add_path(few_keys.path);
  if (grouped) attentions.add_path(few_values.path);
  if (dropped) options.seed = drawn_seed(call->q);
  std::optional<Tensor> mask = written_mask(*call);
  if (mask && !call->sinks) mask = with_heads(mask->expand(matrix));
  options.mask = mask;
  const Tensor q = with_heads(call->q), all_keys = with_heads(grouped ? keys : call->k);
  const Tensor all_values = with_heads(grouped ? values : v);
  const Tensor out = call->sinks ? attention_with_sinks(q, all_keys, all_values, *call->sinks, options)
                                 : ops::attention(q, all_keys, all_values, options);
  const Tensor result = without_heads(out, call->q);
  const Tensor ordered = recorder.has_contiguous_attention() ? result.contiguous() : result;
  return ordered.requires_grad() && at::GradMode::is_enabled()
             ? DifferentiatedAttention::apply(ordered, probabilities, v, attentions.replaced() - 1)
             : ordered;
}

Tensor matmul(const Tensor& left, const Tensor& right) {
  Recorder* const recorder = Recorder::active();
  const bool replacing = recorder && recorder->replacements().attention && is_plan(left) && is_plan(right) &&
                         is_plainly_differentiated({&left, &right});
  if (replacing)
    if (Tensor out = written_attention(*recorder, left, right); out.defined()) return out;
  const Tensor result = at::native::matmul(left, right);
  if (replacing && is_plan(result)) recorder->written_attentions().note_scores(recorder->trace(), left, right, result);
  return result;
}

// Returns the recorder whose loss heads are replaced; null: none.
Recorder* replacing() {
  Recorder* const recorder = Recorder::active();
  return recorder && recorder->replacements().cross_entropy ? recorder : nullptr;
}

Tensor linear(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias) {
  const Tensor result = at::native::linear(x, weight, bias);
  Recorder* const recorder = replacing();
  if (recorder && !(bias && bias->defined()) && is_plan(x) && is_plan(weight) && is_plan(result) &&
      is_plainly_differentiated({&x, &weight}))
    recorder->loss_heads().note_linear(recorder->trace(), x, weight, result);
  return result;
}

// Returns whether the sizes of the targets are those of the logits without the dimension of classes.
bool are_labels_of(const Tensor& targets, const Tensor& logits, int64_t classes) {
  std::vector<int64_t> sizes = logits.sizes().vec();
  sizes.erase(sizes.begin() + classes);
  return targets.sizes() == at::IntArrayRef(sizes);
}

// The loss of a head, with the edge to the logits that libtorch's loss has. No gradient flows there: the layer's
// operands have theirs from the operator.
struct Differentiated : torch::autograd::Function<Differentiated> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& loss, const Tensor&, int64_t number) {
    context->saved_data["number"] = number;
    return loss.view_as(loss);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    if (Recorder* const recorder = Recorder::active())
      recorder->loss_heads().begin_backward(context->saved_data["number"].toInt());
    return {gradients[0], Tensor(), Tensor()};
  }
};

// Returns the loss of a head by plimsoll::linear_cross_entropy; an undefined tensor if it cannot compute this one.
Tensor loss_of_head(const Tensor& logits, const Tensor& targets, const std::optional<Tensor>& class_weights,
                    int64_t reduction, int64_t ignore_index, bool log_softmax) {
  Recorder* const recorder = replacing();
  const int64_t classes = logits.dim() > 1 ? 1 : 0;
  if (!recorder || (class_weights && class_weights->defined()) || reduction == at::Reduction::None ||
      logits.dim() < 2 || !is_plan(logits) || !is_plan(targets) || targets.scalar_type() != at::kLong ||
      !are_labels_of(targets, logits, classes) || !is_plainly_differentiated({&logits}))
    return {};
  const auto head = recorder->loss_heads().find(recorder->trace(), logits, classes, log_softmax);
  if (!head) return {};
  const bool autocast = at::autocast::is_autocast_enabled(kPlanDevice);
  const c10::impl::ExcludeDispatchKeyGuard without_autocast(c10::autocast_dispatch_keyset);  // the layer has cast them
  const Tensor labels = targets.reshape({-1});
  const Tensor mean = ops::linear_cross_entropy(head->x, head->weight, labels, ignore_index);
  const Tensor counted = labels.ne(ignore_index).sum();
  // The operator's mean over no token is 0; libtorch's is NaN, with gradients of 0.
  const Tensor loss = reduction == at::Reduction::Sum
                          ? mean * counted.to(mean.scalar_type())
                          : mean.masked_fill(counted.eq(0), std::numeric_limits<double>::quiet_NaN());
  // Under autocast libtorch computes the losses in float32.
  const Tensor result = autocast ? loss : loss.to(logits.scalar_type());
  return logits.requires_grad() && at::GradMode::is_enabled() ? Differentiated::apply(result, logits, head->number)
                                                              : result;
}

// A scope of a cross entropy, libtorch's or row_loss(), which calls nll_loss_nd.
thread_local bool inside = false;
struct Inside {
  Inside() { inside = true; }
  ~Inside() { inside = false; }
};

// Returns the loss as one for each row and a sum; an undefined tensor if it is recorded as it is.
Tensor loss_of_rows(const Tensor& logits, const Tensor& targets, const RowLossOptions& options) {
  Recorder* const recorder = Recorder::active();
  if (!recorder || !recorder->replacements().loss_rows || !is_plan(logits) || !is_plan(targets) ||
      !has_row_loss(recorder->trace(), logits, options) || targets.scalar_type() != at::kLong ||
      !are_labels_of(targets, logits, 1) || !is_plainly_differentiated({&logits}))
    return {};
  const Inside scope;
  return row_loss(logits, targets, options);
}

Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const std::optional<Tensor>& weight,
                     int64_t reduction, c10::SymInt ignore_index, double label_smoothing) {
  if (label_smoothing == 0)
    if (Tensor loss = loss_of_head(logits, targets, weight, reduction, ignore_index.expect_int(), false);
        loss.defined())
      return loss;
  const RowLossOptions options{weight, reduction, ignore_index.expect_int(), label_smoothing, false};
  if (Tensor loss = loss_of_rows(logits, targets, options); loss.defined()) return loss;
  const Inside scope;
  return at::native::cross_entropy_loss_symint(logits, targets, weight, reduction, std::move(ignore_index),
                                               label_smoothing);
}

Tensor negative_log_likelihood(const Tensor& logarithms, const Tensor& targets, const std::optional<Tensor>& weight,
                               int64_t reduction, c10::SymInt ignore_index) {
  if (!inside) {
    if (Tensor loss = loss_of_head(logarithms, targets, weight, reduction, ignore_index.expect_int(), true);
        loss.defined())
      return loss;
    const RowLossOptions options{weight, reduction, ignore_index.expect_int(), 0, true};
    if (Tensor loss = loss_of_rows(logarithms, targets, options); loss.defined()) return loss;
  }
  return at::native::nll_loss_nd_symint(logarithms, targets, weight, reduction, std::move(ignore_index));
}

TORCH_LIBRARY_IMPL(aten, IPU, m) {
  m.impl("scaled_dot_product_attention", attention);
}

TORCH_LIBRARY_IMPL(aten, AutogradIPU, m) {
  m.impl("scaled_dot_product_attention", attention);
  m.impl("linear", linear);
  m.impl("matmul", matmul);
  m.impl("cross_entropy_loss", cross_entropy);
  m.impl("nll_loss_nd", negative_log_likelihood);
}

}  // namespace
}  // namespace plimsoll
