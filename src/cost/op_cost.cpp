#include "cost/op_cost.h"

#include <algorithm>
#include <string_view>

#include "trace/update_group.h"

namespace plimsoll {
namespace {

const View* operand(const Op& op, size_t index) {
  if (index >= op.arguments.size() || op.arguments[index].views.empty()) return nullptr;
  const View& view = op.arguments[index].views[0];
  return view.buffer == kNoBuffer ? nullptr : &view;
}

double product_flops(const View* a, const View* b) {  // [..., M, K] x [..., K, N]
  if (!a || !b || a->sizes.empty() || b->sizes.empty()) return 0;
  return 2.0 * static_cast<double>(a->elements()) * static_cast<double>(b->sizes.back());
}

// Each output element of a convolution is a dot product over weight[0]: [Cin / groups, kernel...].
double convolution_flops(const View* output, const View* weight) {
  if (!output || !weight || weight->sizes.empty() || weight->sizes[0] == 0) return 0;
  return 2.0 * static_cast<double>(output->elements()) * static_cast<double>(weight->elements() / weight->sizes[0]);
}

// Two matmuls a head, [T, D] x [D, T] and [T, T] x [T, D]; five in backward (scores again, dV, dP, dQ, dK).
double attention_flops(const View* query, const View* key, double products) {
  if (!query || !key || query->sizes.size() != 4) return 0;
  return products * 2.0 * static_cast<double>(query->elements()) * static_cast<double>(key->sizes[2]);
}

// Matmuls within chunks of L positions: [L, N] x [N, L] for each group and [L, L] x [L, P] for each head, and those of
// the [N, P] states in and out of each chunk. Backward has two more matmuls of each kind, the states a second time, and
// their gradients.
double scan_flops(const Op& op, size_t x_at, bool backward) {
  const View *x = operand(op, x_at), *b = operand(op, x_at + 3);
  if (!x || !b || x->sizes.size() != 4 || b->sizes.size() != 4 || op.results.empty()) return 0;
  const auto chunks = static_cast<double>(op.results.back().sizes[3]);
  const double chunk = static_cast<double>(x->sizes[1]) / chunks;
  const auto state = static_cast<double>(b->sizes[3]);
  const double scores = 2.0 * chunk * static_cast<double>(b->elements());
  const double weights = 2.0 * chunk * static_cast<double>(x->elements());
  const double states = 2.0 * state * static_cast<double>(x->elements());
  return backward ? 3 * scores + 2 * weights + 5 * states : scores + weights + 2 * states;
}

std::string_view without_overload(const Op& op) {
  return std::string_view(op.name).substr(0, op.name.find('.'));
}

// Returns the operations of an update operator, single or grouped, for one element, without conversions of formats. 0
// for other operators.
double update_flops(std::string_view operator_name) {
  const std::string_view name = single_name(operator_name);
  if (name == "plimsoll::adamw_") return 14;
  if (name == "plimsoll::lion_") return 10;
  if (name == "plimsoll::momentum_sgd_") return 6;
  if (name == "plimsoll::sgd_") return 4;
  if (name == "plimsoll::adafactor_") return 14;
  if (name == "plimsoll::nesterov_momentum_") return 5;
  if (name == "plimsoll::accumulate_") return 1;
  return 0;
}

}  // namespace

double flops_of(const Op& op) {
  const std::string_view name = without_overload(op);
  if (const double flops = update_flops(name); flops > 0 && operand(op, 0)) {
    int64_t elements = 0;
    for (const View& parameter : op.arguments[0].views) elements += parameter.elements();
    return flops * static_cast<double>(elements);
  }
  if (name == "aten::mm" || name == "aten::bmm") return product_flops(operand(op, 0), operand(op, 1));
  if (name == "aten::addmm" || name == "aten::baddbmm") return product_flops(operand(op, 1), operand(op, 2));
  if (name == "aten::convolution" && !op.results.empty()) return convolution_flops(&op.results[0], operand(op, 1));
  if (name == "aten::convolution_backward") return 2.0 * convolution_flops(operand(op, 0), operand(op, 2));
  if (name == "plimsoll::attention") return attention_flops(operand(op, 0), operand(op, 1), 2);
  if (name == "plimsoll::attention_backward") return attention_flops(operand(op, 1), operand(op, 2), 5);
  if (name == "plimsoll::ssd_scan") return scan_flops(op, 0, /*backward=*/false);
  if (name == "plimsoll::ssd_scan_backward") return scan_flops(op, 1, /*backward=*/true);
  if (name == "plimsoll::linear_cross_entropy" || name == "plimsoll::linear_cross_entropy_loss") {
    const View* x = operand(op, 0);
    const View* weight = operand(op, 1);
    if (!x || !weight) return 0;
    const double products = name == "plimsoll::linear_cross_entropy" ? 3 : 1;
    return products * 2.0 * static_cast<double>(x->elements()) * static_cast<double>(weight->sizes[0]);
  }
  if (name == "plimsoll::quantized_linear" || name == "plimsoll::quantized_linear_backward") {
    const View* x = operand(op, 0);
    if (!x || x->sizes.empty() || x->sizes.back() == 0 || op.results.empty()) return 0;
    const double rows = static_cast<double>(x->elements() / x->sizes.back());
    return 2.0 * rows * static_cast<double>(x->sizes.back()) * static_cast<double>(op.results[0].sizes.back());
  }
  int64_t elements = 0;
  for_each_view(op, [&](const View& view, bool) { elements = std::max(elements, view.elements()); });
  return static_cast<double>(elements);
}

int64_t bytes_moved_by(const Op& op) {
  // An operand that is updated in place is read and written.
  const int64_t written_times = update_flops(without_overload(op)) > 0 ? 2 : 1;
  int64_t bytes = 0;
  for_each_view(op, [&](const View& view, bool written) {
    bytes += view.elements() * element_bytes(view.dtype) * (written ? written_times : 1);
  });
  return bytes;
}

}  // namespace plimsoll
