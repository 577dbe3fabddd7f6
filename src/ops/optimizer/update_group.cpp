#include "ops/optimizer/update_group.h"

#include <algorithm>
#include <array>

#include "ops/libtorch_types.h"
#include "ops/op_support.h"
#include "ops/optimizer/update_op.h"
#include "ops/rows.h"
#include "plimsoll/error.h"
#include "trace/merged_ops.h"

namespace plimsoll::ops {

std::string schema_of_group(const UpdateOp& op) {
  std::string schema =
      group_name(op.name) +
      "(Tensor(a!)[] parameters, Tensor(b!)[] companions, Tensor[] gradients, Tensor[] gradient_scales, ";
  char alias = 'c';
  for (const UpdateOp::State& state : op.states) {
    schema += std::string("Tensor(") + alias++ + "!)[] " + state.name + ", ";
    schema += std::string("Tensor(") + alias++ + "!)[] " + state.name + "_scales, ";
  }
  schema += "Tensor step, Tensor learning_rate, Tensor grad_scale, Tensor skipped";
  for (const char* number : op.numbers) schema += std::string(", float ") + number;
  return schema + ", bool stochastic_state, bool stochastic_parameter, int[] seeds, int[] first_elements) -> ()";
}

std::vector<UpdateCall> pop_group(const UpdateOp& op, torch::jit::Stack* stack) {
  const size_t lists = 4 + 2 * op.states.size(), count = lists + 4 + op.numbers.size() + 4;
  const std::vector<c10::IValue> arguments(stack->end() - static_cast<std::ptrdiff_t>(count), stack->end());
  torch::jit::drop(*stack, count);
  std::vector<std::vector<at::Tensor>> tensors;
  for (size_t i = 0; i < lists; ++i) tensors.push_back(arguments[i].toTensorVector());
  const std::vector<int64_t> seeds = arguments[count - 2].toIntVector(), first = arguments[count - 1].toIntVector();
  const size_t members = seeds.size();
  require(first.size() == members, op.name, "a group of ", members, " parameters was given ", first.size(),
          " first elements");
  // Parameters, gradients and means are required; the other lists may be empty.
  for (size_t i = 0; i < lists; ++i)
    require(tensors[i].size() == members || (tensors[i].empty() && i % 2 == 1), op.name, "a group of ", members,
            " parameters was given ", tensors[i].size(), " tensors as argument ", i);
  std::vector<double> numbers;
  for (size_t i = 0; i < op.numbers.size(); ++i) numbers.push_back(arguments[lists + 4 + i].toDouble());
  std::vector<UpdateCall> calls(members);
  for (size_t m = 0; m < members; ++m) {
    const auto tensor = [&](size_t list) { return tensors[list].empty() ? at::Tensor() : std::move(tensors[list][m]); };
    UpdateCall& call = calls[m];
    call.tensors.op = op.name;
    call.tensors.parameter = tensor(0);
    call.tensors.companion = tensor(1);
    call.tensors.gradient = tensor(2);
    call.tensors.gradient_scales = tensor(3);
    for (size_t s = 0; s < op.states.size(); ++s)
      call.tensors.state.push_back({op.states[s].name, tensor(4 + 2 * s), tensor(5 + 2 * s), op.states[s].squares});
    call.step = arguments[lists].toTensor();
    call.learning_rate = arguments[lists + 1].toTensor();
    call.tensors.grad_scale = arguments[lists + 2].toTensor();
    call.tensors.skipped = arguments[lists + 3].toTensor();
    call.numbers = numbers;
    call.tensors.stochastic_state = arguments[count - 4].toBool();
    call.tensors.stochastic_parameter = arguments[count - 3].toBool();
    call.seed = seeds[m];
    call.first_element = first[m];
    check_call(op, call);
    require((call.tensors.parameter.scalar_type() == at::kDouble) ==
                (calls[0].tensors.parameter.scalar_type() == at::kDouble),
            op.name, "a group has parameters of float64 and others; updates of both are not done together");
  }
  return calls;
}

void run_group_on_cpu(const UpdateOp& op, torch::jit::Stack* stack) {
  const std::vector<UpdateCall> calls = pop_group(op, stack);
  if (calls.empty() || scalar_of(calls[0].tensors.skipped) != 0) return;
  const double step = scalar_of(calls[0].step);
  std::vector<ElementUpdate> bound;
  bound.reserve(calls.size());
  for (const UpdateCall& call : calls)
    bound.push_back(bind_update(call.tensors, draw_of_step(call.seed, step, call.first_element)));
  op.run_elements(step_numbers(calls[0]), calls[0].numbers, bound);
}

}  // namespace plimsoll::ops

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

constexpr std::string_view kNorm = "plimsoll::gradient_norm_";  // (norms, skipped, gradient, index)
static_assert(kNormGroup == "plimsoll::gradient_norm_group_");

bool is_norm(const Op& op) {
  return op.name == kNorm && op.call && op.arguments.size() == 4 && is_tensor(op.arguments[2]);
}

std::optional<int64_t> elements(const Op& op) {
  if (is_norm(op)) {
    // A gradient with gaps is copied first.
    const View& gradient = op.arguments[2].views.at(0);
    return ops::is_dense(gradient.sizes, gradient.strides) ? std::optional(gradient.elements()) : std::nullopt;
  }
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
  if (is_norm(a) && is_norm(b))
    return a.arguments[0].views == b.arguments[0].views && a.arguments[1].views == b.arguments[1].views &&
           a.arguments[2].views[0].dtype == b.arguments[2].views[0].dtype;
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

Op norm_group(const std::vector<const Op*>& members) {
  const Op& first = *members.front();
  Op made;
  made.name = kNormGroup;
  made.arguments = first.arguments;
  made.arguments[2] = {Argument::Kind::tensor_list, false, {}};
  std::vector<int64_t> index;
  for (const Op* member : members) {
    made.arguments[2].views.push_back(member->arguments[2].views[0]);
    index.push_back(member->call->constants[3].toInt());
  }
  auto call = std::make_shared<OpCall>(
      OpCall{c10::Dispatcher::singleton().findSchemaOrThrow(made.name.c_str(), ""), first.call->constants});
  call->constants[2] = {};
  call->constants[3] = index;
  made.call = std::move(call);
  return made;
}

Op group(const std::vector<const Op*>& members) {
  const Op& first = *members.front();
  if (is_norm(first)) return norm_group(members);
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
  return {elements, alike, group, is_norm};
}

bool has_update_groups(c10::DispatchKey device) {
  const auto has = [&](std::string_view single) {
    return c10::Dispatcher::singleton()
        .findSchemaOrThrow(group_name(single).c_str(), "")
        .hasKernelForDispatchKey(device);
  };
  return has(kNorm) && std::ranges::all_of(operators(), [&](const ops::UpdateOp* each) { return has(each->name); });
}

}  // namespace plimsoll
