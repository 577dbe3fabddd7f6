// Declares a progress line for long runs, and a line for work of unknown length. A terminal has one line that is
// redrawn in place; other outputs have plain lines at intervals.
//
//     train  [========>           ]  42%  420/1000  loss 3.21  1.20 M tokens/s  memory 7.42 / 8.00 GiB  0:12:33 left
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace plimsoll {

/// Environment of a Progress: stream, terminal and clock; a test passes a string stream and a clock of its own.
struct ProgressOptions {
  std::ostream* out = nullptr;       ///< required
  bool terminal = false;             ///< redraw one line; otherwise print plain lines
  bool color = false;                ///< print the title in bold; only on a terminal
  std::function<int()> width = {};   ///< columns of the terminal, called at each redraw; empty: 80
  std::function<double()> now = {};  ///< seconds on a clock that never goes back; required
  double redraw_seconds = 0.1;       ///< minimum time between two redraws
  double line_seconds = 10;          ///< minimum time between two plain lines
};

/// Returns the options for standard error: its terminal, its width, the steady clock, NO_COLOR and TERM=dumb honored.
ProgressOptions progress_on_standard_error();

/// Returns "0:07", "12:33", "3:04:05", "2 d 03:04:05": hours and days only if there are any.
std::string format_duration(double seconds);

/// A progress line. Not thread-safe.
class Progress {
 public:
  /// Counts to `total` steps (0: unknown, no bar). `start` steps were done earlier, by the run that this one resumes;
  /// they do not count for the remaining time. The clock starts here.
  Progress(std::string title, int64_t total, ProgressOptions options, int64_t start = 0);
  /// Calls finish(), so that an error message that follows starts on a line of its own.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Reports that `step` steps are done. `fields` ("loss 3.21", "1.2 M tokens/s") follow the count, the most important
  /// first: a narrow terminal drops the last ones. On a terminal call it every step; otherwise at the steps that are
  /// logged.
  void update(int64_t step, std::vector<std::string> fields);

  /// Prints a line above the progress line immediately.
  void note(std::string_view line);

  /// Shows the last state, with the elapsed time instead of the remaining time, and ends the line. Later calls do
  /// nothing.
  void finish();

 private:
  std::vector<std::string> parts_before_fields() const;
  std::string time_part() const;
  std::string plain_line() const;
  std::string terminal_line() const;
  void show();

  std::string title_;
  int64_t total_;
  ProgressOptions options_;
  int64_t start_;
  double began_;  ///< seconds on the options' clock

  int64_t step_;
  std::vector<std::string> fields_;
  double shown_at_ = 0;
  bool updated_ = false;  ///< true if there is something to show
  bool shown_ = false;    ///< true if something has been shown
  bool pending_ = false;  ///< true if the last update has not been shown
  bool finished_ = false;
};

/// A line that shows that work of unknown length goes on: "planning  0:12", "what if  2 of 9 planned  0:45". It is
/// redrawn in place on a terminal; otherwise a plain line is printed each minute. Short work prints nothing.
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
