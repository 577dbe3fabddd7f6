// Definition of the update operators: they differ in their state, their numbers and their arithmetic; schema, checks
// and registration are the same.
//
//     NAME(Tensor(a!) parameter, Tensor(b!)? companion, Tensor gradient, Tensor? gradient_scales,
//          Tensor(c!) STATE, Tensor(d!)? STATE_scales, ...,
//          Tensor step, Tensor learning_rate, Tensor grad_scale, Tensor skipped, float NUMBER, ...,
//          bool stochastic_state, bool stochastic_parameter, int seed, int first_element) -> ()
//
// The kernels are boxed: they take their arguments by place from a stack, as the recorder and the executor hand them
// on.
#pragma once

#include <torch/library.h>

#include <span>
#include <string>
#include <vector>

#include "ops/optimizer/element_arithmetic.h"
#include "ops/optimizer/element_update.h"
#include "ops/optimizer/ops.h"

namespace plimsoll::ops {

struct UpdateCall {
  UpdateTensors tensors;
  at::Tensor step, learning_rate;
  std::vector<double> numbers;  ///< in the schema's order
  int64_t seed = 0;
  int64_t first_element = 0;  ///< of Draw (counter_random.h)
};

struct UpdateOp {
  struct State {
    const char* name;
    bool squares;
    /// The mean is one number for each of the parameter, in any format. Otherwise `check` looks at it.
    bool element_wise = true;
  };
  const char* name;  ///< "plimsoll::adamw_"
  std::vector<State> states;
  std::vector<const char*> numbers;
  /// On the CPU, where the step is not skipped: of one parameter or of several (update_group.h), all float64 or none.
  /// Null where a number's update depends on others; then `run`.
  void (*run_elements)(const StepNumbers&, const std::vector<double>& numbers, std::span<const ElementUpdate>);
  void (*run)(const UpdateCall&, const Draw&) = nullptr;
  void (*check)(const UpdateCall&) = nullptr;  ///< what is asked beside check_update(); touches no data
};

std::string schema_of(const UpdateOp& op);

/// Pops a call of `op` from the stack, checked.
UpdateCall pop_call(const UpdateOp& op, torch::jit::Stack* stack);

/// Throws UserError where the tensors of a call do not belong together.
void check_call(const UpdateOp& op, const UpdateCall& call);

/// The scalars of a call on the CPU.
StepNumbers step_numbers(const UpdateCall& call);

void run_on_cpu(const UpdateOp& op, torch::jit::Stack* stack);

/// Calls the operator through the dispatcher.
void call_update(const UpdateOp& op, const UpdatedTensors& tensors, const std::vector<Packed>& states,
                 const at::Tensor& step, const StepScalars& scalars, const std::vector<double>& numbers);

/// The operators there are; other devices' kernels are registered for them too.
extern const UpdateOp kAdamW, kLion, kSgd, kMomentumSgd, kAdafactor;

template <const UpdateOp& op>
void cpu_kernel(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  run_on_cpu(op, stack);
}
template <const UpdateOp& op>
void meta_kernel(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  pop_call(op, stack);
}

}  // namespace plimsoll::ops

/// Registers an UpdateOp; `op` is its name without the namespace, `table` the constant with external linkage.
#define PLIMSOLL_UPDATE_OP(op, table)                                             \
  TORCH_LIBRARY_FRAGMENT(plimsoll, m) {                                           \
    m.def(schema_of(table).c_str());                                              \
  }                                                                               \
  TORCH_LIBRARY_IMPL(plimsoll, CPU, m) {                                          \
    m.impl(op, torch::CppFunction::makeFromBoxedFunction<&cpu_kernel<table>>());  \
  }                                                                               \
  TORCH_LIBRARY_IMPL(plimsoll, Meta, m) {                                         \
    m.impl(op, torch::CppFunction::makeFromBoxedFunction<&meta_kernel<table>>()); \
  }
