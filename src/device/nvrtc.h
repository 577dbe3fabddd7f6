// Declares NVIDIA's compiler as a library (libnvrtc), loaded when the first kernel is compiled, and the cache of
// compiled kernels on disk.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

/// NVIDIA's compiler as a library (libnvrtc), loaded when the first kernel is compiled. Programs without fused ops do
/// not need it, and compiling needs no device.
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

/// The cache of compiled kernels on disk: NVRTC takes about ten milliseconds for each kernel.
///
/// A file takes at most its own size in memory, and at most 64 MiB. A kernel runs with the user's rights: folder and
/// files must belong to the user or to root, and neither group nor others may write them.
class CompiledCache {
 public:
  /// `folder` empty: nothing is kept.
  explicit CompiledCache(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// Returns the code that was kept under `key` (everything that the code depends on, of any length). Returns nullopt
  /// if there is none, if the file is damaged, cut off, a link or another key's, or if another user may write the file
  /// or the folder.
  std::optional<std::vector<std::byte>> find(std::string_view key) const;

  /// Keeps `code` under `key`: written to a temporary file, synced, renamed; group and others lose the right to write
  /// folder and file. A file that cannot be written, or a folder that another user owns, is no error: the next run
  /// compiles the code again.
  void keep(std::string_view key, const std::vector<std::byte>& code) const;

  /// Returns the file of `key`.
  std::filesystem::path file_of(std::string_view key) const;

 private:
  std::filesystem::path folder_;
};

}  // namespace plimsoll
