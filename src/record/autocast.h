// Declares autocast on the plan device: the same casts as on the device planned for.
#pragma once

#include <c10/core/ScalarType.h>

#include <string>
#include <vector>

namespace plimsoll {

/// Device whose list of autocast operators the plan device follows; libtorch's lists for CPU and CUDA differ.
enum class AutocastTarget { cpu, cuda };

/// Treatment of an operator's floating-point inputs under autocast.
enum class AutocastPolicy {
  none,
  lower_precision,  ///< cast floating-point inputs to the autocast dtype
  float32,          ///< cast floating-point inputs to float32
  set_dtype,        ///< request a float32 result through the optional `dtype` argument
  append_dtype,     ///< call the overload that takes a dtype, with float32
  promote,          ///< cast floating-point inputs to the widest dtype among them
};

/// Returns the policy of an operator ("linear", "norm.Scalar") on a target.
AutocastPolicy autocast_policy(AutocastTarget target, const std::string& name);
/// Returns every operator with a policy on the target. A test compares the list with libtorch's own registrations.
std::vector<std::string> autocast_operators(AutocastTarget target);

/// A scope in which plan tensors of this thread are autocast to `dtype` by the target's rules. Weight casts are cached
/// until the scope ends, as with torch.autocast.
class AutocastScope {
 public:
  AutocastScope(AutocastTarget target, c10::ScalarType dtype);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  bool was_enabled_;
  c10::ScalarType previous_dtype_;
  AutocastTarget previous_target_;
};

}  // namespace plimsoll
