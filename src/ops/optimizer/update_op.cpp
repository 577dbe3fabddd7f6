#include "ops/optimizer/update_op.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include "ops/op_support.h"

namespace plimsoll::ops {

std::string schema_of(const UpdateOp& op) {
  std::string schema =
      std::string(op.name) + "(Tensor(a!) parameter, Tensor(b!)? companion, Tensor gradient, Tensor? gradient_scales, ";
  char alias = 'c';
  for (const UpdateOp::State& state : op.states) {
    schema += std::string("Tensor(") + alias++ + "!) " + state.name + ", ";
    schema += std::string("Tensor(") + alias++ + "!)? " + state.name + "_scales, ";
  }
  schema += "Tensor step, Tensor learning_rate, Tensor grad_scale, Tensor skipped";
  for (const char* number : op.numbers) schema += std::string(", float ") + number;
  return schema + ", bool stochastic_state, bool stochastic_parameter, int seed, int first_element) -> ()";
}

UpdateCall pop_call(const UpdateOp& op, torch::jit::Stack* stack) {
  const size_t count = 4 + 2 * op.states.size() + 4 + op.numbers.size() + 4;
  const std::vector<c10::IValue> arguments(stack->end() - static_cast<std::ptrdiff_t>(count), stack->end());
  torch::jit::drop(*stack, count);
  size_t next = 0;
  const auto tensor = [&] {
    const c10::IValue& value = arguments[next++];
    return value.isTensor() ? value.toTensor() : at::Tensor();
  };
  UpdateCall call;
  call.tensors.op = op.name;
  call.tensors.parameter = tensor();
  call.tensors.companion = tensor();
  call.tensors.gradient = tensor();
  call.tensors.gradient_scales = tensor();
  for (const UpdateOp::State& state : op.states) {
    const at::Tensor values = tensor(), scales = tensor();
    call.tensors.state.push_back({state.name, values, scales, state.squares, state.element_wise});
  }
  call.step = tensor();
  call.learning_rate = tensor();
  call.tensors.grad_scale = tensor();
  call.tensors.skipped = tensor();
  for (size_t i = 0; i < op.numbers.size(); ++i) call.numbers.push_back(arguments[next++].toDouble());
  call.tensors.stochastic_state = arguments[next++].toBool();
  call.tensors.stochastic_parameter = arguments[next++].toBool();
  call.seed = arguments[next++].toInt();
  call.first_element = arguments[next].toInt();
  check_call(op, call);
  return call;
}

void check_call(const UpdateOp& op, const UpdateCall& call) {
  check_update(call.tensors);
  require(call.step.numel() == 1 && call.step.scalar_type() == at::kFloat, op.name,
          "step is not a float32 tensor of one element");
  require(call.first_element >= 0 && call.first_element % kChunk == 0, op.name, "first_element is ", call.first_element,
          "; it must be a multiple of ", kChunk);
  require(call.learning_rate.numel() == 1 && call.learning_rate.scalar_type() == at::kDouble, op.name,
          "learning_rate is not a float64 tensor of one element");
  if (op.check) op.check(call);
}

StepNumbers step_numbers(const UpdateCall& call) {
  return {scalar_of(call.step), scalar_of(call.learning_rate), scalar_of(call.tensors.grad_scale)};
}

void run_on_cpu(const UpdateOp& op, torch::jit::Stack* stack) {
  const UpdateCall call = pop_call(op, stack);
  if (scalar_of(call.tensors.skipped) != 0) return;
  const Draw draw = draw_of_step(call.seed, scalar_of(call.step), call.first_element);
  if (op.run_elements == nullptr) return op.run(call, draw);
  const ElementUpdate bound = bind_update(call.tensors, draw);
  op.run_elements(step_numbers(call), call.numbers, {&bound, 1});
}

void call_update(const UpdateOp& op, const UpdatedTensors& tensors, const std::vector<Packed>& states,
                 const at::Tensor& step, const StepScalars& scalars, const std::vector<double>& numbers) {
  const auto optional = [](const at::Tensor& tensor) { return tensor.defined() ? c10::IValue(tensor) : c10::IValue(); };
  torch::jit::Stack stack{tensors.parameter, optional(tensors.companion), tensors.gradient.values,
                          optional(tensors.gradient.scales)};
  for (const Packed& state : states) {
    stack.emplace_back(state.values);
    stack.push_back(optional(state.scales));
  }
  for (const at::Tensor& scalar : {step, scalars.learning_rate, scalars.grad_scale, scalars.skipped})
    stack.emplace_back(scalar);
  for (double number : numbers) stack.emplace_back(number);
  stack.emplace_back(tensors.rounding.stochastic_state);
  stack.emplace_back(tensors.rounding.stochastic_parameter);
  stack.emplace_back(tensors.rounding.seed);
  stack.emplace_back(tensors.rounding.first_element);
  c10::Dispatcher::singleton().findSchemaOrThrow(op.name, "").callBoxed(stack);
}

}  // namespace plimsoll::ops
