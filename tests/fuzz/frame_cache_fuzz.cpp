// The decoded pictures of a clip that an earlier job left.
#include "data/clips/clip_samples.h"

#include "base/hash.h"
#include "checksums.h"
#include "fuzz.h"

using namespace plimsoll;

namespace {

constexpr uint64_t kKey = 0x0123456789abcdef;
constexpr size_t kHeader = 40;

void mend(uint8_t* data, size_t size) {
  if (size < kHeader) return;
  fuzz::put_little_endian(data + 16, kKey, 8);
  fuzz::put_little_endian(data + 32, content_hash({reinterpret_cast<const std::byte*>(data + kHeader), size - kHeader}),
                          8);
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  return fuzz::mutate(data, size, max_size, seed, mend);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input = fuzz::text(data, size);
  const CachedClip clip{{0, 1}, kKey, fuzz::write("clip.frames", input)};
  constexpr int64_t kFrames = 2, kSide = 4;
  fuzz::reads(input, [&] {
    fuzz::require(read_clip(clip, kFrames, kSide).size() == kFrames * kSide * kSide * 3, "pictures of another size");
  });
  return 0;
}
