// Declares what a run says when it gives up because steps are skipped: a gradient was not finite.
//
// Two causes look alike from the last steps. After sound steps, which were taken with a finite loss, the run has
// diverged, and a lower learning rate helps. If no step was sound, the initial parameters and the data are the cause,
// and the learning rate had no effect. The message then has the facts of the first step instead.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "data/batch.h"
#include "plimsoll/options.h"

namespace plimsoll {

/// The first step of a run, if it was skipped or its loss is not finite.
struct FirstBadStep {
  int64_t step = 0;
  double loss = 0, gradient_norm = 0;
  std::vector<std::pair<std::string, double>> gradient_norms;  ///< Training::gradient_norms()
  int64_t position = 0;                                        ///< first window of the step, over all epochs
  int64_t windows = 0;                                         ///< windows of the step
};

/// The samples of a step in which an input is constant or not finite.
struct InputFact {
  std::string input;                 ///< name of the input: "image"
  bool finite = true;                ///< false: values are not finite. true: the sample is constant
  std::string value;                 ///< the constant of all these samples; "": they differ, or are not finite
  int64_t samples = 0;               ///< number of these samples
  std::vector<std::string> names{};  ///< their names in the order of the batch, each once; empty if they have none
};

/// Adds the facts of the floating-point inputs of `batch` to `facts`. A sample is constant in an input if each channel
/// has one value: pixels of "image", frames of "frames", and vectors of "vectors" without their time. Inputs of one
/// number a sample have no facts. `name_of` returns the name of a sample by its index in the batch, or "".
void add_input_facts(const Batch& batch, const std::function<std::string(int64_t sample)>& name_of,
                     std::vector<InputFact>& facts);

/// Returns the message for a run in which steps were taken before its last `skipped` steps, up to `step`, were skipped.
/// `saved_step`: step of the last checkpoint; 0: there is none.
std::string describe_divergence(int64_t skipped, int64_t step, int64_t saved_step);

/// Numbers of steps of a run.
struct StepCounts {
  int64_t skipped = 0, steps = 0;  ///< steps that were skipped, of all steps
};

/// Returns the message for a run in which no step was sound: all were skipped, or had a loss that is not finite.
std::string describe_no_step(const StepCounts& counts, const FirstBadStep& first, const std::vector<InputFact>& facts,
                             Precision precision);

}  // namespace plimsoll
