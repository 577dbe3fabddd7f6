// Declares autocast on the plan device: the same casts as on the device planned for.
#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/ScalarType.h>

#include <optional>
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

/// The autocast state of a device on this thread, restored when the object is destroyed.
class AutocastState {
 public:
  explicit AutocastState(c10::DeviceType device);
  ~AutocastState();
  AutocastState(const AutocastState&) = delete;
  AutocastState& operator=(const AutocastState&) = delete;

 private:
  c10::DeviceType device_;
  bool enabled_;
  c10::ScalarType dtype_;
};

/// A scope in which plan tensors of this thread are autocast to `dtype` by the target's rules. Weight casts are cached
/// until the scope ends, as with torch.autocast. Inside FollowedAutocast the scope is a block of the followed device.
class AutocastScope {
 public:
  AutocastScope(AutocastTarget target, c10::ScalarType dtype);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  AutocastState plan_, followed_;
  AutocastTarget previous_target_;
};

/// A scope in which plan tensors are autocast as tensors of `device` would be. Autocast blocks of a step set the state
/// of that device, and have the effect that they have there. At its begin autocast on `device` is off; at its end the
/// state of the thread is as before. At most one exists in a process, as of recorders.
class FollowedAutocast {
 public:
  explicit FollowedAutocast(c10::DeviceType device);
  ~FollowedAutocast();
  FollowedAutocast(const FollowedAutocast&) = delete;
  FollowedAutocast& operator=(const FollowedAutocast&) = delete;

  /// A call on the plan device. While it runs, the plan device has the autocast state that the followed device has on
  /// this thread. Does nothing if no device is followed.
  class Call {
   public:
    Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    std::optional<AutocastState> plan_;
  };

 private:
  AutocastState state_;
  AutocastTarget previous_target_;
  int outer_blocks_;  // autocast blocks around this scope
};

}  // namespace plimsoll
