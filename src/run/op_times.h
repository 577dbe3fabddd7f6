// How long ops take on this machine: each distinct one is run a few times, apart from any training.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>

#include "ops/processor.h"
#include "plimsoll/cost_model.h"
#include "plimsoll/trace.h"

namespace plimsoll {

int64_t unix_seconds_now();

/// What an op's time depends on: its operator, its constants, and its operands' types, sizes and strides.
std::string timing_key(const Op& op);

/// How ops are timed: the machine's own clock and kernels, or what a test makes up.
struct OpTimer {
  std::function<double(const Trace&, const Op&)>
      try_op;                        ///< seconds of one run; throws UserError if the op refuses zeros
  std::function<double()> now;       ///< seconds of a steady clock
  std::function<void(double)> wait;  ///< for so many seconds
};
OpTimer machine_op_timer();

class OpTimes {
 public:
  /// `threads` CPU threads. Times of other thread counts, and of other processors, are others.
  explicit OpTimes(int threads, OpTimer timer = machine_op_timer()) : threads_(threads), timer_(std::move(timer)) {}

  /// Times the distinct ops of `trace` that are not known yet, were contradicted, or were timed before `since` (Unix
  /// time, seconds), cheapest first as `estimate` has it, until `seconds` are spent; those for which it expects more
  /// than a tenth of that are left out. Each is tried in rounds through all of them, so that its tries lie apart, until
  /// two agree (base/agreed_tries.h): on a busy machine a try may be ten times too long, and so may those right after
  /// it. Where time runs out before they do the least counts until the next call, which tries again. Takes memory for
  /// one op's operands at a time, `bytes` at most. Gives how many it timed.
  int measure(const Trace& trace, const CostModel& estimate, double seconds, int64_t bytes, int64_t since = 0);

  /// Seconds of one run, or nothing if the op is not known or its time was contradicted.
  std::optional<double> find(const Op& op) const;
  size_t size() const { return times_.size(); }

  /// A run has shown that predictions which the times of these ops went into are wrong. Gives how many are not known
  /// any more from here on.
  int contradict(const Trace& trace);
  /// Ops of `trace` whose times were contradicted and have not been made again.
  int contradicted(const Trace& trace) const;

  /// A file of what was measured on this machine. A file that is missing, damaged or of another processor or libtorch
  /// is nothing known; what cannot be written is lost, not an error.
  void load(const std::filesystem::path& file);
  void save(const std::filesystem::path& file) const;

 private:
  struct Timing {
    double seconds = 0;
    int64_t when = 0;  // Unix time, seconds
    enum class State : int8_t { agreed, single, contradicted } state = State::single;
  };

  int threads_;
  OpTimer timer_;
  std::unordered_map<std::string, Timing> times_;
};

}  // namespace plimsoll
