// Declares the plan device, in libtorch's slot IPU, which nothing else uses, and the scope in which modules are built
// and step functions are called on it.
//
// Its tensors have shape, strides, dtype and a buffer id, and no memory. Linking libplimsoll registers it.
//
// Not the slot of private backends (PrivateUse1): a program that loads the library would have it as its accelerator,
// which torch.accelerator and what reads it take for a GPU, and another backend could not be in the same process.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <memory>
#include <string>

#include "plimsoll/trace.h"

namespace plimsoll {

constexpr c10::DeviceType kPlanDevice = c10::DeviceType::IPU;

inline bool is_plan(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().type() == kPlanDevice;
}

/// Returns a plan tensor over a new buffer of the active recorder. Throws UserError if nothing is being recorded.
at::Tensor make_plan_tensor(c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::ScalarType dtype);

/// Returns a plan tensor over the storage of `base`.
at::Tensor make_plan_view(const at::Tensor& base, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset,
                          c10::ScalarType dtype);

/// Returns a message of libtorch with the plan device called "plan".
std::string plan_device_named(std::string message);

/// Gives libtorch's autograd engine a thread for the plan device. The engine starts its threads at the first backward
/// pass of the process, for the devices that are registered then.
void ensure_backward_thread();

/// Returns the buffer of a plan tensor. Throws UserError for a tensor of another recording than the active one.
BufferId buffer_of(const at::Tensor& tensor);

/// Returns the view of a plan tensor: its buffer, offset, sizes and strides.
View view_of(const at::Tensor& tensor);

/// Returns a tensor on the meta device with the tensor's sizes, strides, offset and dtype.
at::Tensor meta_like(const at::Tensor& tensor);

/// Calls an operator in a PlanScope, below the scope's dispatch key. The arguments are on the stack.
void call_on_plan(const c10::OperatorHandle& op, torch::jit::Stack* stack);

/// A scope in which tensors of libtorch's factory functions (torch::empty, torch::randn, torch::arange, the parameters
/// of a module under construction) are plan tensors: shape, dtype and no memory. It applies to this thread and nests.
/// An explicit device, the CPU too, is respected. A CPU tensor that is an operand next to plan tensors becomes a
/// constant of the trace. Random numbers of a step are drawn in every step: a factory that draws makes a plan tensor on
/// the CPU's name too, and other draws for CPU tensors are refused.
class PlanScope {
 public:
  PlanScope();
  ~PlanScope();
  PlanScope(const PlanScope&) = delete;
  PlanScope& operator=(const PlanScope&) = delete;

 private:
  struct Guard;
  std::unique_ptr<Guard> guard_;
};

}  // namespace plimsoll
