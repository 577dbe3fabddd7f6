// Declares the scope in which modules are built, and step functions called, on the plan device.
#pragma once

#include <memory>

namespace plimsoll {

/// A scope in which tensors of libtorch's factory functions (torch::empty, torch::randn, torch::arange, the parameters
/// of a module under construction) are plan tensors: shape, dtype and no memory. It applies to this thread and nests.
/// An explicit device, the CPU too, is respected. A CPU tensor that is an operand next to plan tensors becomes a
/// constant of the trace.
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
