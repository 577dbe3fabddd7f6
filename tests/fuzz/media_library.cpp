// Replaces libplimsoll_media: the reader loads this library, whose functions are those linked into the fuzz target,
// which are under the sanitizers.
#include "files/ffmpeg_functions.h"

extern "C" const plimsoll::media::Functions* fuzz_media_functions(int version);

extern "C" __attribute__((visibility("default"))) const plimsoll::media::Functions* plimsoll_media_functions(
    int version) {
  return fuzz_media_functions(version);
}
