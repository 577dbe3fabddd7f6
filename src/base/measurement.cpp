#include "base/measurement.h"

#include <sys/resource.h>
#include <unistd.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <string>
#include <thread>

#include "plimsoll/bytes.h"

namespace plimsoll {
namespace {

MeasuringMachine*& current() {
  static MeasuringMachine this_machine;
  static MeasuringMachine* machine = &this_machine;
  return machine;
}

}  // namespace

std::optional<OtherWork> other_work() {
  std::ifstream stat("/proc/stat");
  std::string word;
  // cpu user nice system idle iowait irq softirq steal …
  double user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0, softirq = 0, steal = 0;
  if (!(stat >> word >> user >> nice >> system >> idle >> iowait >> irq >> softirq >> steal) || word != "cpu")
    return std::nullopt;
  rusage own{};
  const auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  if (ticks <= 0 || ::getrusage(RUSAGE_SELF, &own) != 0) return std::nullopt;
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  OtherWork work;
  work.seconds = (user + nice + system + irq + softirq + steal) / ticks - seconds(own.ru_utime) - seconds(own.ru_stime);
  work.processors = std::max(1, static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN)));
  return work;
}

double shared_processors(const OtherWork& before, const OtherWork& after, double seconds, int threads) {
  if (seconds <= 0) return 0;
  const double busy = (after.seconds - before.seconds) / seconds;
  return std::max(0.0, busy - std::max(0, after.processors - threads));
}

double MeasuringMachine::now() {
  return seconds_now();
}

void MeasuringMachine::wait(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

double MeasuringMachine::time(const MeasuredWork&, const std::function<void()>& run) {
  const double begin = now();
  run();
  return std::max(now() - begin, 1e-9);
}

std::optional<OtherWork> MeasuringMachine::other_work() {
  return plimsoll::other_work();
}

MeasuringMachine& measuring_machine() {
  return *current();
}

MeasuringMachineScope::MeasuringMachineScope(MeasuringMachine& machine) : before_(current()) {
  current() = &machine;
}
MeasuringMachineScope::~MeasuringMachineScope() {
  current() = before_;
}

double MeasureAllowance::seconds_left() const {
  const std::lock_guard lock(mutex_);
  return std::max(0.0, limits_.seconds - spent_);
}

void MeasureAllowance::keep_estimate(const std::string& key, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  estimates_.insert_or_assign(key, bytes);
}

std::optional<int64_t> MeasureAllowance::estimate(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = estimates_.find(key);
  return found == estimates_.end() ? std::nullopt : std::optional(found->second);
}

std::string describe_limits(const MeasureLimits& limits) {
  const std::string bytes = format_bytes(limits.bytes);
  if (std::isinf(limits.seconds)) return fmt::format("planning measures ops of at most {}", bytes);
  return fmt::format("planning measures for at most {:g} s and {}", limits.seconds, bytes);
}

MeasureAllowance::Charge::Charge(MeasureAllowance* allowance)
    : allowance_(allowance), begin_(allowance ? measuring_machine().now() : 0) {}

double MeasureAllowance::Charge::seconds() const {
  return allowance_ ? measuring_machine().now() - begin_ : 0;
}

MeasureAllowance::Charge::~Charge() {
  if (!allowance_) return;
  const double charged = seconds();
  const std::lock_guard lock(allowance_->mutex_);
  allowance_->spent_ += charged;
}

}  // namespace plimsoll
