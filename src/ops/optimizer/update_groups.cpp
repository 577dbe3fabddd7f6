#include "ops/optimizer/update_groups.h"

#include <algorithm>
#include <array>

#include "ops/op_call.h"
#include "ops/optimizer/update_op.h"
#include "ops/rows.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

const std::array<const ops::UpdateOp*, 4>& operators() {
  static const std::array<const ops::UpdateOp*, 4> all = {&ops::kAdamW, &ops::kLion, &ops::kSgd, &ops::kMomentumSgd};
  return all;
}

const ops::UpdateOp* operator_of(const Op& op) {
  const auto found =
      std::ranges::find_if(operators(), [&](const ops::UpdateOp* each) { return op.name == each->name; });
  return found == operators().end() ? nullptr : *found;
}

// Returns the number of arguments that become lists: parameter, companion, gradient and state, each followed by its
// scales.
size_t lists_of(const ops::UpdateOp& of) {
  return 4 + 2 * of.states.size();
}
constexpr size_t kScalars = 4;  // step, learning_rate, grad_scale, skipped

bool is_tensor(const Argument& argument) {
  return argument.kind == Argument::Kind::tensor && argument.views.size() == 1 && argument.views[0].buffer != kNoBuffer;
}

std::optional<int64_t> elements(const Op& op) {
  const ops::UpdateOp* of = operator_of(op);
  if (of == nullptr || !op.call || !op.results.empty() || op.workspace_bytes > 0) return std::nullopt;
  const size_t lists = lists_of(*of), count = lists + kScalars + of->numbers.size() + 4;
  if (op.arguments.size() != count || op.call->constants.size() != count) return std::nullopt;
  for (size_t i = 0; i < count; ++i) {
    const bool list = i < lists, scalar = !list && i < lists + kScalars;
    // Scales and the companion may be missing.
    const bool good = is_tensor(op.arguments[i])
                          ? list || scalar
                          : (list && i % 2 == 1) || (!list && !scalar && !op.call->constants[i].isTensor());
    if (!good) return std::nullopt;
  }
  // A gradient in another order would be copied first.
  const View &parameter = op.arguments[0].views[0], &gradient = op.arguments[2].views[0];
  if (!ops::same_order(gradient.sizes, gradient.strides, parameter.strides)) return std::nullopt;
  return parameter.elements();
}

bool same_constant(const c10::IValue& a, const c10::IValue& b) {
  if (a.isDouble() && b.isDouble()) return a.toDouble() == b.toDouble();
  return a.isBool() && b.isBool() && a.toBool() == b.toBool();
}

bool alike(const Op& a, const Op& b) {
  const ops::UpdateOp* of = operator_of(a);
  if (of == nullptr || a.name != b.name || a.arguments.size() != b.arguments.size()) return false;
  const size_t lists = lists_of(*of), seed = a.arguments.size() - 2;
  for (size_t i = 0; i < lists; ++i)
    if (is_tensor(a.arguments[i]) != is_tensor(b.arguments[i])) return false;
  for (size_t i = lists; i < lists + kScalars; ++i)
    if (a.arguments[i].views != b.arguments[i].views) return false;
  for (size_t i = lists + kScalars; i < seed; ++i)
    if (!same_constant(a.call->constants[i], b.call->constants[i])) return false;
  const auto wide = [](const Op& op) { return op.arguments[0].views[0].dtype == DType::float64; };
  return wide(a) == wide(b);
}

Op group(const std::vector<const Op*>& members) {
  const Op& first = *members.front();
  const ops::UpdateOp* of = operator_of(first);
  check(of != nullptr, "a group of ops that are no updates");
  const size_t lists = lists_of(*of), seed = first.arguments.size() - 2;
  Op made;
  made.name = group_name(first.name);
  auto call = std::make_shared<OpCall>(
      OpCall{c10::Dispatcher::singleton().findSchemaOrThrow(made.name.c_str(), ""), first.call->constants});
  for (size_t i = 0; i < first.arguments.size(); ++i) {
    if (i >= lists) {
      made.arguments.push_back(first.arguments[i]);
      continue;
    }
    Argument list{Argument::Kind::tensor_list, first.arguments[i].written, {}};
    if (is_tensor(first.arguments[i]))
      for (const Op* member : members) list.views.push_back(member->arguments[i].views[0]);
    made.arguments.push_back(std::move(list));
    call->constants[i] = {};
  }
  // The seed and the first element become lists.
  for (size_t i = seed; i < first.arguments.size(); ++i) {
    std::vector<int64_t> numbers;
    for (const Op* member : members) numbers.push_back(member->call->constants[i].toInt());
    call->constants[i] = numbers;
  }
  made.call = std::move(call);
  return made;
}

}  // namespace

UpdateGrouping update_grouping() {
  return {elements, alike, group};
}

bool has_update_groups(c10::DispatchKey device) {
  return std::ranges::all_of(operators(), [&](const ops::UpdateOp* each) {
    return c10::Dispatcher::singleton()
        .findSchemaOrThrow(group_name(each->name).c_str(), "")
        .hasKernelForDispatchKey(device);
  });
}

}  // namespace plimsoll
