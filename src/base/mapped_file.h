// A file mapped into memory to be read: safetensors, GGUF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

namespace plimsoll {

/// Bytes come from the disk as they are touched. A file that AtomicFile replaces stays as it was for those who have it
/// open; one that another program cuts short meanwhile takes the process down (SIGBUS), as every memory map does.
class MappedFile {
 public:
  /// Throws UserError (failure): the file is missing, unreadable or not a regular file. An empty file has no bytes.
  static MappedFile open(const std::filesystem::path& path);

  const std::byte* data() const { return bytes_.get(); }
  int64_t size() const { return size_; }

  /// Gives the memory of `part` back, but for pages that it shares with what lies beside it; reading it again takes it
  /// from the disk again.
  static void let_go(std::span<const std::byte> part);

 private:
  std::shared_ptr<const std::byte> bytes_;
  int64_t size_ = 0;
};

}  // namespace plimsoll
