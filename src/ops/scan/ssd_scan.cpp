#include "ops/scan/ssd_scan.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <tuple>

#include "ops/op_support.h"
#include "ops/scan/ssd_kernels_cpu.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;
using Results = SsdResults;
using Gradients = SsdGradientResults;
using SsdForward = Results(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                           int64_t, bool);
using SsdBackward = Gradients(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                              const Tensor&, int64_t, bool);

SsdShape check_shape(const Tensor& x, const Tensor& dt, const Tensor& a, const Tensor& b, const Tensor& c,
                     const Tensor& d, int64_t chunk, bool reverse) {
  constexpr const char* op = "plimsoll::ssd_scan";
  require_floating(op, "x", x);
  require(x.dim() == 4 && b.dim() == 4 && b.sizes() == c.sizes() && x.size(0) == b.size(0) && x.size(1) == b.size(1),
          op, "x has shape ", x.sizes(), ", B ", b.sizes(), " and C ", c.sizes(),
          "; they must be [batch, time, heads, width] and [batch, time, groups, state], B and C alike");
  require(x.numel() > 0 && b.numel() > 0, op, "x ", x.sizes(), " or B ", b.sizes(), " is empty");
  require(x.size(2) % b.size(2) == 0, op, "B has ", b.size(2), " groups, which do not divide the ", x.size(2),
          " heads of x");
  require(dt.sizes() == x.sizes().slice(0, 3), op, "dt has shape ", dt.sizes(), "; it must be ", x.sizes().slice(0, 3),
          ", one a head of every position");
  for (const auto& [name, vector] : {std::pair{"A", &a}, std::pair{"D", &d}})
    require(vector->dim() == 1 && vector->size(0) == x.size(2), op, name, " has shape ", vector->sizes(),
            "; it must be [", x.size(2), "], one a head");
  require(x.scalar_type() == b.scalar_type() && x.scalar_type() == c.scalar_type(), op, "x is ",
          c10::toString(x.scalar_type()), ", B ", c10::toString(b.scalar_type()), " and C ",
          c10::toString(c.scalar_type()), "; they must be of one type");
  const at::ScalarType wide = accumulator(x.scalar_type());
  for (const auto& [name, tensor] : {std::pair{"dt", &dt}, std::pair{"A", &a}, std::pair{"D", &d}})
    require(tensor->scalar_type() == wide, op, name, " is ", c10::toString(tensor->scalar_type()), "; it must be ",
            c10::toString(wide), " where x is ", c10::toString(x.scalar_type()));
  require(chunk >= 1, op, "chunk is ", chunk, "; it must be at least 1");
  return {x.size(0), x.size(1), x.size(2), x.size(3), b.size(2), b.size(3), chunk, reverse};
}

at::TensorOptions wide_options(const Tensor& x) {
  return x.options().dtype(accumulator(x.scalar_type()));
}

Tensor empty_states(const SsdShape& s, const Tensor& x, int64_t kinds) {
  return at::empty({kinds, s.batch, s.heads, s.chunks(), s.state, s.width}, wide_options(x));
}

}  // namespace

SsdResults empty_ssd_scan(const Tensor& x, const Tensor& dt, const Tensor& a, const Tensor& b, const Tensor& c,
                          const Tensor& d, int64_t chunk, bool reverse) {
  const SsdShape s = check_shape(x, dt, a, b, c, d, chunk, reverse);
  return {at::empty(x.sizes(), x.options()), empty_states(s, x, 1)};
}

SsdGradientResults empty_ssd_scan_gradients(const Tensor& grad_y, const Tensor& x, const Tensor& dt, const Tensor& a,
                                            const Tensor& b, const Tensor& c, const Tensor& d, int64_t chunk,
                                            bool reverse) {
  const SsdShape s = check_shape(x, dt, a, b, c, d, chunk, reverse);
  require(grad_y.sizes() == x.sizes() && grad_y.scalar_type() == x.scalar_type(), "plimsoll::ssd_scan_backward",
          "grad_y is ", c10::toString(grad_y.scalar_type()), " ", grad_y.sizes(), " and x ",
          c10::toString(x.scalar_type()), " ", x.sizes(), "; they must be alike");
  const auto like = [](const Tensor& tensor) { return at::empty(tensor.sizes(), tensor.options()); };
  return {like(x), like(dt), like(a), like(b), like(c), like(d), empty_states(s, x, 2)};
}

Tensor ssd_inner_contiguous(const Tensor& tensor) {
  return tensor.stride(3) == 1 || tensor.size(3) == 1 ? tensor : contiguous_copy(tensor);
}

