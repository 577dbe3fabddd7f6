// How long ops take on this machine: each distinct one is run a few times, apart from any training.
#pragma once

#include <filesystem>
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

class OpTimes {
 public:
  /// `threads` CPU threads. Times of other thread counts, and of other processors, are others.
  explicit OpTimes(int threads) : threads_(threads) {}

  /// Times the distinct ops of `trace` that are not known yet, or were timed before `since` (Unix time, seconds),
  /// cheapest first as `estimate` has it, until `seconds` are spent; those for which it expects more than a tenth of
  /// that are left out. Takes memory for one op's operands at a time, `bytes` at most. Gives how many it timed.
  int measure(const Trace& trace, const CostModel& estimate, double seconds, int64_t bytes, int64_t since = 0);

  /// Seconds of one run, or nothing if the op is not known.
  std::optional<double> find(const Op& op) const;
  size_t size() const { return times_.size(); }

  /// A file of what was measured on this machine. A file that is missing, damaged or of another processor or libtorch
  /// is nothing known; what cannot be written is lost, not an error.
  void load(const std::filesystem::path& file);
  void save(const std::filesystem::path& file) const;

 private:
  int threads_;
  struct Timing {
    double seconds = 0;
    int64_t when = 0;  // Unix time, seconds
  };
  std::unordered_map<std::string, Timing> times_;
};

}  // namespace plimsoll
