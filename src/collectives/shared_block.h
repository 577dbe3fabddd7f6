// Declares the memory that the ranks of one host share, and its layout: a barrier, and a record and two buffers for
// each rank.
//
//     | BlockHead | RankRecord 0 | … | RankRecord R-1 | rank 0: buffer 0, buffer 1 | rank 1: … |
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "collectives/exchange_support.h"
#include "collectives/rank_fault.h"

namespace plimsoll {

/// Bytes of one buffer; a rank has two.
constexpr int64_t kExchangeBuffer = 1 << 20;

/// A text that one rank writes and the others read at any time. The writer fills the copy that is not valid, so readers
/// get a whole text even if the writer is stopped while it writes.
template <size_t bytes>
class SharedText {
 public:
  void write(std::string_view text) {
    text = cut_text(text, bytes);
    const uint32_t next = valid_.load(std::memory_order_relaxed) ^ 1u;
    text.copy(texts_[next], text.size());
    sizes_[next].store(static_cast<uint32_t>(text.size()), std::memory_order_relaxed);
    valid_.store(next, std::memory_order_release);
  }
  std::string read() const {
    const uint32_t valid = valid_.load(std::memory_order_acquire) & 1u;
    const uint32_t size = sizes_[valid].load(std::memory_order_relaxed);
    return std::string(texts_[valid], size < bytes ? size : bytes);
  }

 private:
  std::atomic<uint32_t> valid_;
  std::atomic<uint32_t> sizes_[2];
  char texts_[2][bytes];
};

/// The state of a rank; a zeroed block has only absent ranks.
enum class RankState : uint32_t { absent, running, failed, finished };

/// The data that a rank publishes about itself. Only this rank writes it.
struct alignas(64) RankRecord {
  std::atomic<RankState> state;
  std::atomic<int32_t> pid;
  std::atomic<uint64_t> heartbeat;  ///< raised every 250 ms
  std::atomic<uint64_t> arrivals;   ///< barriers that the rank has entered for good
  ExchangeCall calls[2];            ///< call n in calls[n % 2]: a rank may be one call ahead of another
  SharedText<64> host;
  SharedText<kMaxNote> place;
  SharedText<kMaxFault> why;  ///< text of fail()
};

/// The barrier, and the first fault that a rank noticed, which all ranks report.
struct alignas(64) BlockHead {
  std::atomic<uint32_t> generation;  ///< barriers that are complete; ranks sleep on it (futex)
  std::atomic<uint32_t> arrived;     ///< ranks in the current barrier
  std::atomic<uint32_t> sleepers;
  std::atomic<uint32_t> fault;  ///< 0: none; 1: a rank writes it; 2: `fault_text` is valid
  SharedText<kMaxFault> fault_text;
};

static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<RankState>::is_always_lock_free);

/// Addresses in a block. The block is zeroed before the first rank uses it, and aligned to 64 bytes.
class SharedBlock {
 public:
  SharedBlock(void* block, int size) : block_(static_cast<std::byte*>(block)), size_(size) {}

  /// Returns the bytes of the block of `size` ranks, a multiple of `size`.
  static int64_t bytes(int size);

  int size() const { return size_; }
  BlockHead& head() const { return *reinterpret_cast<BlockHead*>(block_); }
  RankRecord& record(int rank) const {
    return *reinterpret_cast<RankRecord*>(block_ + sizeof(BlockHead) + static_cast<size_t>(rank) * sizeof(RankRecord));
  }
  /// Returns buffer 0 or 1 of a rank: kExchangeBuffer bytes that begin at a page of 4 KiB relative to the block.
  std::byte* buffer(int rank, int which) const;

 private:
  std::byte* block_;
  int size_;
};

/// Sleeps while `word` is `value`, at most `milliseconds`; wakes early on wake_all(word) of any process.
void sleep_while(std::atomic<uint32_t>& word, uint32_t value, int milliseconds);
/// Wakes all threads that sleep on `word`, in all processes.
void wake_all(std::atomic<uint32_t>& word);

/// Returns true if the process is gone: it does not exist, or has ended and was not collected.
bool process_is_gone(int pid);

/// Returns a text that is equal for processes that can share memory: same boot, same process numbers, same /dev/shm.
std::string host_identity();

/// A new zeroed file that processes map. Only this user can open it. It has a name until unlink(), or until the object
/// is destroyed.
class HostBlock {
 public:
  /// Throws UserError (failure) if `folder` has less than `bytes` bytes free.
  explicit HostBlock(int64_t bytes, std::filesystem::path folder = "/dev/shm");
  ~HostBlock() { unlink(); }
  HostBlock(const HostBlock&) = delete;
  HostBlock& operator=(const HostBlock&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void unlink();  ///< removes the name; mapped memory stays

 private:
  std::filesystem::path path_;
};

/// Maps the file of a HostBlock. Throws UserError (failure) if it cannot, or if the file does not have `bytes` bytes.
std::shared_ptr<void> map_block(const std::filesystem::path& path, int64_t bytes);

}  // namespace plimsoll
