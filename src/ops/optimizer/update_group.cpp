#include "ops/optimizer/update_group.h"

#include "ops/op_support.h"
#include "trace/update_group.h"

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
