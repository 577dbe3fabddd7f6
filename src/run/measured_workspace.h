// Declares the measured scratch of kernels, by operator and operand shapes, which determine it.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "device/backend.h"
#include "plimsoll/planner.h"

namespace plimsoll {

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
