#include "cost/op_cost.h"

#include <algorithm>

#include "cost/operators.h"

namespace plimsoll {

double elementwise_flops(const Op& op) {
  int64_t elements = 0;
  for_each_view(op, [&](const View& view, bool) { elements = std::max(elements, view.elements()); });
  return static_cast<double>(elements);
}

double flops_of(const Op& op) {
  const OperatorRow* row = operator_row(op.name);
  return row && row->flops ? row->flops(op) : elementwise_flops(op);
}

int64_t bytes_moved_by(const Op& op) {
  // An operand that is updated in place is read and written.
  const OperatorRow* row = operator_row(op.name);
  const int64_t written_times = row && row->kind == OpKind::update ? 2 : 1;
  int64_t bytes = 0;
  for_each_view(op, [&](const View& view, bool written) {
    bytes += view.elements() * element_bytes(view.dtype) * (written ? written_times : 1);
  });
  return bytes;
}

}  // namespace plimsoll
