// Defines the keys of `data.type: clips`.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "job/keys/key_kinds.h"
#include "job/keys/kinds.h"
#include "job/keys/shared_data_keys.h"

namespace plimsoll {

inline ClipsConfig& part(Job& job, ClipsConfig*) {
  return job.data.clips;
}

int64_t frames_of_clip(const ClipsConfig& config) {
  if (config.max_frames) return *config.max_frames;
  const double all = std::ceil(std::max(0.0, config.clip_seconds) * kClipFrameRate);
  return static_cast<int64_t>(std::clamp(all, 1.0, static_cast<double>(kMaxClipFrames)));
}

namespace job {

DataKind clips_kind() {
  using C = ClipsConfig;
  using D = DataConfig;
  DataKind kind;
  kind.type = "clips";
  kind.meaning = "clips of video files, with a caption each";
  kind.keys = {
      paths("data.files", &D::files, "videos; the caption is the file's name, - and _ as spaces"),
      path("data.list", &C::list, "(none)",
           "instead of data.files: a file with lines of video, tab, caption and, for a part of the video, tab, start, "
           "tab, end in seconds; a tab and train or validation at the end of a line give the whole video a split, and "
           "data.validation_fraction divides the others; videos are relative to the list"),
      number("data.clip_seconds", &C::clip_seconds, {.min = 0, .min_open = true, .max = 86400},
             "length of a clip in seconds"),
      number("data.clip_stride", &C::clip_stride, {.min = 0, .max = 86400},
             "seconds from the start of a clip to that of the next; 0: clip_seconds. Held-out clips do not overlap"),
      {{"data.prompt", "text", "Describe the video: ", "prompt before the caption; not trained on"},
       [](const Value& value, Job& job) { job.data.clips.prompt = read_text(value, "text, or \"\" for none"); }},
      path("data.cache_dir", &D::cache_dir, ".plimsoll-cache",
           "folder of cached decoded frames, relative to the job file"),
  };
  std::ranges::move(tokenizer_keys(), std::back_inserter(kind.keys));
  kind.check = [](const Job& job, const KeyLocations& locations) {
    const C& clips = job.data.clips;
    if (job.data.files.empty() && clips.list.empty())
      refuse(locations.of({"data.type"}),
             "data.files is missing; name videos (data.files: [cockatoo.mp4]), or a list of them with captions "
             "(data.list: captions.txt)");
    if (!job.data.files.empty() && !clips.list.empty())
      refuse(locations.of({"data.list", "data.files"}),
             "data.list and data.files are both given; leave one of them out");
    if (clips.clip_stride > 0 && clips.clip_stride < clips.clip_seconds / 1000)
      refuse(locations.of({"data.clip_stride"}),
             fmt::format("data.clip_stride is {}; it must be at least a thousandth of data.clip_seconds {}",
                         clips.clip_stride, clips.clip_seconds));
    check_tokenizer(job, locations);
  };
  kind.paths = [](Job& job) { return std::vector<DataPath>{{"data.list", &job.data.clips.list}}; };
  kind.uses_cache_folder = true;
  kind.origin = [](const Job& job) {
    const C& clips = job.data.clips;
    return std::vector<Setting>{{"data.tokenizer", job.data.tokenizer},
                                {"data.clip_seconds", clips.clip_seconds},
                                {"data.clip_stride", clips.clip_stride},
                                {"data.prompt", clips.prompt}};
  };
  kind.shared_keys = [](const Job& job) {
    const C& clips = job.data.clips;
    return std::vector<Setting>{{"data.max_frames", clips.max_frames ? fmt::format("{}", *clips.max_frames) : "none"},
                                {"data.clip_seconds", clips.clip_seconds},
                                {"data.clip_stride", clips.clip_stride},
                                {"data.prompt", clips.prompt},
                                {"data.list", clips.list}};
  };
  return kind;
}

}  // namespace job
}  // namespace plimsoll
