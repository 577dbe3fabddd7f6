// Several NumPy arrays in an archive.
#include "files/npz.h"

#include <zlib.h>

#include "checksums.h"
#include "fuzz.h"

using namespace plimsoll;

namespace {

/// Puts the checksums of stored entries, and of deflated ones that unpack, into both headers.
void mend(uint8_t* data, size_t size) {
  for (size_t at = 0; at + 46 <= size; ++at) {
    if (fuzz::little_endian(data + at, 4) != 0x02014b50) continue;
    const uint64_t local = fuzz::little_endian(data + at + 42, 4);
    if (local + 30 > size) continue;
    const uint64_t begin =
        local + 30 + fuzz::little_endian(data + local + 26, 2) + fuzz::little_endian(data + local + 28, 2);
    const uint64_t packed = fuzz::little_endian(data + at + 20, 4);
    if (begin > size || packed > size - begin) continue;
    uint64_t checksum = crc32_z(0, data + begin, packed);
    if (fuzz::little_endian(data + at + 10, 2) == 8) {
      std::vector<uint8_t> bytes(size_t{1} << 18);
      z_stream stream = {};
      inflateInit2(&stream, -MAX_WBITS);
      stream.next_in = data + begin;
      stream.avail_in = static_cast<uInt>(packed);
      stream.next_out = bytes.data();
      stream.avail_out = static_cast<uInt>(bytes.size());
      const int result = inflate(&stream, Z_FINISH);
      checksum = crc32_z(0, bytes.data(), stream.total_out);
      if (result == Z_STREAM_END) fuzz::put_little_endian(data + at + 24, stream.total_out, 4);
      inflateEnd(&stream);
    }
    fuzz::put_little_endian(data + at + 16, checksum, 4);
    fuzz::put_little_endian(data + local + 14, checksum, 4);
  }
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  return fuzz::mutate(data, size, max_size, seed, mend);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input = fuzz::text(data, size);
  const std::filesystem::path path = fuzz::write("input.npz", input);
  std::vector<std::string> names;
  fuzz::reads(input, [&] { names = NpzFile(path).names(); });
  for (const std::string& name : names)
    fuzz::reads(input, [&] {
      const NpyArray array = NpzFile(path).read(name);
      for (int64_t i = 0; i < array.count(); ++i) array.at(i);
    });
  return 0;
}