SsdTensor ssd_strided(const Tensor& tensor) {
  return {tensor.const_data_ptr(), tensor.stride(0), tensor.stride(1), tensor.stride(2)};
}

PreparedSsd::PreparedSsd(const Tensor& x, const Tensor& dt, const Tensor& a, const Tensor& b, const Tensor& c,
                         const Tensor& d, int64_t chunk, bool reverse)
    : x(ssd_inner_contiguous(x)),
      b(ssd_inner_contiguous(b)),
      c(ssd_inner_contiguous(c)),
      a(a.contiguous()),
      d(d.contiguous()) {
  operands = {.shape = check_shape(x, dt, a, b, c, d, chunk, reverse),
              .dtype = dtype_of(x),
              .x = ssd_strided(this->x),
              .b = ssd_strided(this->b),
              .c = ssd_strided(this->c),
              .dt = ssd_strided(dt),
              .a = this->a.const_data_ptr(),
              .d = this->d.const_data_ptr()};
}

namespace {

/// The scratch of `elements` elements for each thread.
class Scratch {
 public:
  Scratch(const Tensor& x, int64_t elements) : block_(at::empty({at::get_num_threads(), elements}, wide_options(x))) {}
  void* of_thread() const {
    return static_cast<char*>(block_.data_ptr()) + at::get_thread_num() * block_.stride(0) * block_.element_size();
  }

 private:
  Tensor block_;
};

Results ssd_scan_cpu(const Tensor& x, const Tensor& dt, const Tensor& a, const Tensor& b, const Tensor& c,
                     const Tensor& d, int64_t chunk, bool reverse) {
  auto [y, states] = empty_ssd_scan(x, dt, a, b, c, d, chunk, reverse);
  const PreparedSsd in(x, dt, a, b, c, d, chunk, reverse);
  const SsdShape& s = in.operands.shape;
  const Scratch scratch(x, ssd_forward_scratch(s));
  void *to = y.data_ptr(), *between = states.data_ptr();
  at::parallel_for(0, s.batch * s.heads, 1, [&](int64_t begin, int64_t end) {
    ssd_states(in.operands, between, scratch.of_thread(), begin, end);
  });
  at::parallel_for(0, s.batch * s.chunks() * s.groups, 1, [&](int64_t begin, int64_t end) {
    ssd_outputs(in.operands, between, to, scratch.of_thread(), begin, end);
  });
  return {y, states};
}

/// Sums the chunks' shares [batch x chunks, heads] in order.
void sum_shares(const Tensor& shares, const Tensor& to) {
  const int64_t count = shares.numel() / to.numel();
  sum_partials(shares.const_data_ptr(), count, to.numel(), dtype_of(shares), to.data_ptr(), dtype_of(to), 0,
               to.numel());
}

Gradients ssd_scan_backward_cpu(const Tensor& grad_y, const Tensor& x, const Tensor& dt, const Tensor& a,
                                const Tensor& b, const Tensor& c, const Tensor& d, int64_t chunk, bool reverse) {
  auto results = empty_ssd_scan_gradients(grad_y, x, dt, a, b, c, d, chunk, reverse);
  const auto& [dx, d_dt, da, db, dc, dd, both_states] = results;
  const PreparedSsd in(x, dt, a, b, c, d, chunk, reverse);
  const SsdShape& s = in.operands.shape;
  const Tensor grad = ssd_inner_contiguous(grad_y);
  const SsdTensor dy = ssd_strided(grad);
  const Tensor shares = at::empty({2, s.batch * s.chunks(), s.heads}, wide_options(x));
  const Scratch scratch(x, ssd_backward_scratch(s));
  void *states = both_states.select(0, 0).data_ptr(), *state_gradients = both_states.select(0, 1).data_ptr();
  at::parallel_for(0, s.batch * s.heads, 1, [&](int64_t begin, int64_t end) {
    ssd_states(in.operands, states, scratch.of_thread(), begin, end);
    ssd_state_gradients(in.operands, dy, state_gradients, scratch.of_thread(), begin, end);
  });
  const SsdGradients out{.x = dx.data_ptr(),
                         .dt = d_dt.data_ptr(),
                         .b = db.data_ptr(),
                         .c = dc.data_ptr(),
                         .a_parts = shares.select(0, 0).data_ptr(),
                         .d_parts = shares.select(0, 1).data_ptr()};
  at::parallel_for(0, s.batch * s.chunks() * s.groups, 1, [&](int64_t begin, int64_t end) {
    ssd_gradients(in.operands, dy, states, state_gradients, out, scratch.of_thread(), begin, end);
  });
  sum_shares(shares.select(0, 0), da);
  sum_shares(shares.select(0, 1), dd);
  return results;
}

Results call_ssd_scan(const Tensor& x, const Tensor& dt, const Tensor& a, const Tensor& b, const Tensor& c,
                      const Tensor& d, int64_t chunk, bool reverse) {
  static const auto handle = operator_handle<SsdForward>("plimsoll::ssd_scan");
  return handle.call(x, dt, a, b, c, d, chunk, reverse);
}

struct SsdScan : torch::autograd::Function<SsdScan> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context, const Tensor& x,
                                                const Tensor& dt, const Tensor& a, const Tensor& b, const Tensor& c,
                                                const Tensor& d, int64_t chunk, bool reverse) {
    at::AutoDispatchBelowADInplaceOrView below;
    auto [y, states] = call_ssd_scan(x, dt, a, b, c, d, chunk, reverse);
    context->save_for_backward({x, dt, a, b, c, d});
    context->mark_non_differentiable({states});
    context->saved_data["chunk"] = chunk;
    context->saved_data["reverse"] = reverse;
    return {y, states};
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& grads) {
    static const auto handle = gradient_handle<SsdBackward>("plimsoll::ssd_scan");
    torch::autograd::variable_list gradients(8);
    if (!grads[0].defined()) return gradients;
    const auto saved = context->get_saved_variables();
    auto [dx, d_dt, da, db, dc, dd, states] =
        handle.call(grads[0], saved[0], saved[1], saved[2], saved[3], saved[4], saved[5],
                    context->saved_data["chunk"].toInt(), context->saved_data["reverse"].toBool());
    return {dx, d_dt, da, db, dc, dd, Tensor(), Tensor()};
  }
};

