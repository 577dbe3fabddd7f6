#include "ops/layers/rope.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "ops/kernel_dtypes.h"
#include "ops/lanes.h"
#include "ops/op_support.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;

using Scaling = at::ArrayRef<double>;  // empty, or factor, low, high, original length
using Signature = Tensor(const Tensor&, int64_t, double, bool, Scaling);

}  // namespace

namespace {

void require_angles(const char* op, int64_t width, double theta, Scaling scaling) {
  require(width % 2 == 0, op, "heads have width ", width, "; it must be even");
  require(theta > 0, op, "theta is ", theta, "; it must be positive");
  require(scaling.empty() ||
              (scaling.size() == 4 && scaling[0] >= 1 && scaling[1] > 0 && scaling[2] > scaling[1] && scaling[3] > 0),
          op, "scaling is ", scaling, "; it must be a factor of at least 1, 0 < low < high, and a length above 0");
}

}  // namespace

Tensor rope_result(const Tensor& x, int64_t position, double theta, bool inverse, Scaling scaling) {
  constexpr const char* op = "plimsoll::rope";
  require_floating(op, "x", x);
  require(x.dim() == 4 && x.size(3) % 2 == 0, op, "x has shape ", x.sizes(),
          "; it must be [batch, tokens, heads, width] with an even width");
  require_angles(op, x.size(3), theta, scaling);
  return at::empty(x.sizes(), x.options());
}

void require_rope_in_place(const Tensor& x, double theta, Scaling scaling) {
  constexpr const char* op = "plimsoll::rope_";
  require_floating(op, "x", x);
  require(x.dim() == 4 && (x.numel() == 0 || x.stride(3) == 1), op, "x has shape ", x.sizes(), " and strides ",
          x.strides(), "; it must be [batch, tokens, heads, width] with contiguous heads");
  require_angles(op, x.size(3), theta, scaling);
}

namespace {

/// Returns the radians per position of pair `index` of `width` / 2.
double frequency_of(int64_t index, int64_t width, double theta, Scaling scaling) {
  const double frequency = std::pow(theta, -2.0 * static_cast<double>(index) / static_cast<double>(width));
  if (scaling.empty()) return frequency;
  const double factor = scaling[0], low = scaling[1], high = scaling[2], length = scaling[3];
  const double turns = length * frequency / (2 * std::numbers::pi);  // rotations in a text of the original length
  const double kept = std::clamp((turns - low) / (high - low), 0.0, 1.0);
  return frequency * ((1 - kept) / factor + kept);
}

}  // namespace

Rope rope_arguments(const Tensor& x, const Tensor& out, const double* frequencies, int64_t position, bool inverse) {
  return {.x = x.const_data_ptr(),
          .out = out.data_ptr(),
          .dtype = dtype_of(x),
          .batch = x.size(0),
          .tokens = x.size(1),
          .heads = x.size(2),
          .width = x.size(3),
          .from = {x.stride(0), x.stride(1), x.stride(2)},
          .to = {out.stride(0), out.stride(1), out.stride(2)},
          .frequencies = frequencies,
          .position = position,
          .inverse = inverse};
}

std::vector<double> rope_frequencies(int64_t width, double theta, Scaling scaling) {
  std::vector<double> frequencies(static_cast<size_t>(width / 2));
  for (int64_t i = 0; i < width / 2; ++i) frequencies[i] = frequency_of(i, width, theta, scaling);
  return frequencies;
}

