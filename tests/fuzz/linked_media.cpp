// Gives media_library.cpp the functions of files/media.
#include "files/functions.h"

extern "C" const plimsoll::media::Functions* plimsoll_media_functions(int version);

extern "C" __attribute__((visibility("default"))) const plimsoll::media::Functions* fuzz_media_functions(int version) {
  return plimsoll_media_functions(version);
}
