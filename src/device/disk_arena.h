// Declares the arena on disk: a range of addresses over a private file.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>

#include "base/mapped_file.h"

namespace plimsoll {

/// An arena of bytes of a file, mapped at a fixed address. The file has no name and disappears with the process,
/// however that ends. All of its space is allocated on disk at the start, so a lack of space shows before the first
/// step. Growing keeps address and contents.
class DiskArena {
 public:
  /// The file is in `folder`, which must exist. Throws DiskUnavailable if the disk does not have `bytes`, UserError
  /// (failure) if no file can be made in the folder. `max_bytes`: bytes that the arena may have to grow to.
  DiskArena(std::filesystem::path folder, int64_t bytes, int64_t max_bytes = 0);
  ~DiskArena();
  DiskArena(const DiskArena&) = delete;
  DiskArena& operator=(const DiskArena&) = delete;

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

  /// Makes the arena at least `bytes` large. Throws as the constructor.
  void grow(int64_t bytes);

  /// Returns the memory pages of [offset, offset + bytes) to the system; `written`: their data is written to the disk
  /// first. The data is read from disk at the next access. Data that could not be written stays in memory, and
  /// require_written() reports it. Safe from any thread.
  void evict(int64_t offset, int64_t bytes, bool written) noexcept;

  /// Throws UserError (failure) if data could not be written to the disk or read from it. Safe from any thread.
  void require_written() const;

  /// Returns the bytes of the arena that are in memory now.
  int64_t resident_bytes() const;

 private:
  void close() noexcept;

  std::filesystem::path folder_;
  std::optional<MappingGuard> guard_;  // guards the reserved addresses
  int descriptor_ = -1;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
  int64_t reserved_ = 0;
  std::atomic<int> write_error_ = 0;  // the first errno of a write that failed
};

}  // namespace plimsoll
