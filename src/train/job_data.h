// A job's samples, opened.
#pragma once

#include <functional>
#include <memory>

#include "data/sample_source.h"
#include "plimsoll/job.h"
#include "plimsoll/training.h"

namespace plimsoll {

/// What takes long while data are opened, and how far it is in [0, 1]. May throw to stop it.
using DataProgress = std::function<void(const std::string& what, double fraction)>;

/// The samples of a job whose model takes `step`; data.type is not text. Throws UserError for files that cannot be read
/// and for samples that are not what the step's inputs are.
std::unique_ptr<SampleSource> open_samples(const Job& job, const Step& step, const DataProgress& progress);

}  // namespace plimsoll
