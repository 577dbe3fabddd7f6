// Declares the update operators over several parameters in one call, which passes/group_updates makes from small ones,
// and the rules by which the planner may join updates. Each parameter is updated with the bits of its own operator.
//
//     NAME_group_(Tensor(a!)[] parameters, Tensor(b!)[] companions, Tensor[] gradients, Tensor[] gradient_scales,
//                 Tensor(c!)[] STATE, Tensor(d!)[] STATE_scales, ...,
//                 Tensor step, Tensor learning_rate, Tensor grad_scale, Tensor skipped, float NUMBER, ...,
//                 bool stochastic_state, bool stochastic_parameter, int[] seeds, int[] first_elements) -> ()
//
// A list has a tensor for each parameter, or is empty. All parameters are float64, or none is; other formats may
// differ.
#pragma once

#include <c10/core/DispatchKey.h>
#include <torch/library.h>

#include <string>
#include <vector>

#include "ops/optimizer/update_op.h"
#include "trace/merged_ops.h"

namespace plimsoll::ops {

/// Returns the schema of the group operator of `op`, which has `run_elements`.
std::string schema_of_group(const UpdateOp& op);

/// Pops a call of the group's operator from the stack. Returns the checked calls of its members. Throws UserError if a
/// list is longer or shorter than the list of parameters.
std::vector<UpdateCall> pop_group(const UpdateOp& op, torch::jit::Stack* stack);

void run_group_on_cpu(const UpdateOp& op, torch::jit::Stack* stack);

template <const UpdateOp& op>
void cpu_group_kernel(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  run_group_on_cpu(op, stack);
}
template <const UpdateOp& op>
void meta_group_kernel(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  pop_group(op, stack);
}

}  // namespace plimsoll::ops

/// Registers the group operator of an UpdateOp; `op` is its name without the namespace.
#define PLIMSOLL_UPDATE_GROUP(op, table)                                                \
  TORCH_LIBRARY_FRAGMENT(plimsoll, m) {                                                 \
    m.def(schema_of_group(table).c_str());                                              \
  }                                                                                     \
  TORCH_LIBRARY_IMPL(plimsoll, CPU, m) {                                                \
    m.impl(op, torch::CppFunction::makeFromBoxedFunction<&cpu_group_kernel<table>>());  \
  }                                                                                     \
  TORCH_LIBRARY_IMPL(plimsoll, Meta, m) {                                               \
    m.impl(op, torch::CppFunction::makeFromBoxedFunction<&meta_group_kernel<table>>()); \
  }

namespace plimsoll {

/// Returns the grouping rules of AdamW, Lion and SGD with and without momentum, for gradients in their parameter's
/// order.
UpdateGrouping update_grouping();

/// Returns true if these devices have kernels for groups.
bool has_update_groups(c10::DispatchKey device);

}  // namespace plimsoll
