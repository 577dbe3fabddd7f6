#include "ops/layers/packed_attention.h"

#include <torch/csrc/autograd/custom_function.h>

#include <array>
#include <tuple>

#include "ops/op_support.h"
#include "plimsoll/error.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using OptionalTensor = std::optional<Tensor>;
using OptionalScale = std::optional<double>;
using AttentionCall = std::tuple<Tensor, Tensor>(const Tensor&, const Tensor&, const Tensor&, bool, int64_t,
                                                 OptionalScale, double, const OptionalTensor&, const OptionalTensor&,
                                                 double);
using GradientsCall = void(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                           bool, int64_t, OptionalScale, double, const OptionalTensor&, const OptionalTensor&, double,
                           Tensor&, Tensor&, Tensor&);

/// The settings of a call. A context keeps them for backward.
struct PackedCall : torch::CustomClassHolder {
  PackedHeads heads;
  AttentionOptions attention;
  std::optional<RopeFrequencies> frequencies;

  /// Returns a packed tensor as [B, T, all heads, width].
  Tensor in_heads(const Tensor& packed) const {
    return packed.view({packed.size(0), packed.size(1), heads.total(), heads.width});
  }
  /// Rotates the queries and keys of a packed tensor.
  void rotate(const Tensor& packed, bool inverse) const {
    if (frequencies) rope_(in_heads(packed).narrow(2, 0, heads.queries + heads.keys), 0, *frequencies, inverse);
  }
  /// Returns queries, keys and values [B, heads, T, width] as views of a packed tensor.
  std::array<Tensor, 3> parts_of(const Tensor& packed) const {
    const Tensor all = in_heads(packed).transpose(1, 2);
    return {all.narrow(1, 0, heads.queries), all.narrow(1, heads.queries, heads.keys),
            all.narrow(1, heads.queries + heads.keys, heads.keys)};
  }
};
using PackedCallPtr = c10::intrusive_ptr<PackedCall>;

struct PackedAttention : torch::autograd::Function<PackedAttention> {
  static Tensor forward(AutogradContext* context, const Tensor& qkv, const OptionalTensor& mask,
                        const OptionalTensor& seed, const PackedCallPtr& settings) {
    static const auto handle = operator_handle<AttentionCall>("plimsoll::attention");
    at::AutoDispatchBelowADInplaceOrView below;  // autograd does not see that qkv changes
    const AttentionOptions& options = settings->attention;
    settings->rotate(qkv, false);
    const auto [q, k, v] = settings->parts_of(qkv);
    const auto [out, logsumexp] = handle.call(q, k, v, options.causal, options.window, options.scale, options.softcap,
                                              mask, seed, options.dropout);
    const Tensor result =
        out.transpose(1, 2).reshape({qkv.size(0), qkv.size(1), settings->heads.queries * settings->heads.width});
    // The result itself, not `out`: autograd sees if a caller changes it.
    context->save_for_backward({qkv, result, logsumexp, mask.value_or(Tensor()), seed.value_or(Tensor())});
    context->saved_data["settings"] = c10::IValue::make_capsule(settings);
    return result;
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    static const auto handle = operator_handle<GradientsCall>("plimsoll::attention_backward", "out");
    variable_list gradients(4);
    if (!grads[0].defined()) return gradients;
    if (at::GradMode::is_enabled())
      throw UserError("attention of packed queries, keys and values has no second derivative");
    const auto settings = c10::static_intrusive_pointer_cast<PackedCall>(context->saved_data["settings"].toCapsule());
    const AttentionOptions& options = settings->attention;
    const variable_list saved = context->get_saved_variables();
    const Tensor& qkv = saved[0];
    const std::array<int64_t, 4> in_heads{qkv.size(0), qkv.size(1), settings->heads.queries, settings->heads.width};
    const Tensor grad_out = grads[0].view(in_heads), out = saved[1].view(in_heads).transpose(1, 2);
    const Tensor gradient = at::empty(qkv.sizes(), qkv.options());
    const auto [q, k, v] = settings->parts_of(qkv);
    auto [dq, dk, dv] = settings->parts_of(gradient);
    const auto given = [](const Tensor& tensor) { return tensor.defined() ? OptionalTensor(tensor) : std::nullopt; };
    handle.call(grad_out.transpose(1, 2), q, k, v, out, saved[2], options.causal, options.window, options.scale,
                options.softcap, given(saved[3]), given(saved[4]), options.dropout, dq, dk, dv);
    settings->rotate(gradient, true);
    gradients[0] = gradient;
    return gradients;
  }
};

}  // namespace

Tensor packed_attention(const Tensor& qkv, const PackedHeads& heads, const AttentionOptions& options,
                        const std::optional<RopeFrequencies>& frequencies) {
  require(qkv.dim() == 3 && heads.keys > 0 && qkv.size(2) == heads.total() * heads.width, "plimsoll::attention",
          "packed queries, keys and values have shape ", qkv.sizes(), "; it must be [batch, tokens, (", heads.queries,
          " + 2 x ", heads.keys, ") x ", heads.width, "]");
  const auto settings = c10::make_intrusive<PackedCall>();
  settings->heads = heads;
  settings->attention = options;
  settings->attention.mask = settings->attention.seed = std::nullopt;  // variables, which autograd saves
  settings->frequencies = frequencies;
  Tensor packed = qkv;
  OptionalTensor mask = options.mask;
  const c10::DeviceType device = qkv.device().type();
  if (at::autocast::is_autocast_enabled(device)) {
    packed = autocast(packed, device);
    if (mask) mask = autocast(*mask, device);
  }
  const AutocastOff off(device);
  packed = packed.contiguous();
  if (mask) mask = mask->expand({packed.size(0), heads.queries, packed.size(1), packed.size(1)});
  require(!mask || !mask->requires_grad() || !at::GradMode::is_enabled(), "plimsoll::attention",
          "mask needs a gradient, which it does not get");
  return PackedAttention::apply(packed, mask, options.seed, settings);
}

}  // namespace plimsoll::ops
