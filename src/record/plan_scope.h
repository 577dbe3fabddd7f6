// Build modules, and call step functions, on the plan device.
#pragma once

#include <memory>

namespace plimsoll {

/// While one lives on this thread, tensors that libtorch's factory functions make (torch::empty, torch::randn,
/// torch::arange, the parameters of a module under construction) are plan tensors: shape, dtype and no memory. A device
/// that is named, the CPU too, is left alone; a CPU tensor that meets plan tensors becomes a constant of the trace. The
/// scope nests.
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
