// Says that work of unknown length goes on: "planning  0:12", "what if  2 of 9 planned  0:45", redrawn in place on a
// terminal, a plain line a minute elsewhere. Work that is done soon says nothing.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "cli/screen/progress.h"

namespace plimsoll {

class Waiting {
 public:
  /// `first_seconds`: what may pass in silence; not said, 2 on a terminal and 10 elsewhere, where lines stay. The line
  /// is drawn by a thread of its own: until this is destroyed nobody else writes to the options' stream, and their
  /// clock is asked by that thread.
  explicit Waiting(std::string title, ProgressOptions options = progress_on_standard_error(),
                   std::optional<double> first_seconds = {});
  /// Takes the line away again; what is printed next stands in its place.
  ~Waiting();
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  /// What stands between title and time from the next drawing on: "2 of 9 planned". From any thread.
  void say(std::string detail);

 private:
  void draw_until_done();
  void draw();
  bool done_within(double seconds);

  const std::string title_;
  const ProgressOptions options_;
  const double first_seconds_;
  const double began_;  ///< seconds on the options' clock
  std::mutex mutex_;
  std::condition_variable ends_;
  bool done_ = false;   ///< under mutex_
  std::string detail_;  ///< under mutex_
  std::thread thread_;
};

}  // namespace plimsoll