namespace {

using namespace lanes;

template <typename T>
PLIMSOLL_INLINE void rotate(const Rope& args, int64_t begin, int64_t end) {
  using V = Vector<T>;
  const int64_t half = args.width / 2;
  const double direction = args.inverse ? -1.0 : 1.0;
  for (int64_t token = begin; token < end; ++token) {
    const double position = direction * static_cast<double>(args.position + token);
    PLIMSOLL_FOR_LANES(i, partial, half) {
      V sine{}, cosine{};
      sin_cos(load_some(args.frequencies + i, partial) * position, sine, cosine);
      for (int64_t b = 0; b < args.batch; ++b) {
        const T* from = static_cast<const T*>(args.x) + b * args.from.batch + token * args.from.token + i;
        T* to = static_cast<T*>(args.out) + b * args.to.batch + token * args.to.token + i;
        for (int64_t h = 0; h < args.heads; ++h, from += args.from.head, to += args.to.head) {
          const V first = load_some(from, partial), second = load_some(from + half, partial);
          store_some(to, first * cosine - second * sine, partial);
          store_some(to + half, second * cosine + first * sine, partial);
        }
      }
    }
  }
}

PLIMSOLL_KERNELS(rotate, (const Rope& args, int64_t begin, int64_t end), (args, begin, end))

/// Rotates x, whose heads are contiguous, into `out`, which may be x.
void rotate_into(const Tensor& out, const Tensor& x, int64_t position, double theta, bool inverse, Scaling scaling) {
  if (x.numel() == 0) return;
  const int64_t width = x.size(3), half = width / 2;
  const Tensor frequencies = at::empty({half}, x.options().dtype(at::kDouble));
  auto* frequency = frequencies.mutable_data_ptr<double>();
  for (int64_t i = 0; i < half; ++i) frequency[i] = frequency_of(i, width, theta, scaling);
  const Rope args = rope_arguments(x, out, frequency, position, inverse);
  at::parallel_for(0, args.tokens, row_grain(args.batch * args.heads * args.width),
                   [&](int64_t begin, int64_t end) { pick_rotate(args.dtype, args, begin, end); });
}

Tensor rope_cpu(const Tensor& x, int64_t position, double theta, bool inverse, Scaling scaling) {
  Tensor result = rope_result(x, position, theta, inverse, scaling);
  rotate_into(result, x.stride(3) == 1 ? x : x.contiguous(), position, theta, inverse, scaling);
  return result;
}

void rope_in_place_cpu(Tensor& x, int64_t position, double theta, bool inverse, Scaling scaling) {
  require_rope_in_place(x, theta, scaling);
  rotate_into(x, x, position, theta, inverse, scaling);
}

void rope_in_place_meta(Tensor& x, int64_t, double theta, bool, Scaling scaling) {
  require_rope_in_place(x, theta, scaling);
}

Tensor call_rope(const Tensor& x, int64_t position, double theta, bool inverse, Scaling scaling) {
  static const auto handle = operator_handle<Signature>("plimsoll::rope");
  return handle.call(x, position, theta, inverse, scaling);
}

struct RopeFunction : torch::autograd::Function<RopeFunction> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x, int64_t position, double theta,
                        bool inverse, const std::vector<double>& scaling) {
    at::AutoDispatchBelowADInplaceOrView below;
    context->saved_data["position"] = position;
    context->saved_data["theta"] = theta;
    context->saved_data["inverse"] = inverse;
    context->saved_data["scaling"] = scaling;
    return call_rope(x, position, theta, inverse, scaling);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    torch::autograd::variable_list gradients(5);
    if (!grads[0].defined()) return gradients;
    auto& saved = context->saved_data;
    gradients[0] = call_rope(grads[0], saved["position"].toInt(), saved["theta"].toDouble(), !saved["inverse"].toBool(),
                             saved["scaling"].toDoubleVector());
    return gradients;
  }
};

Tensor rope_autograd(const Tensor& x, int64_t position, double theta, bool inverse, Scaling scaling) {
  return RopeFunction::apply(x, position, theta, inverse, scaling.vec());
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(plimsoll, m) {
  m.def("rope(Tensor x, int position, float theta, bool inverse, float[] scaling) -> Tensor");
  m.def("rope_(Tensor(a!) x, int position, float theta, bool inverse, float[] scaling) -> ()");
}
TORCH_LIBRARY_IMPL(plimsoll, Meta, m) {
  m.impl("rope", rope_result);
  m.impl("rope_", rope_in_place_meta);
}
TORCH_LIBRARY_IMPL(plimsoll, CPU, m) {
  m.impl("rope", rope_cpu);
  m.impl("rope_", rope_in_place_cpu);
}
TORCH_LIBRARY_IMPL(plimsoll, Autograd, m) {
  m.impl("rope", rope_autograd);
}

Tensor rope(const Tensor& x, int64_t position, double theta) {
  return call_rope(x, position, theta, false, {});
}

namespace {

std::vector<double> scaling_of(const RopeFrequencies& frequencies) {
  const auto& [theta, factor, low, high, original_length] = frequencies;
  return factor == 1 ? std::vector<double>{} : std::vector<double>{factor, low, high, original_length};
}

}  // namespace

Tensor rope(const Tensor& x, int64_t position, const RopeFrequencies& frequencies) {
  return call_rope(x, position, frequencies.theta, false, scaling_of(frequencies));
}

void rope_(const Tensor& x, int64_t position, const RopeFrequencies& frequencies, bool inverse) {
  static const auto handle = operator_handle<void(Tensor&, int64_t, double, bool, Scaling)>("plimsoll::rope_");
  Tensor target = x;
  handle.call(target, position, frequencies.theta, inverse, scaling_of(frequencies));
}

}  // namespace plimsoll::ops
