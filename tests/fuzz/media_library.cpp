// Stands for libplimsoll_media: the reader loads this library, and its functions are those that the fuzz target is
// linked with, which are under the sanitizers.
#include "files/functions.h"

extern "C" const plimsoll::media::Functions* fuzz_media_functions(int version);

extern "C" __attribute__((visibility("default"))) const plimsoll::media::Functions* plimsoll_media_functions(
    int version) {
  return fuzz_media_functions(version);
}
