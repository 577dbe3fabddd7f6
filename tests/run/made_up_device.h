// A device that nobody makes: libtorch's key for MAIA, whose kernels are the CPU's, and whose memory is the host's. It
// stands for all that Plimsoll knows nothing about.
#pragma once

namespace plimsoll::testing {

/// Registers it with libtorch and, as "made_up", with Plimsoll. Once in a process; again does nothing.
void add_made_up_device();

/// Kernels that it has run so far, and bytes that its framework's allocator gave out.
struct MadeUpUse {
  long kernels = 0;
  long allocated_bytes = 0;
};
MadeUpUse made_up_use();

}  // namespace plimsoll::testing
