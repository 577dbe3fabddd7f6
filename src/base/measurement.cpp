#include "base/measurement.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/clock.h"

namespace plimsoll {
namespace {

MeasuringMachine*& current() {
  static MeasuringMachine this_machine;
  static MeasuringMachine* machine = &this_machine;
  return machine;
}

}  // namespace

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
