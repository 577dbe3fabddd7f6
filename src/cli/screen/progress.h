// Declares a progress line for long runs: redrawn in place on a terminal, otherwise plain lines at intervals.
//
//     train  [========>           ]  42%  420/1000  loss 3.21  1.20 M tokens/s  memory 7.42 / 8.00 GiB  0:12:33 left
#pragma once

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <string_view>
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

}  // namespace plimsoll
