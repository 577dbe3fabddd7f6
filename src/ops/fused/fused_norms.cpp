#include "ops/fused/fused_norms.h"

#include <utility>

#include "cost/operators.h"
#include "ops/workspace/workspace_rules.h"

namespace plimsoll {
namespace {

struct Sum {
  View a, b, result;
};

// Returns the operands if `op` adds two tensors of one shape in a type that its kernel and ours round alike.
std::optional<Sum> sum_of(const Op& op, PointwiseDevice device) {
  const std::optional<PointwiseOp> translated = pointwise_op(op, device);
  if (!translated || translated->opcode != Opcode::add) return std::nullopt;
  const View& result = translated->result;
  const auto in_rows = [](const View& view) { return ops::row_stride(view.sizes, view.strides).has_value(); };
  if (result.elements() == 0 || !in_rows(result)) return std::nullopt;
  for (const PointwiseOp::Operand& operand : translated->operands) {
    const View& view = operand.view;
    if (view.buffer == kNoBuffer || view.sizes != result.sizes || !in_rows(view)) return std::nullopt;
    // An operand in place must be the result, element for element.
    if (view.buffer == result.buffer && view != result) return std::nullopt;
  }
  return Sum{translated->operands[0].view, translated->operands[1].view, result};
}

// Constants are the last arguments of the call.
std::shared_ptr<const OpCall> call_of(std::string_view name, size_t arguments, std::vector<c10::IValue> constants) {
  auto call = std::make_shared<OpCall>(
      OpCall{c10::Dispatcher::singleton().findSchemaOrThrow(std::string(name).c_str(), ""), {}});
  call->constants.resize(arguments - constants.size());
  for (c10::IValue& constant : constants) call->constants.push_back(std::move(constant));
  return call;
}

Argument operand(const View& view, bool written = false) {
  return {Argument::Kind::tensor, written, {view}};
}

std::optional<Op> add_rms_norm(const Op& add, const Op& norm, PointwiseDevice device) {
  const OperatorRow* row = operator_row(norm.name);
  if (!row || row->after_sum.empty() || !norm.call) return std::nullopt;
  const std::optional<Sum> sum = sum_of(add, device);
  if (!sum || ops::tensor(norm, 0) != sum->result || ops::tensor(norm, 1).buffer == sum->result.buffer)
    return std::nullopt;
  Op op;
  op.name = operator_row(row->after_sum)->fused_name;
  op.arguments = {operand(sum->result, true), operand(sum->a), operand(sum->b), operand(ops::tensor(norm, 1)), {}, {}};
  op.results = norm.results;
  op.call =
      call_of(row->after_sum, op.arguments.size(), {norm.call->constants.begin() + 2, norm.call->constants.end()});
  return op;
}

std::optional<Op> rms_norm_backward_add(const Op& norm, const Op& add, PointwiseDevice device) {
  const OperatorRow* row = operator_row(norm.name);
  if (!row || row->before_sum.empty() || norm.results.size() != 2) return std::nullopt;
  const std::optional<Sum> sum = sum_of(add, device);
  if (!sum) return std::nullopt;
  const View &dx = norm.results[0], &other = sum->a == dx ? sum->b : sum->a;
  if ((sum->a != dx && sum->b != dx) || other.buffer == dx.buffer) return std::nullopt;
  // The weight's gradient is the op's own result: nothing can be added to it before it is computed.
  const BufferId dweight = norm.results[1].buffer;
  if (dweight != kNoBuffer && (other.buffer == dweight || sum->result.buffer == dweight)) return std::nullopt;
  Op op;
  op.name = operator_row(row->before_sum)->fused_name;
  op.arguments = {operand(sum->result, true), operand(other)};
  for (size_t i = 0; i < norm.arguments.size(); ++i) {
    // A row's dx is added before the next row is read.
    if (ops::tensor(norm, i).buffer == sum->result.buffer) return std::nullopt;
    op.arguments.push_back(norm.arguments[i]);
  }
  op.results = {norm.results[1]};
  op.call = call_of(row->before_sum, op.arguments.size(), {});
  return op;
}

}  // namespace

std::optional<Op> fused_norm(const Op& first, const Op& second, PointwiseDevice device) {
  if (std::optional<Op> op = add_rms_norm(first, second, device)) return op;
  return rms_norm_backward_add(first, second, device);
}

}  // namespace plimsoll
