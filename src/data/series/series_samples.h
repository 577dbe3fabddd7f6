// Labelled series as samples: normalised, thinned out, in the order of time or along a Hilbert curve.
#pragma once

#include <cstdint>
#include <memory>

#include "data/sample_source.h"
#include "plimsoll/sample_data.h"

namespace plimsoll {

/// What a model expects of the series.
struct SeriesShape {
  int64_t channels = 0;
  int64_t classes = 0;
};

/// The series of config.files, and those held out of config.series.validation_files or, without these, the share
/// config.validation_fraction of them, evenly spaced; the same of test_files and test_fraction. Split::validation is
/// the part that config.evaluate_on names; files of the other part are not read. Channels have mean 0 and deviation 1
/// over what is trained on.
///
/// A sample is "vectors", float32 [V, channels + 1] with V = config.series.vectors(), whose last number is the vector's
/// time (mean 0, deviation 1 over a whole series), and "labels", int64. Which V of a series' vectors it has depends in
/// training on the seed, the epoch and the series alone; held out they are evenly spaced.
/// Baselines are those of series_baselines() on whole normalised series. Throws UserError for files that cannot be read
/// and series that are not of that shape.
std::unique_ptr<SampleSource> series_samples(const DataConfig& config, const SeriesShape& shape, uint64_t seed);

}  // namespace plimsoll
