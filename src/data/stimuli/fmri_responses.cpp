#include "data/stimuli/fmri_responses.h"

#include <algorithm>
#include <cmath>

#include "plimsoll/error.h"

namespace plimsoll {
namespace {

float* row(FmriSeries& series, int64_t volume) {
  return series.values.data() + volume * series.voxels;
}

// Share of a mean square up to which a variance is rounding error: single precision changes a constant by at most 2^-24
// of it.
constexpr double kRounding = 1e-12;

}  // namespace

void detrend(FmriSeries& series, const std::vector<int64_t>& run, const std::vector<char>& usable, bool line) {
  const auto voxels = static_cast<size_t>(series.voxels);
  for (int64_t begin = 0; begin < series.volumes;) {
    const int64_t of = run[static_cast<size_t>(begin)];
    Volumes volumes;
    int64_t end = begin;
    for (; end < series.volumes && run[static_cast<size_t>(end)] == of; ++end)
      if (usable[static_cast<size_t>(end)]) volumes.push_back(end);
    begin = end;
    if (volumes.empty()) continue;
    const auto count = static_cast<double>(volumes.size());
    double middle = 0, spread = 0;
    for (int64_t v : volumes) middle += static_cast<double>(v) / count;
    for (int64_t v : volumes) spread += (static_cast<double>(v) - middle) * (static_cast<double>(v) - middle);
    std::vector<double> mean(voxels, 0.0), slope(voxels, 0.0), before(voxels, 0.0), after(voxels, 0.0);
    for (int64_t v : volumes)
      for (size_t i = 0; i < voxels; ++i) mean[i] += static_cast<double>(row(series, v)[i]) / count;
    if (line && spread > 0)
      for (int64_t v : volumes)
        for (size_t i = 0; i < voxels; ++i)
          slope[i] += (static_cast<double>(v) - middle) * (static_cast<double>(row(series, v)[i]) - mean[i]) / spread;
    for (int64_t v : volumes)
      for (size_t i = 0; i < voxels; ++i) {
        const auto value = static_cast<double>(row(series, v)[i]);
        const double left = value - mean[i] - slope[i] * (static_cast<double>(v) - middle);
        row(series, v)[i] = static_cast<float>(left);
        before[i] += value * value;
        after[i] += left * left;
      }
    // The rounding error of a constant or of a line is no signal, and differs in every run.
    for (int64_t v : volumes)
      for (size_t i = 0; i < voxels; ++i)
        if (after[i] <= kRounding * before[i]) row(series, v)[i] = 0;
  }
}

void standardize(FmriSeries& series, const Volumes& over) {
  check(!over.empty(), "voxels are standardized over at least one volume");
  const auto voxels = static_cast<size_t>(series.voxels);
  const auto count = static_cast<double>(over.size());
  std::vector<double> mean(voxels, 0.0), variance(voxels, 0.0);
  for (int64_t v : over)
    for (size_t i = 0; i < voxels; ++i) mean[i] += static_cast<double>(row(series, v)[i]) / count;
  for (int64_t v : over)
    for (size_t i = 0; i < voxels; ++i) {
      const double deviation = static_cast<double>(row(series, v)[i]) - mean[i];
      variance[i] += deviation * deviation / count;
    }
  for (int64_t v = 0; v < series.volumes; ++v)
    for (size_t i = 0; i < voxels; ++i) {
      // The rounding error of a constant is no signal.
      const bool constant = variance[i] <= kRounding * mean[i] * mean[i];
      float& value = row(series, v)[i];
      value = constant ? 0 : static_cast<float>((static_cast<double>(value) - mean[i]) / std::sqrt(variance[i]));
    }
}

}  // namespace plimsoll
