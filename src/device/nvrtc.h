// NVIDIA's compiler as a library (libnvrtc), loaded when the first kernel is compiled: programs without fused ops need
// none. Compiling takes no device.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace plimsoll {

class Nvrtc {
 public:
  /// Throws UserError (failure), saying where it was looked for and what to do, where there is none.
  Nvrtc();

  /// "13.0"
  const std::string& version() const { return version_; }

  /// Machine code for a device of compute capability `capability` (80, 90) of all kernels in `source`. Products and
  /// sums are not contracted. Throws InternalError with the compiler's words where it refuses the text, which is ours,
  /// UserError (failure) where it does not know the device.
  std::vector<std::byte> compile(const std::string& source, int capability) const;

 private:
  struct Functions;
  const Functions& functions_;
  std::string version_;
};

/// Whether Nvrtc() will find one.
bool has_nvrtc();

}  // namespace plimsoll
