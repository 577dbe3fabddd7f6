// Provides the functions of files/ffmpeg_functions.h to media_library.cpp.
#include "files/ffmpeg_functions.h"

extern "C" const plimsoll::media::Functions* plimsoll_media_functions(int version);

extern "C" __attribute__((visibility("default"))) const plimsoll::media::Functions* fuzz_media_functions(int version) {
  return plimsoll_media_functions(version);
}
