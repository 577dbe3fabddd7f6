// A list of videos and their captions, and how the time of the videos is cut.
#include "data/clips/clip_list.h"

#include <cmath>

#include "fuzz.h"

using namespace plimsoll;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input = fuzz::text(data, size);
  const std::filesystem::path list = fuzz::write("clips.tsv", input);
  fuzz::decoy("a.mp4", "no video");
  fuzz::reads(input, [&] {
    const std::vector<CaptionedVideo> videos = read_clip_list(list);
    for (const CaptionedVideo& each : videos) {
      fuzz::require(!each.caption.empty() && each.start >= 0 && std::isfinite(each.end), "a part of no time");
      ClipsConfig config;
      for (const Split split : {Split::train, Split::validation})
        fuzz::reads(input,
                    [&] { cut_clips(each.start, each.end < 0 ? each.start + 60 : each.end, config, 0.1, split); });
    }
    check_overlaps(videos, 1);
  });
  return 0;
}
