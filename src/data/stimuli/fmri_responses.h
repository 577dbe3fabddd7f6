// Declares the steps from a scanner's values to a model's targets (drift removed, every voxel on one scale), and a
// baseline of held-out volumes without learning.
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

/// Pearson's correlation of predicted and measured values over samples, as the metric `correlation`.
class VoxelCorrelation {
 public:
  explicit VoxelCorrelation(int64_t voxels);
  void add(const std::vector<double>& predicted, const double* measured);
  /// Returns the mean over the voxels; a voxel whose predictions or measured values are constant counts as 0.
  double mean() const;

 private:
  double samples_ = 0;
  std::vector<double> x_, y_, xx_, yy_, xy_;  // sums of each voxel
};

/// Predicts each of `held_out` by the mean of the volumes of `train` with the same label. Returns the mean over the
/// voxels of Pearson's correlation of predicted and measured values over `held_out`; it is 0 if one of them is
/// constant. `label` is each volume's label.
double label_mean_correlation(const FmriSeries& series, const std::vector<int64_t>& label, const Volumes& train,
                              const Volumes& held_out);

}  // namespace plimsoll
