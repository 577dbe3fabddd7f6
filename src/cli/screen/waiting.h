// Shows that work of unknown length goes on: "planning  0:12", "what if  2 of 9 planned  0:45". The line is redrawn in
// place on a terminal; otherwise a plain line is printed each minute. Short work prints nothing.
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
  /// `first_seconds`: seconds without output at the start; default: 2 on a terminal and otherwise 10, because lines
  /// stay there. A thread of this object draws the line. Until it is destroyed, no other code writes to the options'
  /// stream, and that thread calls their clock.
  explicit Waiting(std::string title, ProgressOptions options = progress_on_standard_error(),
                   std::optional<double> first_seconds = {});
  /// Erases the line; later output takes its place.
  ~Waiting();
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

  /// Sets the text between title and time from the next drawing on: "2 of 9 planned". Safe from any thread.
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
  bool done_ = false;   ///< guarded by mutex_
  std::string detail_;  ///< guarded by mutex_
  std::thread thread_;
};

}  // namespace plimsoll
