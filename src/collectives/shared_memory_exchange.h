// Declares the exchange between the CPU ranks of one host, through shared memory.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "collectives/exchange.h"
#include "collectives/shared_block.h"

namespace plimsoll {

/// Settings of a SharedMemoryExchange.
struct SharedMemoryOptions {
  /// Longest time without a sign of life; after it, a rank that another one waits for counts as hanging.
  std::chrono::milliseconds silence = std::chrono::seconds(3);
  std::string host;  ///< name of this host for messages; empty: host_name()
  std::function<void(const std::string& message)> on_lost_rank = {};  ///< Rendezvous::on_lost_rank
};

/// The exchange of ranks that are threads of one process, or processes of one host. Data passes through two buffers of
/// 1 MiB per rank in a block that all ranks share, so tensors may be in private memory. One barrier per piece.
/// bytes_sent() counts tensors, not texts. Calls of one object are made by one thread at a time; note() and fail() may
/// come from any thread.
class SharedMemoryExchange final : public Exchange {
 public:
  /// `block` has SharedBlock::bytes(size) bytes, is zeroed before the first rank comes and kept until the last is gone.
  SharedMemoryExchange(std::shared_ptr<void> block, int rank, int size, const SharedMemoryOptions& options = {});
  /// Marks the rank as finished: ranks that wait for it throw.
  ~SharedMemoryExchange() override;

  int rank() const override { return rank_; }
  int size() const override { return block_.size(); }
  void reduce_scatter(const at::Tensor& sum, const at::Tensor& source, bool first) override;
  void all_reduce(const at::Tensor& sum, const at::Tensor& source, bool first) override;
  void all_gather(const at::Tensor& whole) override;
  void broadcast(const at::Tensor& tensor, int root) override;
  std::vector<std::string> gather_text(std::string_view text) override;
  void require_others() override;
  void watch_others(std::function<void()> on_loss) override;
  bool runs_beside_operators() const override { return false; }
  void note(std::string_view place) override;
  void fail(std::string_view why) noexcept override;
  int64_t bytes_sent() const override { return bytes_sent_; }
  /// Returns the share of this rank in the block.
  int64_t held_bytes() const override { return SharedBlock::bytes(size()) / size(); }

 private:
  void begin(ExchangeCall call);
  void barrier();
  void wait_for_generation(uint32_t before);
  void look_for_loss(std::chrono::milliseconds passed);
  std::string find_loss(std::chrono::milliseconds passed);
  void publish_fault(const std::string& text);
  void look_at_ranks(std::chrono::milliseconds since_last_look);
  std::string fault_of(int rank, std::chrono::milliseconds since_last_look);
  [[noreturn]] void throw_fault(const std::string& text);
  void throw_known_fault() const;
  RankPlace place_of(int rank) const;
  std::byte* next_buffer(int rank) const { return block_.buffer(rank, which_); }
  void beat();
  std::chrono::steady_clock::time_point looked_ = std::chrono::steady_clock::now();  // by require_others()

  /// The data about another rank that this one keeps while it waits.
  struct Watched {
    uint64_t heartbeat = 0;
    std::chrono::milliseconds silent{0};
  };

  std::shared_ptr<void> memory_;
  SharedBlock block_;
  int rank_;
  SharedMemoryOptions options_;
  bool may_spin_;
  int which_ = 0;  // the buffer of the next piece
  int64_t calls_ = 0, bytes_sent_ = 0;
  bool calls_checked_ = true;
  std::vector<Watched> watched_;
  std::mutex mutex_;
  std::condition_variable ending_changed_;
  bool ending_ = false;
  // mutex_ guards these members. watch_others() sets them for the thread that gives the signs of life.
  std::function<void()> on_loss_;
  std::vector<Watched> observed_;
  std::string loss_;
  LossTimer loss_timer_;
  std::mutex text_mutex_;  // guards note() and fail() of several threads
  std::thread heart_;
};

}  // namespace plimsoll
