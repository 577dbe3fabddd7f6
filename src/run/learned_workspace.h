// Scratch that kernels turned out to take, by what determines it: the operator and its operands' shapes.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "device/backend.h"
#include "plimsoll/plan.h"

namespace plimsoll {

/// What probing may always take for one op's operands, however small the step is.
constexpr int64_t kProbedBytes = int64_t{64} << 20;

class LearnedWorkspace {
 public:
  /// `base` is asked for operators that nothing was learned about.
  explicit LearnedWorkspace(WorkspaceModel base) : base_(std::move(base)) {}

  /// True if this is more than was known.
  bool learn(const Op& op, int64_t bytes);

  /// The most that other threads than the one that runs an op took at a time, elsewhere: it cannot lie in the arena.
  int64_t beside_bytes() const { return beside_bytes_; }
  /// True if this is more than was known.
  bool learn_beside(int64_t bytes);

  /// Runs an op, whose operands, results and scratch by rule take `bytes`, by calling `run_op`. Returns false if it did
  /// not run the op, or the op failed because of a limit.
  using RunOp = std::function<bool(const Op& op, int64_t bytes, const std::function<void()>& run_op)>;
  struct Probed {
    bool learned = false;  ///< an op took more than was known: a plan made before is wrong
    int64_t refused = 0;   ///< distinct ops that `run` refused, and larger ones without a rule
  };
  /// Runs every distinct op of `trace` once, apart from everything, on zeros. Ops whose operands take more than `bytes`
  /// and ops that `run` refuses are left to the first step; empty `run`: it refuses none.
  Probed probe(const Trace& trace, int64_t bytes, Backend& backend, const RunOp& run = {});

  /// Everything learned, as text for other ranks. merge() takes the larger of each figure and returns whether any was
  /// larger than known here; InternalError if `text` is not of text().
  std::string text() const;
  bool merge(std::string_view text);

  WorkspaceModel model() const;

 private:
  static std::string key_of(const Op& op);
  WorkspaceModel base_;
  std::map<std::string, int64_t> bytes_;
  int64_t beside_bytes_ = 0;
};

}  // namespace plimsoll
