// Declares the cache of compiled kernels on disk: NVRTC takes about ten milliseconds for each kernel.
//
// Bounds: a file takes at most its own size in memory, and at most 64 MiB. A kernel runs with the user's rights: folder
// and files must belong to the user or to root, and neither group nor others may write them.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

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
