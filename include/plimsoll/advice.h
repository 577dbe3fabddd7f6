// What would make a job fit that does not: changes of it, each planned and not guessed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/train_job.h"

namespace plimsoll {

/// A change of a job that does not fit, and what it comes to.
struct Advice {
  std::vector<std::string> overrides;  ///< of its file, as read_job takes them: "data.sequence_length=512"
  std::string meaning;                 ///< what they do, in words: "half the tokens of a sequence"
  int64_t peak_bytes = 0;              ///< of the plan; where there is none yet, what it needs at least
  double step_seconds = 0;  ///< predicted; at most, as the search ends with the first plan that fits. 0: not known yet,
                            ///< as that it fits is known before any plan, and the search ended there
  double tokens_per_second = 0;
};

/// The overrides as they are typed, with quotes for a shell where one would take them apart.
std::string change_of(const Advice& advice);

/// Where changes_that_fit() stands.
struct AdviceProgress {
  int64_t planned = 0;    ///< changes
  int64_t found = 0;      ///< of these that fit
  std::string change;     ///< that is planned now, as it is typed
  int64_t schedules = 0;  ///< that were worked out for it so far
};

/// Limits of the search for changes that make a job fit.
struct AdviceOptions {
  size_t most = 4;  ///< changes to find
  /// The target with the device's own budget, where the job's own is less: to leave that out is tried first.
  std::optional<PlanTarget> without_own_budget;
  /// Asked before each change and each schedule; where it says false the search ends with what it has. Empty: it runs
  /// until it has found enough or tried all.
  std::function<bool(const AdviceProgress&)> go_on;
};

/// Result of the search for changes that make a job fit.
struct AdviceSearch {
  std::vector<Advice> found;      ///< what costs least of the model's quality first
  int64_t planned = 0;            ///< changes that were planned, in whole
  std::vector<std::string> left;  ///< worth a try, as they are typed, and not planned any more, the likeliest first
  bool ended_early = false;       ///< by go_on
};

/// Changes that make the job fit, what costs least first: choices left to the planner, then precision, the type of
/// weights, optimizer state and sums of gradients in fewer bits, frozen weights in blocks of few bits, an adapter's
/// rank, fewer or smaller samples, host memory, another optimizer, a smaller model; and twos and threes of them. Which
/// of them could do is estimated from the bytes of `as_it_is`, the job's plan, which does not fit; those are planned,
/// and only what was planned and fits is told. None holds what another one does without. `file` and `overrides` are
/// the job's, as read_job takes them. Throws UserError as plan_job does for the job itself.
AdviceSearch changes_that_fit(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                              const PlanTarget& target, const PlannedJob& as_it_is, const AdviceOptions& options = {});

}  // namespace plimsoll
