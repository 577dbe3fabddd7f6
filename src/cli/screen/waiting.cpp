#include "cli/screen/waiting.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ostream>
#include <utility>

#include "base/text_width.h"
#include "cli/screen/terminal.h"

namespace plimsoll {
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
