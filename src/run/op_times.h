// Declares measurements of ops before the start: the scratch that they allocate and the seconds that they take.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "device/backend.h"
#include "ops/cpu_capability.h"
#include "plimsoll/cost_model.h"
#include "plimsoll/plan.h"
#include "plimsoll/planner.h"
#include "run/step_trial.h"

namespace plimsoll {

int64_t unix_seconds_now();

/// Returns the key of an op's time: its operator, its constants, and its operands' types, sizes and strides.
std::string timing_key(const Op& op);

/// A function that returns the seconds of one run of an op whose operands were touched at these distances
/// (run/operand_caches.h). It throws UserError if the op refuses zeros.
using OpTimer = std::function<double(const Trace&, const Op&, std::span<const int64_t> distances)>;

/// Returns the timer that runs an op on zeros and reads measuring_machine().
OpTimer machine_op_timer();

class OpTimes {
 public:
  /// Times for `threads` CPU threads. Other thread counts and other processors have other times.
  explicit OpTimes(int threads, OpTimer timer = machine_op_timer()) : threads_(threads), timer_(std::move(timer)) {}

  /// Times the distinct ops of a plan that are not known, were contradicted, or were timed before `since` (Unix time,
  /// seconds). Ops run cheapest first by `estimate`, until `seconds` are spent; an op whose first try is
  /// estimated at more than a quarter of `seconds` is skipped. Tries are made in rounds through all ops, so that the
  /// tries of one op are spread over time, until the two shortest agree (base/measurement.h); their mean is the op's
  /// time. On a busy machine a try may be ten times too long, and so may those right after it. If time runs out before
  /// two tries agree, the smallest one holds until the next call, which tries again. Allocates the operands of one op
  /// at a time, at most `bytes`. Returns the number of ops that it timed.
  int measure(const Plan& plan, const CostModel& estimate, double seconds, int64_t bytes, int64_t since = 0);

  /// Records the seconds of each op in steps (run/step_trial.h), by index, as times of now: of equal ops the mean over
  /// their runs in a step. Ops whose times agreed since `since` keep them. Returns the number of distinct ops recorded.
  int record(const Trace& trace, const std::vector<OpInStep>& in_steps, int64_t since = 0);

  /// Returns whether a step of this shape runs an op that is not known, was contradicted, or was timed before `since`.
  bool lacks(const Trace& trace, const StepShape& shape, int64_t since = 0) const;

  /// Returns the seconds of one run; nullopt if the op is not known or its time was contradicted.
  std::optional<double> find(const Op& op) const;
  size_t size() const { return times_.size(); }

  /// Marks the times of the ops of `trace` as contradicted: a run has shown that predictions based on them are wrong.
  /// Returns the number of ops whose time is not known any more.
  int invalidate(const Trace& trace);
  /// Returns the number of ops of `trace` whose times were contradicted and have not been measured again.
  int invalidated(const Trace& trace) const;

  /// Load and save a file of this machine's measurements. A file that is missing, damaged, or of another processor or
  /// libtorch loads as empty; a failed save is no error.
  void load(const std::filesystem::path& file);
  void save(const std::filesystem::path& file) const;

 private:
  struct Timing {
    double seconds = 0;
    int64_t when = 0;  // Unix time, seconds
    enum class State : int8_t { agreed, single, stale } state = State::single;
  };

  // Returns whether there is a time that needs no other try.
  bool is_known(const std::string& key, int64_t since) const;
  // Returns the keys of the known ops of `trace` whose times were contradicted (`stale`), or were not.
  std::set<std::string> keys_of(const Trace& trace, bool stale) const;

  int threads_;
  OpTimer timer_;
  std::unordered_map<std::string, Timing> times_;
};

/// Bytes that probing may always allocate for one op's operands, however small the step is.
constexpr int64_t kProbedBytes = int64_t{64} << 20;

class MeasuredWorkspace {
 public:
  /// `base` answers for operators that were not measured.
  explicit MeasuredWorkspace(WorkspaceModel base) : base_(std::move(base)) {}

  /// Records the scratch of `op`. Returns true if `bytes` is more than was known.
  bool record(const Op& op, int64_t bytes);

  /// Returns the largest number of bytes that threads other than the op's allocated at one time. They cannot be placed
  /// in the arena.
  int64_t other_thread_bytes() const { return other_thread_bytes_; }
  /// Records bytes that other threads allocated. Returns true if `bytes` is more than was known.
  bool record_other_thread_bytes(int64_t bytes);

  /// Runs an op by calling `run_op`; its operands, results and scratch by rule take `bytes`. Returns false if it did
  /// not run the op, or if the op failed because of a limit.
  using RunOp = std::function<bool(const Op& op, int64_t bytes, const std::function<void()>& run_op)>;
  struct Probed {
    bool found_more = false;  ///< an op allocated more than was known: a plan made before is wrong
    int64_t refused = 0;      ///< number of distinct ops that `run` refused, and of larger ops without a rule
  };
  /// Runs every distinct op of `trace` once, by itself, on zeros. Ops whose operands take more than `bytes`, and ops
  /// that `run` refuses, are left to the first step. An empty `run` refuses none.
  Probed probe(const Trace& trace, int64_t bytes, Backend& backend, const RunOp& run = {});

  /// text() returns all measurements as text for other ranks. merge() keeps the larger of each figure and returns true
  /// if any was larger than known here. Throws InternalError if `text` is not from text().
  std::string text() const;
  bool merge(std::string_view text);

  WorkspaceModel model() const;

 private:
  static std::string key_of(const Op& op);
  WorkspaceModel base_;
  std::map<std::string, int64_t> bytes_;
  int64_t other_thread_bytes_ = 0;
};

}  // namespace plimsoll
