// Autocast on the plan device: the same casts as on the device planned for.
#pragma once

#include <c10/core/ScalarType.h>

#include <string>
#include <vector>

namespace plimsoll {

/// Whose list of autocast operators the plan device follows: libtorch's lists for CPU and CUDA differ.
enum class AutocastTarget { cpu, cuda };

enum class AutocastPolicy {
  none,
  lower_precision,  ///< cast floating inputs to the autocast dtype
  float32,          ///< cast them to float32
  set_dtype,        ///< ask for a float32 result through the optional `dtype` argument
  append_dtype,     ///< call the overload that takes a dtype, with float32
  promote,          ///< cast them to the widest dtype among them
};

/// The policy of "linear" or "norm.Scalar" on a target.
AutocastPolicy autocast_policy(AutocastTarget target, const std::string& name);
/// Every operator with a policy on the target, for the test that compares the lists with libtorch's own registrations.
std::vector<std::string> autocast_operators(AutocastTarget target);

/// While one lives on this thread, plan tensors are autocast to `dtype` by the target's rules. Weight casts are cached
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
