// Declares what a rank knows while the ranks meet: the progress of its own rendezvous, and signs of life of the others.
#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "collectives/exchange.h"
#include "collectives/rank_fault.h"
#include "collectives/store.h"

namespace plimsoll {

/// The key of the store that holds why a rank gave up. Every rank that waits throws it.
extern const std::string kMeetingFault;

/// The state of one rendezvous. Its thread, the watch of the other ranks and the caller of meet() share it: c10d may
/// wait without limit for the answer of a store, so the caller has to be able to give up.
class MeetingState {
 public:
  explicit MeetingState(const Rendezvous& rendezvous);

  const Rendezvous& rendezvous() const { return rendezvous_; }
  StoreOpening& opening() { return opening_; }

  void finish(std::shared_ptr<Exchange> exchange);
  void finish(std::exception_ptr error);
  /// Waits for finish(). Returns the exchange, or throws the error. Throws UserError (failure) if this rank has to give
  /// up and the thread of the rendezvous does not end within a second. `finished` is set to false in this case only.
  std::shared_ptr<Exchange> wait(bool& finished);

  /// Sets why this rank gives up; the first reason counts.
  void give_up(std::string why);
  /// Throws UserError (failure) if this rank gives up.
  void require_go_on();
  std::string fault();

  /// Names the rank whose process serves the store.
  void set_server(const RankPlace& rank);
  /// Returns the message for a store that has closed its connection because of `problem`.
  std::string closed_text(std::string_view problem);
  /// Marks the time in which the watch waits for an answer of the store.
  void set_talking(bool talking);

 private:
  void look(std::chrono::milliseconds passed);

  const Rendezvous rendezvous_;
  StoreOpening opening_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool finished_ = false, talking_ = false;
  std::shared_ptr<Exchange> exchange_;
  std::exception_ptr error_;
  std::string fault_;
  std::optional<RankPlace> server_;
  std::chrono::milliseconds waited_{0}, talked_{0};
};

/// Data that a rank publishes about itself when it comes.
struct Who {
  int size = 0;
  bool serves = false;
  int pid = 0;
  std::string host, identity, device;

  std::string text() const;
  static Who parsed(const std::string& text);
};

/// A thread that gives signs of life of this rank every 0.25 s while the ranks meet, and looks at those of the ranks
/// that have come. If one of these is lost, the meeting gives up, and the store has the reason for the others.
class MeetingWatch {
 public:
  /// Publishes the first sign of life.
  MeetingWatch(std::shared_ptr<MeetingState> state, const StorePointer& store);
  /// Ends the thread, or abandons it if the store does not answer.
  ~MeetingWatch();
  MeetingWatch(const MeetingWatch&) = delete;
  MeetingWatch& operator=(const MeetingWatch&) = delete;

  /// Watches a rank from now on. It has published its first sign of life.
  void watch(int rank, const Who& who);
  /// Ends the thread: from now on the exchange watches the ranks.
  void end();

 private:
  struct Data;
  std::shared_ptr<Data> data_;
  std::thread thread_;
};

}  // namespace plimsoll
