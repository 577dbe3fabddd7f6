// Declares small pictures with masks for tests: a bright square and a dark one at random positions on noise.
#pragma once

#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "files/png_files.h"
#include "plimsoll/sample_data.h"
#include "test_files.h"

namespace plimsoll {

constexpr int64_t kSceneSide = 24;

/// Draws the bright square, value 5 in the mask, and the dark one, value 9.
struct Scene {
  std::vector<uint16_t> picture, mask;
};

inline Scene scene(uint32_t number) {
  std::mt19937 random(number);
  Scene made;
  const auto left = 1 + random() % 4, top = 1 + random() % 12, other_left = 13 + random() % 4,
             other_top = 1 + random() % 12;
  for (uint32_t y = 0; y < kSceneSide; ++y)
    for (uint32_t x = 0; x < kSceneSide; ++x) {
      const bool bright = x - left < 7 && y - top < 8, dark = x - other_left < 6 && y - other_top < 9;
      made.mask.push_back(bright ? 5 : dark ? 9 : 0);
      made.picture.push_back(static_cast<uint16_t>((bright ? 200 : dark ? 40 : 120) + random() % 30));
    }
  return made;
}

/// Writes `count` pictures and masks in folders, with their numbers as names, and returns a job's data with them. Only
/// `distinct` of them differ: picture i is scene i modulo `distinct`.
inline DataConfig scenes(const TempFolder& folder, uint32_t count, uint32_t distinct) {
  std::filesystem::create_directories(folder / "images");
  std::filesystem::create_directories(folder / "masks");
  for (uint32_t i = 0; i < count; ++i) {
    const Scene made = scene(i % distinct);
    const std::string name = "scene" + std::to_string(i) + ".png";
    put_file(folder / ("images/" + name), png(kSceneSide, kSceneSide, 8, kPngGray, made.picture));
    put_file(folder / ("masks/" + name), png(kSceneSide, kSceneSide, 4, kPngPalette, made.mask));
  }
  DataConfig config;
  config.type = "pictures";
  config.pictures.images = folder / "images";
  config.pictures.masks = folder / "masks";
  config.slices.label_names = put_file(folder / "names.txt", "5 bright square\n9 dark square\n");
  config.slices.min_pixels = 4;
  config.validation_fraction = 0.25;
  return config;
}

/// Writes `count` scenes that all differ.
inline DataConfig scenes(const TempFolder& folder, uint32_t count) {
  return scenes(folder, count, count);
}

}  // namespace plimsoll
