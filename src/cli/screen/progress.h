// A progress line for long runs: redrawn in place on a terminal, plain lines from time to time elsewhere.
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

/// The world that a Progress lives in; a test makes one with a string stream and a clock of its own.
struct ProgressOptions {
  std::ostream* out = nullptr;       ///< required
  bool terminal = false;             ///< redraw one line; otherwise print plain ones
  bool colour = false;               ///< the title in bold; only on a terminal
  std::function<int()> width = {};   ///< columns of the terminal, asked at each redraw; empty: 80
  std::function<double()> now = {};  ///< seconds on a clock that never goes back; required
  double redraw_seconds = 0.1;       ///< the least time between two redraws
  double line_seconds = 10;          ///< the least time between two plain lines
};

/// Standard error, as it is: its terminal, its width, the steady clock, NO_COLOR and TERM=dumb honoured.
ProgressOptions progress_on_standard_error();

/// "0:07", "12:33", "3:04:05", "2 d 03:04:05": hours and days only where there are any.
std::string format_duration(double seconds);

/// Not for use by two threads at once.
class Progress {
 public:
  /// Counts to `total` steps (0: unknown, no bar); `start` steps were done before, by the run that this one resumes,
  /// and do not count for the time left. The clock starts here.
  Progress(std::string title, int64_t total, ProgressOptions options, int64_t start = 0);
  /// finish(): an error message that follows starts on a line of its own.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `step` steps are done. `fields` ("loss 3.21", "1.2 M tokens/s") stand behind the count, the most important first:
  /// a narrow terminal drops the last ones. On a terminal call it every step; elsewhere at the steps that are logged.
  void update(int64_t step, std::vector<std::string> fields);

  /// Prints a line of its own above the progress line, whatever the time.
  void note(std::string_view line);

  /// Shows the last state, with the time taken for the time left, and ends the line. Later calls do nothing.
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
  bool updated_ = false;  ///< there is something to show
  bool shown_ = false;    ///< something has been shown
  bool pending_ = false;  ///< the last update has not
  bool finished_ = false;
};

}  // namespace plimsoll
