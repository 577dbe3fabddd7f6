// From a scanner's numbers to what a model learns: drift taken out, every voxel on one scale; and what can be said of
// held-out volumes without learning.
#pragma once

#include <cstdint>
#include <vector>

#include "data/stimuli/fmri_series.h"

namespace plimsoll {

/// Volumes of a series, by number.
using Volumes = std::vector<int64_t>;

/// Takes each voxel's mean out of every run, and with `line` the line that fits it best as well, from the volumes of
/// the run alone. `run`: of each volume, never falling. Only `usable` volumes are looked at and changed.
void detrend(FmriSeries& series, const std::vector<int64_t>& run, const std::vector<char>& usable, bool line);

/// Gives each voxel mean 0 and deviation 1 over the volumes `over`, and changes all volumes alike; voxels that do not
/// vary over them become 0.
void standardise(FmriSeries& series, const Volumes& over);

/// Pearson's correlation of predicted and measured values over samples, as the metric `correlation` has it.
class VoxelCorrelation {
 public:
  explicit VoxelCorrelation(int64_t voxels);
  void add(const std::vector<double>& predicted, const double* measured);
  /// Returns the mean over the voxels; a voxel whose predictions or measured values do not vary counts as 0.
  double mean() const;

 private:
  double samples_ = 0;
  std::vector<double> x_, y_, xx_, yy_, xy_;  // sums of each voxel
};

/// Each of `held_out` predicted by the mean of those of `train` that have the same label: Pearson's correlation of
/// predicted and measured values over `held_out`, 0 where one does not vary; mean over the voxels. `label`: of each
/// volume.
double label_mean_correlation(const FmriSeries& series, const std::vector<int64_t>& label, const Volumes& train,
                              const Volumes& held_out);

}  // namespace plimsoll
