// Declares the definition of the update operators. They differ in their state, their numbers and their arithmetic;
// schema, checks and registration are the same.
//
//     NAME(Tensor(a!) parameter, Tensor(b!)? companion, Tensor gradient, Tensor? gradient_scales,
//          Tensor(c!) STATE, Tensor(d!)? STATE_scales, ...,
//          Tensor step, Tensor learning_rate, Tensor grad_scale, Tensor skipped, float NUMBER, ...,
//          bool stochastic_state, bool stochastic_parameter, int seed, int first_element) -> ()
//
// The kernels are boxed: they read their arguments by position from a stack, as the recorder and the executor pass
// them.
#pragma once

#include <torch/library.h>

#include <cstdint>
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
  std::vector<double> numbers;  ///< values of UpdateOp::numbers, in the schema's order
  int64_t seed = 0;
  int64_t first_element = 0;  ///< first element of a slice; see Draw (ops/formats.h)
};

struct UpdateOp {
  struct State {
    const char* name;
    bool squares;
    /// The mean is one value for each element of the parameter, in any format. Otherwise `check` checks it.
    bool element_wise = true;
  };
  const char* name;  ///< "plimsoll::adamw_"
  std::vector<State> states;
  std::vector<const char*> numbers;
  /// The update on the CPU if the step is not skipped, of one parameter or of several (update_group.h), all float64 or
  /// none. Null if an element's update depends on others; then `run` is set.
  void (*run_elements)(const StepNumbers&, const std::vector<double>& numbers, std::span<const ElementUpdate>);
  void (*run)(const UpdateCall&, const Draw&) = nullptr;
  void (*check)(const UpdateCall&) = nullptr;  ///< checks in addition to check_update(); accesses no data
};

std::string schema_of(const UpdateOp& op);

/// Pops a call of `op` from the stack and checks it.
UpdateCall pop_call(const UpdateOp& op, torch::jit::Stack* stack);

/// Throws UserError if the tensors of a call do not belong together.
void check_call(const UpdateOp& op, const UpdateCall& call);

/// Returns the scalars of a call on the CPU.
StepNumbers step_numbers(const UpdateCall& call);

void run_on_cpu(const UpdateOp& op, torch::jit::Stack* stack);

/// Calls the operator through the dispatcher.
void call_update(const UpdateOp& op, const UpdatedTensors& tensors, const std::vector<Packed>& states,
                 const at::Tensor& step, const StepScalars& scalars, const std::vector<double>& numbers);

/// The update operators; other devices register kernels for them too.
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

namespace plimsoll::ops {

// Each function runs adamw_element(), lion_element() or sgd_element() `count` times (without momentum if `momentum` is
// null).

void adamw_update(float* p, const float* g, float* mean, float* square, int64_t count, const AdamWStep<float>& step);
void adamw_update(double* p, const double* g, double* mean, double* square, int64_t count,
                  const AdamWStep<double>& step);

void lion_update(float* p, const float* g, float* mean, int64_t count, const LionStep<float>& step);
void lion_update(double* p, const double* g, double* mean, int64_t count, const LionStep<double>& step);

void sgd_update(float* p, const float* g, float* momentum, int64_t count, const SgdStep<float>& step);
void sgd_update(double* p, const double* g, double* momentum, int64_t count, const SgdStep<double>& step);

// The next functions are Adafactor's three passes, each over a part of a row.

/// Adds s = (g / grad_scale)^2 + eps to `columns`, and returns the sum of s.
double add_squares(const float* g, float* columns, int64_t count, float grad_scale, float eps);
/// Returns the sum of (g factors)^2.
double sum_of_squared_products(const float* g, const float* factors, int64_t count);
/// Computes p <- kept p - step_size g factors.
void subtract_products(float* p, const float* g, const float* factors, int64_t count, float kept, float step_size);

/// Computes to <- to + from.
void add(float* to, const float* from, int64_t count);
/// Returns the sum of the squares, in float64 and always in the same order.
double sum_of_squares(const float* from, int64_t count);

}  // namespace plimsoll::ops
