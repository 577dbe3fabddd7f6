// A series of volumes and its mask, as tables, arrays and NIfTI files; features of stimuli.
#include "data/series/fmri_series.h"
#include "data/series/stimulus_labels.h"
#include "fuzz.h"

using namespace plimsoll;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input = fuzz::text(data, size);
  const std::vector<std::string> part = fuzz::parts(input, 2);
  const bool array = part[0].starts_with("\x93NUMPY");
  const bool volume = part[0].starts_with(std::string_view("\x5c\x01\0\0", 4)) || part[0].starts_with("\x1f\x8b");
  const std::string ending = array ? ".npy" : volume ? ".nii" : ".csv";
  const std::filesystem::path file = fuzz::write("series" + ending, part[0]);
  std::filesystem::path mask;
  if (!part[1].empty()) mask = fuzz::write("mask" + (array ? std::string(".npy") : ".nii"), part[1]);
  fuzz::reads(input, [&] {
    const FmriSeries series = read_fmri(file, mask);
    fuzz::require(static_cast<int64_t>(series.values.size()) == series.volumes * series.voxels,
                  "a series of other values than its volumes'");
  });
  if (array)
    fuzz::reads(input, [&] {
      const StimulusFeatures features(file, "data.text_features", {3}, 2);
      for (double at = -1; at < 4; ++at)
        if (const int64_t row = features.row_at(at); row >= 0) features.number(row, 2);
    });
  return 0;
}
