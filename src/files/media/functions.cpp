#include "files/functions.h"

#include <exception>
#include <new>

#include "files/media/audio.h"
#include "files/media/fourier.h"
#include "files/media/media_file.h"
#include "files/media/picture.h"
#include "files/media/video.h"

namespace plimsoll::media {
namespace {

// Returns the error message of `action`; "" if there is none.
template <typename Action>
std::string matter_with(const Action& action) {
  try {
    silence();
    action();
    return "";
  } catch (const std::bad_alloc&) {
    return "takes more memory than there is";
  } catch (const std::exception& error) {
    return error.what();
  }
}

constexpr Functions kFunctions = {
    .describe = [](const std::string& path,
                   VideoInfo& info) { return matter_with([&] { info = media::describe(path); }); },
    .frames =
        [](const std::string& path, const std::vector<double>& seconds, int64_t width, int64_t height,
           std::vector<uint8_t>& pixels) {
          return matter_with([&] { media::frames(path, seconds, width, height, pixels); });
        },
    .audio = [](const std::string& path, int64_t sample_rate,
                std::vector<float>& samples) { return matter_with([&] { media::audio(path, sample_rate, samples); }); },
    .picture = [](const std::vector<uint8_t>& bytes, bool png,
                  Picture& picture) { return matter_with([&] { picture = media::picture(bytes, png); }); },
    .fourier =
        [](int64_t size, std::unique_ptr<FourierTransform>& transform) {
          return matter_with([&] { transform = media::fourier(size); });
        },
};

}  // namespace
}  // namespace plimsoll::media

extern "C" __attribute__((visibility("default"))) const plimsoll::media::Functions* plimsoll_media_functions(
    int version) {
  return version == plimsoll::media::kVersion ? &plimsoll::media::kFunctions : nullptr;
}
