#include "ops/attention/attention.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "ops/attention/attention_cpu.h"
#include "ops/op_support.h"
#include "plimsoll/error.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;
using Results = std::tuple<Tensor, Tensor>;
using Gradients = std::tuple<Tensor, Tensor, Tensor>;
using Scale = std::optional<double>;
using Optional = std::optional<Tensor>;
using Forward = Results(const Tensor&, const Tensor&, const Tensor&, bool, int64_t, Scale, double, const Optional&,
                        const Optional&, double);
using Backward = Gradients(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                           bool, int64_t, Scale, double, const Optional&, const Optional&, double);

}  // namespace

AttentionShape attention_shape(const Tensor& q, const Tensor& k, const Tensor& v, bool causal, int64_t window,
                               double softcap, const Optional& mask, const Optional& seed, double dropout) {
  constexpr const char* op = "plimsoll::attention";
  require_floating(op, "q", q);
  require(q.dim() == 4 && k.dim() == 4 && v.sizes() == k.sizes() && q.size(0) == k.size(0) && q.size(3) == k.size(3),
          op, "q has shape ", q.sizes(), ", k ", k.sizes(), " and v ", v.sizes(),
          "; they must be [batch, heads, tokens, width], k and v alike, batch and width all alike");
  require(q.scalar_type() == k.scalar_type() && q.scalar_type() == v.scalar_type(), op, "q is ",
          c10::toString(q.scalar_type()), ", k ", c10::toString(k.scalar_type()), " and v ",
          c10::toString(v.scalar_type()), "; they must be of one type");
  require(k.size(1) > 0 && q.size(1) % k.size(1) == 0, op, "k has ", k.size(1), " heads, which do not divide the ",
          q.size(1), " of q");
  require(q.size(0) > 0 && q.size(1) > 0 && q.size(2) > 0 && k.size(2) > 0 && q.size(3) > 0, op, "q ", q.sizes(),
          " or k ", k.sizes(), " is empty");
  require(!causal || q.size(2) == k.size(2), op, "causal attention wants as many keys (", k.size(2), ") as queries (",
          q.size(2), ")");
  require(window == 0 || (window > 0 && causal), op, "window is ", window,
          "; it must be 0 (none), or positive with causal attention");
  require(softcap >= 0, op, "softcap is ", softcap, "; it must be 0 (none) or positive");
  if (mask) {
    require(mask->sizes() == at::IntArrayRef({q.size(0), q.size(1), q.size(2), k.size(2)}), op, "mask has shape ",
            mask->sizes(), "; it must be [batch, heads, queries, keys] = [", q.size(0), ", ", q.size(1), ", ",
            q.size(2), ", ", k.size(2), "]");
    require(mask->scalar_type() == at::kBool || is_floating(mask->scalar_type()), op, "mask is ",
            c10::toString(mask->scalar_type()), "; allowed are bool and floating-point");
  }
  require(dropout >= 0 && dropout < 1, op, "dropout is ", dropout, "; it must be at least 0 and below 1");
  require((dropout > 0) == seed.has_value(), op, "dropout is ", dropout, seed ? ", with a seed" : ", without a seed");
  if (seed) require(seed->scalar_type() == at::kLong && seed->numel() == 1, op, "seed must be one int64");
  // A window as long as the sequence hides nothing; smaller values fit into the kernels' lanes.
  return {q.size(0),   q.size(1),        k.size(1),  q.size(2),
          k.size(2),   q.size(3),        causal,     std::min(window, k.size(2)),
          softcap > 0, mask.has_value(), dropout > 0};
}

/// Returns an unfilled [B, H, T, D] laid out as [B, T, H, D].
static Tensor empty_heads(const Tensor& like) {
  return at::empty({like.size(0), like.size(2), like.size(1), like.size(3)}, like.options()).transpose(1, 2);
}

