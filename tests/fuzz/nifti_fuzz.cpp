// A NIfTI file, as it is and packed by gzip: one volume, in pieces, and as a series.
#include "files/file_kind.h"
#include "files/nifti.h"

#include <zlib.h>

#include "fuzz.h"

using namespace plimsoll;

namespace {

std::string packed(std::string_view bytes) {
  z_stream stream = {};
  deflateInit2(&stream, 1, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

bool read(std::string_view input, const std::filesystem::path& file, NiftiVolume& volume) {
  const bool whole = fuzz::reads(input, [&] {
    volume = read_nifti(file);
    fuzz::require(!volume.bytes.empty() && volume.bytes.size() % static_cast<size_t>(volume.voxels()) == 0,
                  "a volume of other bytes than its voxels'");
    volume.at(volume.voxels() - 1);
  });
  int64_t voxels = 0, streamed = 0;
  const bool pieces = fuzz::reads(input, [&] {
    stream_nifti(
        file, 1, [&](const NiftiVolume& layout) { voxels = layout.voxels(); },
        [&](int64_t first, const NiftiVolume& numbers, int64_t count) {
          fuzz::require(first == streamed && count > 0, "pieces of a volume do not follow each other");
          streamed += count;
          numbers.number(count - 1);
        });
    fuzz::require(voxels == streamed, "pieces are not the whole volume");
  });
  fuzz::require(whole == pieces, "a volume is read at once and not in pieces, or in pieces and not at once");
  fuzz::reads(input, [&] {
    NiftiSeries series(file);
    std::vector<float> values(static_cast<size_t>(series.layout().voxels()));
    for (int64_t i = 0; i < series.volumes(); ++i) series.read(values);
  });
  return whole;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input = fuzz::text(data, size);
  NiftiVolume plain;
  const bool good = read(input, fuzz::write("input.nii", input), plain);
  if (input.starts_with("\x1f\x8b")) return 0;
  // A plain file that begins as one of another kind is refused by its name; a packed one is not looked at.
  const std::string_view kind = file_kind(fuzz::write("input.nii", input));
  if (!kind.empty() && !kind.ends_with("NIfTI volume")) return 0;
  NiftiVolume unpacked;
  fuzz::require(read(input, fuzz::write("input.nii.gz", packed(input)), unpacked) == good,
                "a file is read as it is and not packed, or packed and not as it is");
  fuzz::require(plain.bytes == unpacked.bytes, "a packed file has other voxels");
  return 0;
}
