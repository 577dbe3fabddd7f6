// Formats the effective batch as text: the samples of a step, whichever keys of the job file set them. Formats the
// number of parameters.
#pragma once

#include <string>

#include "plimsoll/train_job.h"

namespace plimsoll::cli {

/// Returns "effective batch 32: micro batch 16 x 2". With a schedule it has later epochs too: "effective batch 40:
/// micro batch 10 x 4; from epoch 4 on 20 (x 2), from epoch 8 on 10 (x 1)". With several devices it is "effective batch
/// 256: micro batch 16 x 2 x 8 devices".
std::string describe_effective_batch(const ResolvedSettings& settings);

/// Returns the samples of a step of the first epoch, on all devices together.
int64_t effective_batch_of(const ResolvedSettings& settings);

/// Returns "124.2 M" for a model that is trained whole, "24.6 k of 124.2 M" if a part is, or adapters are, and "70.6 G,
/// 8.8 G on a rank" if ranks store slices.
std::string describe_parameters(const ResolvedSettings& settings);

}  // namespace plimsoll::cli
