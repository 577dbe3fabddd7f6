// A PNG or JPEG picture: looked through, decoded, and as a plane and a mask of samples.
#include "files/picture.h"

#include <zlib.h>

#include "checksums.h"
#include "data/masks/picture_plane.h"
#include "fuzz.h"

using namespace plimsoll;

namespace {

uint32_t big_endian(const uint8_t* at) {
  return uint32_t{at[0]} << 24 | uint32_t{at[1]} << 16 | uint32_t{at[2]} << 8 | at[3];
}

/// Writes the right checksums of a PNG's chunks.
void mend(uint8_t* data, size_t size) {
  if (size < 8 || data[0] != 0x89) return;
  for (size_t at = 8; at + 12 <= size;) {
    const size_t length = big_endian(data + at);
    if (length > size - at - 12) return;
    const uint64_t checksum = crc32_z(0, data + at + 4, length + 4);
    for (size_t i = 0; i < 4; ++i) data[at + 8 + length + i] = static_cast<uint8_t>(checksum >> (24 - 8 * i));
    at += 12 + length;
  }
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  return fuzz::mutate(data, size, max_size, seed, mend);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input = fuzz::text(data, size);
  const std::filesystem::path file = fuzz::write("input.png", input);
  PictureSides sides;
  if (!fuzz::reads(input, [&] { sides = validate_picture(file); })) return 0;
  // A picture of some kilobytes may be one color over 2^27 pixels: the limit of memory is for it.
  if (sides.width * sides.height > int64_t{1} << 22) return 0;
  fuzz::reads(input, [&] {
    const Picture picture = read_picture(file);
    fuzz::require(picture.width == sides.width && picture.height == sides.height, "a picture of other sides");
    fuzz::require(static_cast<int64_t>(picture.numbers.size()) == picture.width * picture.height * picture.channels,
                  "a picture of other numbers than its pixels'");
    for (const uint16_t number : picture.numbers)
      fuzz::require(number <= picture.max_value, "a number above the greatest");
    on_white(picture);
  });
  fuzz::reads(input, [&] { read_plane(file, 16, 3, "picture"); });
  fuzz::reads(input, [&] { read_mask(file, 16); });
  return 0;
}
