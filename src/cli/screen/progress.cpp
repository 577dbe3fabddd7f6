#include "cli/screen/progress.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iostream>
#include <ostream>
#include <utility>

#include "base/text.h"
#include "cli/screen/terminal.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr int64_t kMaxBarWidth = 30, kMinBarWidth = 8;  ///< cells between the brackets
constexpr int64_t kPartGap = 2;                         ///< spaces between the parts of the line

std::string join(const std::vector<std::string>& parts) {
  return fmt::format("{}", fmt::join(parts, std::string(kPartGap, ' ')));
}

std::string bar(double done, int64_t cells) {
  auto filled = static_cast<int64_t>(done * static_cast<double>(cells));
  std::string text(static_cast<size_t>(filled), '=');
  if (filled < cells) text += '>';
  text.resize(static_cast<size_t>(cells), ' ');
  return "[" + text + "]";
}

}  // namespace

ProgressOptions progress_on_standard_error() {
  ProgressOptions options;
  options.out = &std::cerr;
  options.terminal = is_terminal(STDERR_FILENO);
  options.color = color_allowed(STDERR_FILENO);
  options.width = [] { return terminal_width(STDERR_FILENO); };
  options.now = [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  };
  return options;
}

std::string format_duration(double seconds) {
  constexpr double kMaxSeconds = 1e12;  // also for NaN, and for the prediction of a slow first step
  if (!(seconds < kMaxSeconds)) return "very long";
  auto whole = static_cast<int64_t>(std::llround(std::max(seconds, 0.0)));
  int64_t minutes = whole / 60, hours = minutes / 60, days = hours / 24;
  if (days > 0) return fmt::format("{} d {:02}:{:02}:{:02}", days, hours % 24, minutes % 60, whole % 60);
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes % 60, whole % 60);
  return fmt::format("{}:{:02}", minutes, whole % 60);
}

Progress::Progress(std::string title, int64_t total, ProgressOptions options, int64_t start)
    : title_(without_controls(title)), total_(total), options_(std::move(options)), start_(start), step_(start) {
  check(options_.out != nullptr && options_.now, "Progress: a stream and a clock are needed");
  began_ = options_.now();
}

Progress::~Progress() {
  try {
    finish();
  } catch (...) {  // an exception of a stream must not end the program while another error is being handled
  }
}

std::vector<std::string> Progress::parts_before_fields() const {
  std::vector<std::string> parts;
  if (total_ <= 0) {
    parts.push_back(fmt::format("{}", step_));
    return parts;
  }
  double done = std::clamp(static_cast<double>(step_) / static_cast<double>(total_), 0.0, 1.0);
  parts.push_back(fmt::format("{:3}%", static_cast<int>(100 * done)));
  std::string total = fmt::format("{}", total_);
  parts.push_back(fmt::format("{:>{}}/{}", step_, total.size(), total));
  return parts;
}

std::string Progress::time_part() const {
  double elapsed = options_.now() - began_;
  if (finished_) return "in " + format_duration(elapsed);
  if (total_ <= 0) return format_duration(elapsed);
  if (step_ <= start_) return {};
  double left = static_cast<double>(std::max<int64_t>(total_ - step_, 0));
  return format_duration(elapsed / static_cast<double>(step_ - start_) * left) + " left";
}

std::string Progress::plain_line() const {
  std::vector<std::string> parts = parts_before_fields();
  parts.insert(parts.begin(), title_);
  parts.insert(parts.end(), fields_.begin(), fields_.end());
  if (std::string time = time_part(); !time.empty()) parts.push_back(time);
  return join(parts);
}

