// Declares a fake device: libtorch's key for MAIA, with the CPU's kernels and host memory. It represents a device
// unknown to Plimsoll.
#pragma once

namespace plimsoll::testing {

/// Registers it with libtorch and, as "made_up", with Plimsoll. Only the first call in a process has an effect.
void add_fake_device();

/// Return the kernels that it has run so far, and the bytes that its framework's allocator has returned.
struct FakeUse {
  long kernels = 0;
  long allocated_bytes = 0;
};
FakeUse fake_use();

/// A scope in which the device has no float64.
class FakeDeviceWithoutFloat64 {
 public:
  FakeDeviceWithoutFloat64();
  ~FakeDeviceWithoutFloat64();
};

}  // namespace plimsoll::testing
