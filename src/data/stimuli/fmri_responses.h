// Declares the steps from a scanner's values to a model's targets: drift removed, every voxel on one scale.
#pragma once

#include <cstdint>
#include <vector>

#include "data/stimuli/fmri_series.h"

namespace plimsoll {

/// Volumes of a series, by number.
using Volumes = std::vector<int64_t>;

/// Subtracts each voxel's mean from every run, and with `line` also its best-fitting line, both from the volumes of the
/// run alone. `run` is each volume's run, never decreasing. Only `usable` volumes are read and changed.
void detrend(FmriSeries& series, const std::vector<int64_t>& run, const std::vector<char>& usable, bool line);

/// Gives each voxel mean 0 and deviation 1 over the volumes `over`, and scales all volumes by the same numbers. Voxels
/// that are constant over them become 0.
void standardize(FmriSeries& series, const Volumes& over);

}  // namespace plimsoll
