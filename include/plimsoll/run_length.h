// Declares the length of a run: epochs, optimizer steps and the learning-rate schedule as one calculation.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "plimsoll/job.h"

namespace plimsoll {

/// The length of a whole run, the steps before a resume included.
struct RunLength {
  int64_t steps = 0;                            ///< optimizer steps
  std::optional<int64_t> samples = {};          ///< training samples of an epoch; empty: not known yet
  std::optional<int64_t> steps_of_epochs = {};  ///< steps until the end of max_epochs; empty: none, or not known yet
  int64_t schedule_steps = 0;  ///< steps that the learning rate's schedule is computed for: scheduler.steps, or `steps`
  int64_t warmup_steps = 0;    ///< from scheduler.warmup_steps or scheduler.warmup_ratio

  /// Returns whether the end of max_epochs ends the run, and not max_steps.
  bool ends_with_epochs() const { return steps_of_epochs && *steps_of_epochs == steps; }
};

/// Returns max_steps, or what counts without it: no limit if max_epochs is set, else kDefaultMaxSteps.
std::optional<int64_t> step_limit_of(const Job& job);

/// Returns the sequences that all devices read in a step of epoch `epoch`. job.batch_size must be set.
int64_t sequences_of_step(const Job& job, int64_t epoch);

/// Returns the length of the job's run over `samples` training samples an epoch. A step may read samples of two epochs;
/// the run ends with the first step after which max_epochs are read. nullopt: `samples` is empty, and max_epochs alone
/// limits the run. If max_epochs may end it before max_steps and `samples` is empty, steps is max_steps. Throws
/// UserError if max_epochs are more steps than max_steps may be.
std::optional<RunLength> run_length_of(const Job& job, std::optional<int64_t> samples);

/// Returns the number of training samples if it is known without reading data: of synthetic data, and of text that is
/// tokenized already or whose tokens are its bytes. nullopt: reading decides it, or the files are missing or wrong.
std::optional<int64_t> known_training_samples(const Job& job);

/// Looks at the files of text before a plan is made, and reads the first bytes of each. Throws UserError for a file
/// that cannot be read or is no text, and for text that is known to have less than one window to train on. Returns if a
/// file is missing (missing_data()), and for other types of data.
void look_at_data(const Job& job);

/// Returns a human-readable line: "1187 steps an epoch x 3 = 3561; warm-up 20, cosine until step 3561". `length`: of
/// run_length_of(job, ...).
std::string describe_run_length(const Job& job, const std::optional<RunLength>& length);

}  // namespace plimsoll
