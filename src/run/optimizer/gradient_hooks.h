// Declares autograd hooks that run when a parameter's gradient is complete.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <vector>

namespace plimsoll {

/// A set of hooks. While it lives, backward calls `complete(i, parameter)` when the gradient of `parameters[i]` is
/// complete.
class GradientHooks {
 public:
  using Complete = std::function<void(size_t index, const at::Tensor& parameter)>;
  GradientHooks(std::vector<at::Tensor> parameters, Complete complete);
  ~GradientHooks();
  GradientHooks(const GradientHooks&) = delete;
  GradientHooks& operator=(const GradientHooks&) = delete;

 private:
  std::vector<at::Tensor> parameters_;
  Complete complete_;
};

}  // namespace plimsoll