Results attention_results(const Tensor& q, const Tensor& k, const Tensor& v, bool causal, int64_t window, Scale scale,
                          double softcap, const Optional& mask, const Optional& seed, double dropout) {
  attention_shape(q, k, v, causal, window, softcap, mask, seed, dropout);
  std::vector<int64_t> numbers{q.size(0), q.size(1), q.size(2)};
  if (mask) numbers.push_back(2);
  return {empty_heads(q), at::empty(numbers, q.options().dtype(accumulator(q.scalar_type())))};
}

static void require_outputs(const Tensor& grad_out, const Tensor& out, const Tensor& q) {
  require(grad_out.sizes() == q.sizes() && out.sizes() == q.sizes(), "plimsoll::attention_backward",
          "grad_out has shape ", grad_out.sizes(), ", out ", out.sizes(), " and q ", q.sizes(), "; they must be alike");
}

Gradients attention_gradients(const Tensor& grad_out, const Tensor& q, const Tensor& k, const Tensor& v,
                              const Tensor& out, const Tensor& logsumexp, bool causal, int64_t window, Scale scale,
                              double softcap, const Optional& mask, const Optional& seed, double dropout) {
  attention_shape(q, k, v, causal, window, softcap, mask, seed, dropout);
  require_outputs(grad_out, out, q);
  return {empty_heads(q), empty_heads(k), empty_heads(v)};
}

static void require_gradient(const char* name, const Tensor& gradient, const Tensor& of) {
  require(gradient.sizes() == of.sizes() && gradient.scalar_type() == of.scalar_type() &&
              (gradient.numel() == 0 || gradient.stride(3) == 1),
          "plimsoll::attention_backward", name, " is ", c10::toString(gradient.scalar_type()), " ", gradient.sizes(),
          " by ", gradient.strides(), "; it must be ", c10::toString(of.scalar_type()), " ", of.sizes(),
          " with contiguous rows");
}

void require_gradients(const Tensor& grad_out, const Tensor& out, const Tensor& q, const Tensor& k, const Tensor& v,
                       const Tensor& dq, const Tensor& dk, const Tensor& dv) {
  require_outputs(grad_out, out, q);
  require_gradient("dq", dq, q);
  require_gradient("dk", dk, k);
  require_gradient("dv", dv, v);
}

