#include "files/file_kind.h"

#include <array>
#include <fstream>

namespace plimsoll {
namespace {

struct Magic {
  size_t at;
  std::string_view bytes;
  std::string_view kind;
};

using namespace std::string_view_literals;

constexpr size_t kLooked = 132;

constexpr Magic kMagics[] = {
    {0, "\x89PNG\r\n\x1a\n"sv, "a PNG picture"},
    {0, "\xff\xd8\xff"sv, "a JPEG picture"},
    {0, "II*\0"sv, "a TIFF picture"},
    {0, "MM\0*"sv, "a TIFF picture"},
    {0, "GIF8"sv, "a GIF picture"},
    {8, "WEBP"sv, "a WebP picture"},
    {0, "\x93NUMPY"sv, "a NumPy array (.npy)"},
    {0, "PK\3\4"sv, "a zip archive (such as NumPy's .npz)"},
    {128, "DICM"sv, "a DICOM file"},
    {0, "\x89HDF\r\n\x1a\n"sv, "an HDF5 file"},
    {0, "MATLAB 5.0"sv, "a MATLAB file"},
    {0, "%PDF"sv, "a PDF document"},
    {0, "\x1f\x8b"sv, "a gzip file"},
    {0, "NRRD0"sv, "an NRRD volume"},
    {0, "\x5c\x01\0\0"sv, "a NIfTI volume"},
};

}  // namespace

std::string_view file_kind(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (const Magic& magic : kMagics)
    if (text.size() > magic.at && text.substr(magic.at).starts_with(magic.bytes)) return magic.kind;
  return {};
}

std::string_view file_kind(const std::filesystem::path& file) {
  std::array<char, kLooked> bytes = {};
  std::ifstream stream(file, std::ios::binary);
  stream.read(bytes.data(), bytes.size());
  return file_kind(std::as_bytes(std::span(bytes.data(), static_cast<size_t>(stream.gcount()))));
}

std::string describe_file_type(const std::filesystem::path& file) {
  const std::string_view kind = file_kind(file);
  return kind.empty() ? "" : "; it is " + std::string(kind);
}

}  // namespace plimsoll
