// A video or sound: its description, three pictures, its sound.
#include "files/media.h"

#include "fuzz.h"

using namespace plimsoll;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input = fuzz::text(data, size);
  const std::filesystem::path file = fuzz::write("input.media", input);
  fuzz::decoy("other.mp4", "no video");
  const fuzz::Rules rules{.names = false};
  fuzz::reads(
      input, [&] { describe_video(file); }, rules);
  fuzz::reads(
      input,
      [&] {
        fuzz::require(read_frames(file, {0, 0.1, 0.5}, 8, 6).size() == 3 * 8 * 6 * 3, "pictures of another size");
      },
      rules);
  fuzz::reads(
      input, [&] { read_audio(file, 8000); }, rules);
  return 0;
}
