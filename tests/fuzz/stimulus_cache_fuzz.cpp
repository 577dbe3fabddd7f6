// The decoded pictures and sound of a file that an earlier job left.
#include "data/series/stimulus_media.h"
#include "fuzz.h"

using namespace plimsoll;

namespace {

/// A video of two gray pictures, and the file that keeps what is decoded of it.
struct Media {
  std::filesystem::path video, cache, kept;
  ClipGrid grid{.seconds_per_frame = 0.5, .side = 2, .seconds_per_mel = 0.5, .bands = 3};

  Media() {
    std::string pictures = "YUV4MPEG2 W4 H4 F2:1 Ip A1:1 C420jpeg\n";
    for (int i = 0; i < 2; ++i) pictures += "FRAME\n" + std::string(24, static_cast<char>(90 + 50 * i));
    video = fuzz::write("clip.y4m", pictures);
    cache = fuzz::folder() / "cache";
    StimulusClip(video, grid, cache, [](double) {});
    for (const auto& entry : std::filesystem::directory_iterator(cache)) kept = entry.path();
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Media media;
  const std::string_view input = fuzz::text(data, size);
  fuzz::write("cache/" + media.kept.filename().string(), input);
  fuzz::reads(input, [&] {
    const StimulusClip clip(media.video, media.grid, media.cache,
                            [](double) { fuzz::require(false, "a file that is kept was decoded again"); });
    fuzz::require(clip.seconds() > 0, "a clip without a length");
    const auto side = static_cast<size_t>(media.grid.side), bands = static_cast<size_t>(media.grid.bands);
    std::vector<std::byte> frame(side * side * 3), mel(bands * sizeof(float));
    for (const double seconds : {0.0, 0.6, 1e6}) {
      clip.copy_frame(seconds, frame);
      clip.copy_mel(seconds, mel);
      fuzz::touch(frame.data(), frame.size());
      fuzz::touch(mel.data(), mel.size());
    }
  });
  return 0;
}
