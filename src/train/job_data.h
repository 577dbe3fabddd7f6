// Opens a job's samples.
#pragma once

#include <functional>
#include <memory>

#include "data/sample_source.h"
#include "plimsoll/job.h"
#include "plimsoll/training.h"

namespace plimsoll {

/// Called while data are opened, with the slow operation and its progress in [0, 1]. It may throw to stop it.
using DataProgress = std::function<void(const std::string& what, double fraction)>;

/// Opens the samples of a job whose model takes `step`; data.type is not text. Throws UserError for files that cannot
/// be read, and for samples that do not match the step's inputs.
std::unique_ptr<SampleSource> open_samples(const Job& job, const Step& step, const DataProgress& progress);

}  // namespace plimsoll