Results ssd_scan_autograd(const Tensor& x, const Tensor& dt, const Tensor& a, const Tensor& b, const Tensor& c,
                          const Tensor& d, int64_t chunk, bool reverse) {
  auto results = SsdScan::apply(x, dt, a, b, c, d, chunk, reverse);
  return {results[0], results[1]};
}

/// Returns the tensor in float32, also under autocast; float64 stays.
Tensor wide(const Tensor& tensor, const Tensor& x) {
  return tensor.to(accumulator(x.scalar_type()));
}

template <c10::DeviceType device>
Results ssd_scan_autocast(const Tensor& x, const Tensor& dt, const Tensor& a, const Tensor& b, const Tensor& c,
                          const Tensor& d, int64_t chunk, bool reverse) {
  const AutocastOff off(device);
  return call_ssd_scan(autocast(x, device), wide(dt, x), wide(a, x), autocast(b, device), autocast(c, device),
                       wide(d, x), chunk, reverse);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(plimsoll, m) {
  m.def(
      "ssd_scan(Tensor x, Tensor dt, Tensor A, Tensor B, Tensor C, Tensor D, int chunk, bool reverse=False) -> (Tensor "
      "y, Tensor states)");
  m.def(
      "ssd_scan_backward(Tensor grad_y, Tensor x, Tensor dt, Tensor A, Tensor B, Tensor C, Tensor D, int chunk, bool "
      "reverse) -> (Tensor dx, Tensor ddt, Tensor dA, Tensor dB, Tensor dC, Tensor dD, Tensor states)");
}
TORCH_LIBRARY_IMPL(plimsoll, Meta, m) {
  m.impl("ssd_scan", empty_ssd_scan);
  m.impl("ssd_scan_backward", empty_ssd_scan_gradients);
}
TORCH_LIBRARY_IMPL(plimsoll, CPU, m) {
  m.impl("ssd_scan", ssd_scan_cpu);
  m.impl("ssd_scan_backward", ssd_scan_backward_cpu);
}
TORCH_LIBRARY_IMPL(plimsoll, Autograd, m) {
  m.impl("ssd_scan", ssd_scan_autograd);
  m.impl("ssd_scan_backward", torch::autograd::autogradNotImplementedFallback());
}
PLIMSOLL_AUTOCAST("ssd_scan", ssd_scan_autocast)

Tensor ssd_scan(const Tensor& x, const Tensor& dt, const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& d,
                int64_t chunk, bool reverse) {
  return std::get<0>(call_ssd_scan(x, dt, a, b, c, d, chunk, reverse));
}

}  // namespace plimsoll::ops