namespace {

Tensor inner_contiguous(const Tensor& tensor) {
  return tensor.stride(3) == 1 ? tensor : tensor.contiguous();
}

double scale_of(const Tensor& q, Scale scale) {
  return scale.value_or(1.0 / std::sqrt(static_cast<double>(q.size(3))));
}

AttentionCall call_of(const Tensor& q, const Tensor& k, const Tensor& v, bool causal, int64_t window, Scale scale,
                      double softcap, const Optional& mask, const Optional& seed, double dropout) {
  return {.shape = attention_shape(q, k, v, causal, window, softcap, mask, seed, dropout),
          .scale = scale_of(q, scale),
          .cap = softcap,
          .q = inner_contiguous(q),
          .k = inner_contiguous(k),
          .v = inner_contiguous(v),
          .mask = mask.value_or(Tensor()),
          .dropout = dropout,
          .seed = seed ? static_cast<uint64_t>(*seed->const_data_ptr<int64_t>()) : 0};
}

Results attention_cpu(const Tensor& q, const Tensor& k, const Tensor& v, bool causal, int64_t window, Scale scale,
                      double softcap, const Optional& mask, const Optional& seed, double dropout) {
  auto [out, logsumexp] = attention_results(q, k, v, causal, window, scale, softcap, mask, seed, dropout);
  attention_forward_cpu(call_of(q, k, v, causal, window, scale, softcap, mask, seed, dropout), out, logsumexp);
  return {out, logsumexp};
}

void attention_grad_meta_into(const Tensor& grad_out, const Tensor& q, const Tensor& k, const Tensor& v,
                              const Tensor& out, const Tensor& logsumexp, bool causal, int64_t window, Scale scale,
                              double softcap, const Optional& mask, const Optional& seed, double dropout, Tensor& dq,
                              Tensor& dk, Tensor& dv) {
  attention_gradients(grad_out, q, k, v, out, logsumexp, causal, window, scale, softcap, mask, seed, dropout);
  require_gradients(grad_out, out, q, k, v, dq, dk, dv);
}

void attention_grad_cpu_into(const Tensor& grad_out, const Tensor& q, const Tensor& k, const Tensor& v,
                             const Tensor& out, const Tensor& logsumexp, bool causal, int64_t window, Scale scale,
                             double softcap, const Optional& mask, const Optional& seed, double dropout, Tensor& dq,
                             Tensor& dk, Tensor& dv) {
  require_gradients(grad_out, out, q, k, v, dq, dk, dv);
  attention_backward_cpu(call_of(q, k, v, causal, window, scale, softcap, mask, seed, dropout),
                         inner_contiguous(grad_out), inner_contiguous(out), logsumexp, dq, dk, dv);
}

Gradients attention_grad_cpu(const Tensor& grad_out, const Tensor& q, const Tensor& k, const Tensor& v,
                             const Tensor& out, const Tensor& logsumexp, bool causal, int64_t window, Scale scale,
                             double softcap, const Optional& mask, const Optional& seed, double dropout) {
  auto [dq, dk, dv] =
      attention_gradients(grad_out, q, k, v, out, logsumexp, causal, window, scale, softcap, mask, seed, dropout);
  attention_grad_cpu_into(grad_out, q, k, v, out, logsumexp, causal, window, scale, softcap, mask, seed, dropout, dq,
                          dk, dv);
  return {dq, dk, dv};
}

Results call_attention(const Tensor& q, const Tensor& k, const Tensor& v, bool causal, int64_t window, Scale scale,
                       double softcap, const Optional& mask, const Optional& seed, double dropout) {
  static const auto handle = operator_handle<Forward>("plimsoll::attention");
  return handle.call(q, k, v, causal, window, scale, softcap, mask, seed, dropout);
}

struct Attention : torch::autograd::Function<Attention> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context, const Tensor& q,
                                                const Tensor& k, const Tensor& v, bool causal, int64_t window,
                                                Scale scale, double softcap, const Optional& mask, const Optional& seed,
                                                double dropout) {
    at::AutoDispatchBelowADInplaceOrView below;
    auto [out, logsumexp] = call_attention(q, k, v, causal, window, scale, softcap, mask, seed, dropout);
    context->save_for_backward({q, k, v, out, logsumexp, mask.value_or(Tensor()), seed.value_or(Tensor())});
    context->mark_non_differentiable({logsumexp});
    context->saved_data["causal"] = causal;
    context->saved_data["window"] = window;
    context->saved_data["scale"] = scale;
    context->saved_data["softcap"] = softcap;
    context->saved_data["dropout"] = dropout;
    return {out, logsumexp};
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    static const auto handle = gradient_handle<Backward>("plimsoll::attention");
    torch::autograd::variable_list gradients(10);
    if (!grads[0].defined()) return gradients;
    const auto saved = context->get_saved_variables();
    auto& data = context->saved_data;
    const auto given = [&](size_t i) { return saved[i].defined() ? Optional(saved[i]) : std::nullopt; };
    std::tie(gradients[0], gradients[1], gradients[2]) = handle.call(
        grads[0], saved[0], saved[1], saved[2], saved[3], saved[4], data["causal"].toBool(), data["window"].toInt(),
        data["scale"].toOptional<double>(), data["softcap"].toDouble(), given(5), given(6), data["dropout"].toDouble());
    return gradients;
  }
};

Results attention_autograd(const Tensor& q, const Tensor& k, const Tensor& v, bool causal, int64_t window, Scale scale,
                           double softcap, const Optional& mask, const Optional& seed, double dropout) {
  require(!mask || !mask->requires_grad() || !at::GradMode::is_enabled(), "plimsoll::attention",
          "mask needs a gradient, which it does not get");
  auto results = Attention::apply(q, k, v, causal, window, scale, softcap, mask, seed, dropout);
  return {results[0], results[1]};
}

