// Declares a small fMRI series with its stimuli for tests: labels, vectors, clips.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "files/media_files.h"
#include "files/nifti_files.h"
#include "plimsoll/sample_data.h"
#include "safetensors/safetensors.h"

namespace plimsoll {

/// Writes `runs` runs of 12 volumes, 2 seconds each, on a grid of 3 x 2: rest, then "bright" and "dark" for blocks of 3
/// volumes. Voxels follow the label of `delay` volumes before, with noise; the last voxel is outside of the mask.
struct StimuliFiles {
  static constexpr int64_t kVoxels = 5, kPerRun = 12, kFeatures = 4;

  StimuliFiles(const TempFolder& folder, int64_t runs, int64_t delay, bool clips) {
    std::mt19937 random(7);
    std::normal_distribution<float> noise(0, 0.3f);
    const char* names[] = {"rest", "bright", "dark"};
    std::string texts;
    std::vector<int> label;
    for (int64_t v = 0; v < runs * kPerRun; ++v) {
      label.push_back(static_cast<int>(v % kPerRun / 3 * (1 + v / kPerRun) % 3));
      texts += std::string(names[label.back()]) + " run" + std::to_string(v / kPerRun) + "\n";
      const int64_t shown = v % kPerRun >= delay ? v - delay : v;
      for (int i = 0; i < 6; ++i) {
        const float response = i == 5 ? 0 : static_cast<float>((label[static_cast<size_t>(shown)] + i) % 3);
        values.push_back(100 + static_cast<float>(i) + response + (i == 5 ? 0 : noise(random)));
      }
    }
    volumes = runs * kPerRun;
    config.type = "stimuli";
    config.validation_fraction = 0.25;
    config.cache_dir = folder / "cache";
    config.stimuli.delay = delay;
    config.stimuli.fmri = put_file(folder / "bold.nii", scan({3, 2, 1, static_cast<int16_t>(volumes)}, values));
    config.stimuli.mask = put_file(folder / "mask.nii", scan({3, 2, 1}, std::vector<int16_t>{1, 1, 1, 1, 1, 0}));
    config.stimuli.texts = put_file(folder / "labels.txt", texts);
    config.stimuli.text_embeddings = folder / "vectors.safetensors";
    SafetensorsWriter writer(config.stimuli.text_embeddings, {{"rest", DType::float32, {kFeatures}, {}},
                                                              {"bright", DType::float32, {kFeatures}, {}},
                                                              {"dark", DType::float32, {kFeatures}, {}}});
    for (int i = 0; i < 3; ++i) {
      std::vector<float> vector(kFeatures, -1);
      vector[static_cast<size_t>(i)] = 2;
      writer.write(names[i], std::as_bytes(std::span(vector)));
    }
    writer.commit();
    if (!clips) return;
    config.stimuli.videos = folder / "clips";
    std::filesystem::create_directories(config.stimuli.videos);
    // A picture every half second: white, then gray; 4 seconds are repeated.
    put_file(config.stimuli.videos / "bright.y4m", gray_video({255, 255, 255, 255, 128, 128, 128, 128}, 16, 16, 2));
    put_file(config.stimuli.videos / "dark.y4m", gray_video({40, 40}, 16, 16, 2));
  }

  DataConfig config;
  std::vector<float> values;  ///< [volumes, 6]
  int64_t volumes = 0;
};

}  // namespace plimsoll
