#include "run/profile/step_profile.h"

#include <utility>

#include "base/atomic_file.h"
#include "plimsoll/error.h"
#include "run/profile/rank_profile.h"

namespace plimsoll {
namespace {

int64_t nanoseconds(ProfileClock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

ProfiledSpan span_of(const TimeSpan& span) {
  return {nanoseconds(span.begin), nanoseconds(span.end)};
}

}  // namespace

StepProfile::StepProfile(ProfileOptions options, ProfileTitle title, Exchange* exchange)
    : options_(std::move(options)), title_(std::move(title)), exchange_(exchange) {
  if (exchange_ && exchange_->rank() > 0) return;
  const AtomicFile probe(options_.file);  // never committed: leaves no trace
}

bool StepProfile::wants(int64_t number) const {
  return !written_ && number >= options_.first_step && done_ < options_.steps;
}

void StepProfile::begin_step(int64_t number, const Plan& plan) {
  if (!plan_) plan_ = std::make_shared<ProfiledPlan>(plan);
  now_ = {};
  now_.number = number;
  now_.plan = plan_;
  now_.ops.reserve(plan.trace.ops.size());
  now_.copies.reserve(plan.trace.ops.size() / 4);
  now_.span.begin = nanoseconds(ProfileClock::now());
}

void StepProfile::add_part(std::string_view name, const TimeSpan& span) {
  now_.parts.push_back({name, span_of(span)});
}

void StepProfile::ran(int32_t op, const TimeSpan& span) {
  now_.ops.push_back({op, span_of(span)});
}

void StepProfile::copied(int32_t op, const TimeSpan& span) {
  const std::lock_guard lock(copies_mutex_);
  now_.copies.push_back({op, span_of(span)});
}

void StepProfile::end_step() {
  now_.span.end = nanoseconds(ProfileClock::now());
  steps_.push_back(std::exchange(now_, {}));
  ++done_;
}

void StepProfile::drop_step() {
  now_ = {};
}

void StepProfile::write_when_complete() {
  if (done_ != options_.steps || std::exchange(tried_, true)) return;
  try {
    write();
  } catch (const UserError&) {  // tried again when the run ends, which then reports it: steps need not be lost for it
  }
}

int64_t StepProfile::write() {
  if (!written_ && done_ > 0) {
    if (exchange_)
      write_profile_of_ranks(options_.file, title_, steps_, *exchange_);
    else
      write_profile(options_.file, title_, steps_);
    written_ = true;
    steps_ = {};
  }
  return done_;
}

}  // namespace plimsoll
