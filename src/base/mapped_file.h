// Declares a file mapped into memory for reading: safetensors, GGUF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

namespace plimsoll {

/// A mapped file, read from the disk when its pages are accessed. If AtomicFile replaces the file, an open mapping
/// keeps the old contents. If another program cuts the file short, bytes read as 0 (MappingGuard), and require_whole()
/// throws. The file's descriptor stays open as long as a copy of the object lives.
class MappedFile {
 public:
  /// Throws FileError: usage if the file is missing, unreadable or not a regular file, failure if it cannot be mapped.
  /// An empty file has no bytes.
  static MappedFile open(const std::filesystem::path& path);

  const std::byte* data() const { return bytes_; }
  int64_t size() const { return size_; }

  /// Throws UserError (failure) that names the file if it has lost bytes since open(). Readers call it after they have
  /// taken their last byte, and before they use what they have read. A span or a view into the file is not taken until
  /// its bytes were copied or used: its reader calls it after that.
  void require_whole() const;
  /// Returns false if require_whole() would throw.
  bool is_whole() const;

  /// Returns the memory pages of `part` to the system, except pages that it shares with neighboring bytes. A later
  /// access reads them from the disk again.
  static void release_pages(std::span<const std::byte> part);

 private:
  struct Mapping;
  std::shared_ptr<const Mapping> mapping_;
  const std::byte* bytes_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace plimsoll
