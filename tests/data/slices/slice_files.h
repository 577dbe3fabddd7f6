// Declares a small volume with labels for tests of slices: two boxes, brighter than their surroundings.
#pragma once

#include <string>
#include <vector>

#include "files/nifti_files.h"
#include "plimsoll/sample_data.h"
#include "test_files.h"

namespace plimsoll {

/// Sizes x, y, z of the boxes' volumes.
constexpr int64_t kBoxSide = 24, kBoxSlices = 30;

/// Draws box 1 (label 5) on the left and box 2 (label 9) on the right, from z = 2 on. Both move and grow with z.
inline int box_at(int64_t x, int64_t y, int64_t z) {
  if (z < 2) return 0;
  const int64_t wander = z % 7, height = 4 + z / 5;
  if (x >= 3 && x < 9 && y >= 3 + wander && y < 3 + wander + height) return 5;
  if (x >= 14 && x < 20 && y >= 9 - wander && y < 9 - wander + height) return 9;
  return 0;
}

/// Writes image.nii, labels.nii and names.txt, and returns a job's data with them.
inline DataConfig box_slices(const TempFolder& folder) {
  std::vector<float> image;
  std::vector<uint8_t> labels;
  for (int64_t z = 0; z < kBoxSlices; ++z)
    for (int64_t y = 0; y < kBoxSide; ++y)
      for (int64_t x = 0; x < kBoxSide; ++x) {
        const int label = box_at(x, y, z);
        labels.push_back(static_cast<uint8_t>(label));
        image.push_back(static_cast<float>((label == 5 ? 60 : label == 9 ? 100 : 10) + (x * 7 + y * 3 + z) % 5));
      }
  constexpr auto side = static_cast<int16_t>(kBoxSide);
  constexpr std::array<int16_t, 3> sizes = {side, side, static_cast<int16_t>(kBoxSlices)};
  DataConfig config;
  config.type = "slices";
  config.files = {put_file(folder / "image.nii", nifti_bytes(NiftiType::float32, sizes, image))};
  config.slices.labels = {put_file(folder / "labels.nii", nifti_bytes(NiftiType::uint8, sizes, labels))};
  config.slices.label_names = put_file(folder / "names.txt", "5 left box\n9 right box\n");
  config.slices.min_pixels = 4;
  config.slices.validation_block = 3;
  config.slices.validation_gap = 1;
  config.validation_fraction = 0.2;
  return config;
}

}  // namespace plimsoll
