// Defines the keys of `data.type: stimuli`.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "job/keys/key_kinds.h"
#include "job/keys/kinds.h"
#include "job/keys/shared_data_keys.h"

namespace plimsoll {

inline StimuliConfig& part(Job& job, StimuliConfig*) {
  return job.data.stimuli;
}

}  // namespace plimsoll

namespace plimsoll::job {
namespace {

constexpr NumberRange kSeconds{.min = 0, .max = 3600};
constexpr IntegerRange kDelay{0, 1000};

void check_stimuli(const Job& job, const KeyLocations& locations) {
  const StimuliConfig& stimuli = job.data.stimuli;
  if (stimuli.fmri.empty())
    refuse(locations.of({"data.type"}),
           "data.fmri is missing; name the series to learn from, for example data.fmri: bold.nii.gz or data.fmri: "
           "regions.csv");
  const auto needs = [&](const char* key, const std::filesystem::path& path, const char* other,
                         const std::filesystem::path& wanted, const char* what) {
    if (!path.empty() && wanted.empty())
      refuse(locations.of({key}), fmt::format("{} is given, and {} is not: {}", key, other, what));
  };
  if (stimuli.text_features.empty())
    needs("data.texts", stimuli.texts, "data.text_embeddings", stimuli.text_embeddings,
          "a safetensors file with a vector for each label");
  needs("data.text_embeddings", stimuli.text_embeddings, "data.texts", stimuli.texts, "a line a volume: label, run");
  const auto not_both = [&](const char* key, const std::filesystem::path& path, const char* other,
                            const std::filesystem::path& also) {
    if (!path.empty() && !also.empty())
      refuse(locations.of({key, other}),
             fmt::format("{} and {} are both given, and say the same; remove one of them", key, other));
  };
  not_both("data.text_features", stimuli.text_features, "data.text_embeddings", stimuli.text_embeddings);
  not_both("data.pictures", stimuli.pictures, "data.videos", stimuli.videos);
  check_held_out(job, locations);
}

}  // namespace

DataKind stimuli_kind() {
  using S = StimuliConfig;
  DataKind kind{
      .type = "stimuli",
      .meaning = "volumes of an fMRI series, and the video, sound and words before each; whole runs are held out",
      .keys =
          {
              path("data.fmri", &S::fmri, "(required)",
                   "fMRI series: NIfTI (.nii, .nii.gz), a table (.csv) with a line per time point and a number per "
                   "region, or NumPy (.npy): [volumes, voxels] or [x, y, z, volumes]"),
              path("data.fmri_mask", &S::mask, "(none)",
                   "mask on the grid of data.fmri (NIfTI, or .npy for .npy): its voxels that are not 0 are used; none: "
                   "the voxels that vary over time"),
              integer("data.fmri_delay", &S::delay, kDelay, "delay in volumes from a stimulus to its response"),
              word("data.fmri_detrend", &S::detrend, {"none", "mean", "linear"},
                   "trend that is subtracted from each voxel in every run: its mean, or the line that fits it best"),
              number("data.repetition_time", &S::repetition_time, kSeconds,
                     "seconds from volume to volume; 0: as in the file of the series"),
              path("data.texts", &S::texts, "(none)",
                   "file with a line per volume: the label of the stimulus and the run; none: one run, without words"),
              path("data.text_embeddings", &S::text_embeddings, "(none)",
                   "safetensors file with a vector for each label: float32 [model.text.features]"),
              path("data.videos", &S::videos, "(none)",
                   "video of the whole series, or a folder with a clip for each label (face.mp4), repeated while the "
                   "label lasts; none: black and silence"),
              path("data.text_features", &S::text_features, "(none)",
                   "computed features instead of data.text_embeddings: a .npy file of [volumes, model.text.features]"),
              path("data.audio_features", &S::audio_features, "(none)",
                   "mel features instead of the videos' sound: a .npy file of [n x volumes, model.audio.mels]"),
              path("data.pictures", &S::pictures, "(none)",
                   "frames instead of data.videos: a .npy file of [n x volumes, size, size, 3], bytes or numbers from "
                   "-1 to 1; "
                   "size is model.video.size"),
              path("data.cache_dir", &DataConfig::cache_dir, ".plimsoll-cache",
                   "folder of cached decoded pictures and sound, relative to the job file"),
          },
      .check = check_stimuli,
      .paths = [](Job& job) -> std::vector<DataPath> {
        S& stimuli = job.data.stimuli;
        return {{"data.fmri", &stimuli.fmri},
                {"data.fmri_mask", &stimuli.mask},
                {"data.texts", &stimuli.texts},
                {"data.text_embeddings", &stimuli.text_embeddings},
                {"data.videos", &stimuli.videos},
                {"data.text_features", &stimuli.text_features},
                {"data.audio_features", &stimuli.audio_features},
                {"data.pictures", &stimuli.pictures}};
      },
      .origin =
          [](const Job& job) {
            const StimuliConfig& stimuli = job.data.stimuli;
            const std::filesystem::path none;
            return std::vector<Setting>{{"data.test_fraction", job.data.test_fraction, 0.0},
                                        {"data.fmri", stimuli.fmri},
                                        {"data.fmri_mask", stimuli.mask},
                                        {"data.fmri_delay", stimuli.delay},
                                        {"data.fmri_detrend", stimuli.detrend},
                                        {"data.texts", stimuli.texts},
                                        {"data.text_embeddings", stimuli.text_embeddings},
                                        {"data.videos", stimuli.videos},
                                        {"data.text_features", stimuli.text_features, none},
                                        {"data.audio_features", stimuli.audio_features, none},
                                        {"data.pictures", stimuli.pictures, none}};
          },
      .uses_cache_folder = true,
  };
  std::ranges::move(held_out_keys(), std::back_inserter(kind.keys));
  return kind;
}

}  // namespace plimsoll::job