// The gradients as a function that names itself if it is differentiated.
struct AttentionGradients : torch::autograd::Function<AttentionGradients> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext*, const Tensor& grad_out,
                                                const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& out,
                                                const Tensor& logsumexp, bool causal, int64_t window, Scale scale,
                                                double softcap, const Optional& mask, const Optional& seed,
                                                double dropout) {
    static const auto handle = gradient_handle<Backward>("plimsoll::attention");
    at::AutoDispatchBelowADInplaceOrView below;
    auto [dq, dk, dv] =
        handle.call(grad_out, q, k, v, out, logsumexp, causal, window, scale, softcap, mask, seed, dropout);
    return {dq, dk, dv};
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list&) {
    throw UserError(
        "operator plimsoll::attention_backward has no second derivative, and cannot be recorded with one: record "
        "PyTorch's own operators (in Python replace={\"attention\": False}, in C++ Step::replace)");
  }
};

Gradients attention_grad_autograd(const Tensor& grad_out, const Tensor& q, const Tensor& k, const Tensor& v,
                                  const Tensor& out, const Tensor& logsumexp, bool causal, int64_t window, Scale scale,
                                  double softcap, const Optional& mask, const Optional& seed, double dropout) {
  auto results =
      AttentionGradients::apply(grad_out, q, k, v, out, logsumexp, causal, window, scale, softcap, mask, seed, dropout);
  return {results[0], results[1], results[2]};
}

template <c10::DeviceType device>
Results attention_autocast(const Tensor& q, const Tensor& k, const Tensor& v, bool causal, int64_t window, Scale scale,
                           double softcap, const Optional& mask, const Optional& seed, double dropout) {
  const AutocastOff off(device);
  return call_attention(autocast(q, device), autocast(k, device), autocast(v, device), causal, window, scale, softcap,
                        mask ? Optional(autocast(*mask, device)) : std::nullopt, seed, dropout);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(plimsoll, m) {
  m.def(
      "attention(Tensor q, Tensor k, Tensor v, bool causal, int window, float? scale=None, float softcap=0.0, "
      "Tensor? mask=None, Tensor? seed=None, float dropout=0.0) -> (Tensor out, Tensor logsumexp)");
  m.def(
      "attention_backward(Tensor grad_out, Tensor q, Tensor k, Tensor v, Tensor out, Tensor logsumexp, bool causal, "
      "int window, float? scale=None, float softcap=0.0, Tensor? mask=None, Tensor? seed=None, float dropout=0.0) -> "
      "(Tensor dq, Tensor dk, Tensor dv)");
  m.def(
      "attention_backward.out(Tensor grad_out, Tensor q, Tensor k, Tensor v, Tensor out, Tensor logsumexp, "
      "bool causal, int window, float? scale, float softcap, Tensor? mask, Tensor? seed, float dropout, "
      "Tensor(a!) dq, Tensor(b!) dk, Tensor(c!) dv) -> ()");
}
TORCH_LIBRARY_IMPL(plimsoll, Meta, m) {
  m.impl("attention", attention_results);
  m.impl("attention_backward", attention_gradients);
  m.impl("attention_backward.out", attention_grad_meta_into);
}
TORCH_LIBRARY_IMPL(plimsoll, CPU, m) {
  m.impl("attention", attention_cpu);
  m.impl("attention_backward", attention_grad_cpu);
  m.impl("attention_backward.out", attention_grad_cpu_into);
}
TORCH_LIBRARY_IMPL(plimsoll, Autograd, m) {
  m.impl("attention", attention_autograd);
  m.impl("attention_backward", attention_grad_autograd);
}
PLIMSOLL_AUTOCAST("attention", attention_autocast)

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, bool causal, int64_t window) {
  return attention(q, k, v, {.causal = causal, .window = window});
}

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  Optional mask = options.mask;
  if (mask && q.dim() == 4 && k.dim() == 4) mask = mask->expand({q.size(0), q.size(1), q.size(2), k.size(2)});
  return std::get<0>(call_attention(q, k, v, options.causal, options.window, options.scale, options.softcap, mask,
                                    options.seed, options.dropout));
}

}  // namespace plimsoll::ops
