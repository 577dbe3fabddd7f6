#include "data/stimuli/stimulus_media.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/file_error.h"
#include "base/quoted.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

/// Finds the clip of each label in the folder; empty: it has none.
std::vector<std::filesystem::path> clips_in(const std::filesystem::path& folder, const StimulusLabels& labels) {
  std::vector<std::filesystem::path> clips(labels.names.size());
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const auto label = std::ranges::find(labels.names, entry->path().stem().string());
    if (label == labels.names.end()) continue;
    std::filesystem::path& clip = clips[static_cast<size_t>(label - labels.names.begin())];
    if (!clip.empty())
      throw UserError(fmt::format("data.videos: {} and {} are both for the label {}; leave one", clip.string(),
                                  entry->path().string(), one_line(*label)));
    clip = entry->path();
  }
  if (error) throw_file_error("read", folder, error.value());
  if (std::ranges::all_of(clips, [](const auto& clip) { return clip.empty(); }))
    throw UserError(fmt::format("data.videos: {} has no clip for any label; a clip is named as its label is: {}",
                                folder.string(), few_names(labels.names)));
  return clips;
}

}  // namespace

StimulusMedia::StimulusMedia(const std::filesystem::path& videos, const StimulusLabels& labels,
                             double seconds_per_volume, const ClipGrid& grid, const std::filesystem::path& cache_dir,
                             bool skip_bad, const std::function<void(const std::string&, double)>& progress)
    : seconds_per_volume_(seconds_per_volume) {
  const auto open = [&](const std::filesystem::path& file) {
    const std::string what = "decoding " + file.filename().string();
    return StimulusClip(file, grid, cache_dir, [&](double fraction) { progress(what, fraction); });
  };
  const size_t volumes = labels.label.size();
  onset_.assign(volumes, 0);
  if (std::error_code ignored; !std::filesystem::is_directory(videos, ignored)) {
    clips_.push_back(open(videos));
    clip_of_.assign(volumes, 0);
    const double wanted = seconds_per_volume * static_cast<double>(volumes);
    if (clips_[0].seconds() < wanted - seconds_per_volume)
      throw UserError(
          fmt::format("data.videos: {} lasts {:.1f} seconds, the series {:.1f}; give a film of the whole series, or a "
                      "folder with a clip for each label, which is repeated",
                      videos.string(), clips_[0].seconds(), wanted));
    return;
  }
  repeated_ = true;
  std::vector<int64_t> of_label(labels.names.size(), -1);
  const std::vector<std::filesystem::path> files = clips_in(videos, labels);
  for (size_t i = 0; i < files.size(); ++i) {
    if (files[i].empty()) continue;
    try {
      clips_.push_back(open(files[i]));
      of_label[i] = std::ssize(clips_) - 1;
    } catch (const UserError& error) {
      if (!skip_bad || !is_fault_of_file(error)) throw;
      skipped_.emplace_back(error.what());
    }
  }
  for (size_t v = 0; v < volumes; ++v) {
    clip_of_.push_back(of_label[static_cast<size_t>(labels.label[v])]);
    const bool goes_on = v > 0 && labels.label[v] == labels.label[v - 1] && labels.run[v] == labels.run[v - 1];
    onset_[v] = goes_on ? onset_[v - 1] : static_cast<int64_t>(v);
  }
}

const StimulusClip* StimulusMedia::clip_at(double volumes, double& seconds) const {
  const auto volume = static_cast<size_t>(volumes);
  if (volumes < 0 || volume >= clip_of_.size() || clip_of_[volume] < 0) return nullptr;
  const StimulusClip& clip = clips_[static_cast<size_t>(clip_of_[volume])];
  seconds = (volumes - static_cast<double>(onset_[volume])) * seconds_per_volume_;
  if (repeated_) seconds = std::fmod(seconds, clip.seconds());
  return &clip;
}

bool StimulusMedia::copy_frame(double volumes, std::span<std::byte> out) const {
  double seconds = 0;
  const StimulusClip* clip = clip_at(volumes, seconds);
  if (clip != nullptr) clip->copy_frame(seconds, out);
  return clip != nullptr;
}

bool StimulusMedia::copy_mel(double volumes, std::span<std::byte> out) const {
  double seconds = 0;
  const StimulusClip* clip = clip_at(volumes, seconds);
  if (clip != nullptr) clip->copy_mel(seconds, out);
  return clip != nullptr;
}

}  // namespace plimsoll
