// Compiled kernels on disk: NVRTC takes some ten milliseconds for each, and the next run asks for the same ones.
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
  /// An empty folder: nothing is kept.
  explicit CompiledCache(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// What was kept under `key` (everything that the code depends on, of any length); nullopt where nothing was, or
  /// where the file is damaged, cut off or another key's.
  std::optional<std::vector<std::byte>> find(std::string_view key) const;

  /// Keeps `code` under `key`: written aside, synced, renamed. What cannot be written is not kept, without a word: the
  /// next run compiles it again.
  void keep(std::string_view key, const std::vector<std::byte>& code) const;

  /// The file of `key`.
  std::filesystem::path file_of(std::string_view key) const;

 private:
  std::filesystem::path folder_;
};

}  // namespace plimsoll
