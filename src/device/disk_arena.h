// The arena on disk: a range of addresses over a file that nobody else sees.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>

#include "base/mapping_guard.h"

namespace plimsoll {

/// Bytes of a file mapped at a fixed address. The file has no name and is gone with the process, however that ends. All
/// of it is taken on the disk at the start: what cannot be had is missed before the first step. Growing keeps address
/// and contents.
class DiskArena {
 public:
  /// The file lies in `folder`, which must exist. Throws DiskUnavailable if the disk does not have `bytes`, UserError
  /// (failure) if the folder takes no file. `most`: it may have to grow to so much.
  DiskArena(std::filesystem::path folder, int64_t bytes, int64_t most = 0);
  ~DiskArena();
  DiskArena(const DiskArena&) = delete;
  DiskArena& operator=(const DiskArena&) = delete;

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

  /// Makes the arena at least `bytes` large. Throws likewise.
  void grow(int64_t bytes);

  /// Gives the memory of [offset, offset + bytes) back to the system: what was written (`written`) goes to the disk
  /// first. It is read from there when it is touched again. What the disk does not take stays in memory, and
  /// require_written() tells. For any thread.
  void let_go(int64_t offset, int64_t bytes, bool written) noexcept;

  /// Throws UserError (failure) if something that was let go did not reach the disk, or could not be read from it. For
  /// any thread.
  void require_written() const;

  /// Bytes of the arena that are in memory now.
  int64_t resident_bytes() const;

 private:
  void close() noexcept;

  std::filesystem::path folder_;
  std::optional<MappingGuard> guard_;  // of the reserved addresses
  int descriptor_ = -1;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
  int64_t reserved_ = 0;
  std::atomic<int> write_error_ = 0;  // the first errno of a write that failed
};

}  // namespace plimsoll
