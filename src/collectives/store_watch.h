// Watches the ranks of several hosts: each writes signs of life to the store and reads those of the others.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "collectives/process_group_exchange.h"
#include "collectives/rank_fault.h"
#include "collectives/store.h"

namespace plimsoll {

/// A thread that writes this rank's heartbeat, place and state to the store every 0.5 s and reads those of all ranks.
/// The first fault that a rank finds goes to the store, so that all report the same one.
class StoreWatch : public std::enable_shared_from_this<StoreWatch> {
 public:
  /// Publishes the first sign of life.
  StoreWatch(const StorePointer& store, const ProcessGroupOptions& options);
  /// Starts the threads. Every rank has constructed its watch before. The owner calls stop() before it drops the watch.
  void start();
  /// Publishes that the rank has finished. The rank that serves the store waits for the others, for at most `silence`.
  void stop();

  void watch_others(std::function<void()> on_loss);  ///< same as Exchange::watch_others()
  void note(std::string_view place);                 ///< same as Exchange::note()
  void fail(std::string_view why) noexcept;          ///< returns when the others can read it, or after 2 s
  /// Waits for a send or a receive. Throws UserError (failure) if a rank fails during the wait.
  void wait(const c10::intrusive_ptr<c10d::Work>& work);
  /// Throws UserError (failure) that names the rank that is the reason for a broken connection.
  [[noreturn]] void throw_broken(const std::string& problem);

 private:
  using Milliseconds = std::chrono::milliseconds;
  enum class State : int { running, finished };
  /// The data that this rank has about another one.
  struct Life {
    int64_t beats = -1;
    State state = State::running;
    int pid = 0;
    std::string identity, place;
    Milliseconds silent{0};
  };

  void run();
  void guard();
  template <class Talk>
  void talk(std::unique_lock<std::mutex>& lock, const Talk& talk);
  std::string own_life() const;
  void publish(std::unique_lock<std::mutex>& lock);
  void read_others(std::unique_lock<std::mutex>& lock);
  void find_fault();
  void look_for_loss(Milliseconds passed);
  std::string fault_of(int rank) const;
  RankPlace place_of(int rank) const;
  std::string store_fault(bool at_once) const;

  StorePointer store_;
  ProcessGroupOptions options_;
  std::string identity_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Life> lives_;
  std::string place_, why_, found_, fault_, store_fault_;
  std::function<void()> on_loss_;
  LossTimer loss_timer_;
  int64_t beats_ = 0;
  State state_ = State::running;
  bool ending_ = false, urgent_ = false, connection_lost_ = false, why_published_ = false, run_ended_ = false;
  c10::intrusive_ptr<c10d::Work> current_;  // the work that the caller waits for
  std::chrono::steady_clock::time_point last_read_;
  bool talking_ = false;  // true while the store has not answered
  std::chrono::steady_clock::time_point talks_since_;
  std::thread thread_, guard_;
};

}  // namespace plimsoll
