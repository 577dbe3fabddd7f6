// Declares NVIDIA's compiler as a library (libnvrtc), loaded when the first kernel is compiled. Programs without fused
// ops do not need it, and compiling needs no device.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace plimsoll {

class Nvrtc {
 public:
  /// Throws UserError (failure) if there is none, with the paths that were searched and the remedy.
  Nvrtc();

  /// Returns the version: "13.0".
  const std::string& version() const { return version_; }

  /// Returns machine code of all kernels in `source` for a device of compute capability `capability` (80, 90). Products
  /// and sums are not contracted. Throws InternalError with the compiler's message if it refuses the source, which is
  /// ours; UserError (failure) if it does not know the device.
  std::vector<std::byte> compile(const std::string& source, int capability) const;

 private:
  struct Functions;
  const Functions& functions_;
  std::string version_;
};

/// Returns true if Nvrtc() will find one.
bool has_nvrtc();

}  // namespace plimsoll