std::string Progress::terminal_line() const {
  // The last column stays free: some terminals wrap after a character there.
  const int64_t columns = std::max<int64_t>(options_.width ? options_.width() : kUnknownWidth, 2) - 1;
  const std::string time = time_part();
  std::vector<std::string> fields = fields_;
  std::vector<std::string> rest;
  int64_t room = 0;
  while (true) {
    rest = parts_before_fields();
    rest.insert(rest.end(), fields.begin(), fields.end());
    if (!time.empty()) rest.push_back(time);
    room = columns - static_cast<int64_t>(display_width(title_ + join(rest))) - kPartGap;
    if (room >= 0 || fields.empty()) break;
    fields.pop_back();
  }
  const int64_t cells = std::min(room - kPartGap - 2, kMaxBarWidth);
  if (total_ > 0 && cells >= kMinBarWidth) {
    double done = std::clamp(static_cast<double>(step_) / static_cast<double>(total_), 0.0, 1.0);
    rest.insert(rest.begin(), bar(done, cells));
  }
  rest.insert(rest.begin(), title_);
  const std::string joined = join(rest);
  std::string text(fit_width(joined, static_cast<size_t>(columns)));
  if (options_.color) text.insert(std::min(title_.size(), text.size()), "\x1b[0m").insert(0, "\x1b[1m");
  return text;
}

void Progress::show() {
  std::string text = options_.terminal ? kClearLine + terminal_line() : plain_line() + "\n";
  *options_.out << text << std::flush;
  shown_at_ = options_.now();
  shown_ = true;
  pending_ = false;
}

void Progress::update(int64_t step, std::vector<std::string> fields) {
  if (finished_) return;
  step_ = step;
  fields_ = std::move(fields);
  for (std::string& field : fields_) field = without_controls(field);
  updated_ = pending_ = true;
  double least = options_.terminal ? options_.redraw_seconds : options_.line_seconds;
  if (!shown_ || options_.now() - shown_at_ >= least) show();
}

void Progress::note(std::string_view line) {
  bool drawn = options_.terminal && shown_ && !finished_;
  *options_.out << fmt::format("{}{}\n", drawn ? kClearLine : "", line) << std::flush;
  if (drawn) show();
}

void Progress::finish() {
  if (finished_) return;
  finished_ = true;
  if (!updated_) return;
  if (options_.terminal) {
    show();
    *options_.out << "\n" << std::flush;
  } else if (pending_) {
    show();
  }
}

namespace {

constexpr double kRedrawSeconds = 1, kLineSeconds = 60;
constexpr double kFirstDrawSeconds = 2, kFirstLineSeconds = 10;

}  // namespace

Waiting::Waiting(std::string title, ProgressOptions options, std::optional<double> first_seconds)
    : title_(without_controls(title)),
      options_(std::move(options)),
      first_seconds_(first_seconds.value_or(options_.terminal ? kFirstDrawSeconds : kFirstLineSeconds)),
      began_(options_.now()),
      thread_([this] { draw_until_done(); }) {}

Waiting::~Waiting() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  ends_.notify_one();
  thread_.join();
}

bool Waiting::done_within(double seconds) {
  std::unique_lock lock(mutex_);
  return ends_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return done_; });
}

void Waiting::say(std::string detail) {
  const std::lock_guard lock(mutex_);
  detail_ = without_controls(detail);
}

void Waiting::draw() {
  const std::string time = format_duration(options_.now() - began_);
  std::string text = title_;
  {
    const std::lock_guard lock(mutex_);
    if (!detail_.empty()) text += "  " + detail_;
  }
  // A line that a terminal wraps cannot be erased, so the last column stays free.
  const int columns = (options_.terminal && options_.width ? options_.width() : kUnknownWidth) - 1;
  const auto room = static_cast<size_t>(std::max(columns - static_cast<int>(time.size()) - 2, 1));
  const std::string line = fmt::format("{}  {}", options_.terminal ? fit_width(text, room) : text, time);
  if (options_.terminal)
    *options_.out << kClearLine << line << std::flush;
  else
    *options_.out << line << "\n" << std::flush;
}

void Waiting::draw_until_done() {
  if (done_within(first_seconds_)) return;
  do draw();
  while (!done_within(options_.terminal ? kRedrawSeconds : kLineSeconds));
  if (options_.terminal) *options_.out << kClearLine << std::flush;
}

}  // namespace plimsoll
