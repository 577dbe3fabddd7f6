#include "files/file_kind.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <utility>

#include "base/text.h"

namespace plimsoll {
namespace {

struct Magic {
  size_t at;
  std::string_view bytes;
  std::string_view kind;
};

using namespace std::string_view_literals;

constexpr size_t kLooked = 265;
// Bytes of a text without a byte order mark that decide whether it is UTF-16, and the fewest that can.
constexpr size_t kDecidingBytes = 256, kMinDecidingBytes = 16;

constexpr std::string_view kNifti = "a NIfTI volume";

constexpr Magic kMagics[] = {
    {0, "\x89PNG\r\n\x1a\n"sv, "a PNG picture"},
    {0, "\xff\xd8\xff"sv, "a JPEG picture"},
    {0, "II*\0"sv, "a TIFF picture"},
    {0, "MM\0*"sv, "a TIFF picture"},
    {0, "GIF87a"sv, "a GIF picture"},
    {0, "GIF89a"sv, "a GIF picture"},
    {8, "WEBP"sv, "a WebP picture"},
    {0, "\x93NUMPY"sv, "a NumPy array (.npy)"},
    {0, "PK\3\4"sv, "a zip archive (such as NumPy's .npz)"},
    {128, "DICM"sv, "a DICOM file"},
    {0, "\x89HDF\r\n\x1a\n"sv, "an HDF5 file"},
    {0, "MATLAB 5.0 MAT-file"sv, "a MATLAB file"},
    {0, "%PDF-"sv, "a PDF document"},
    {0, "\x1f\x8b"sv, kGzip},
    {0, "\x1f\x9d"sv, "a compress file (.Z)"},
    {0, "\x5d\0\0"sv, "an lzma file"},
    {0, "{\\rtf1"sv, "a document in RTF"},
    {0, "\x28\xb5\x2f\xfd"sv, "a zstd file"},
    {0, "BZh91AY&SY"sv, "a bzip2 file"},
    {0,
     "\xfd"
     "7zXZ\0"sv,
     "an xz file"},
    {0, "\x04\x22\x4d\x18"sv, "an lz4 file"},
    {0, "7z\xbc\xaf\x27\x1c"sv, "a 7z archive"},
    {0, "Rar!\x1a\7"sv, "a rar archive"},
    {257, "ustar\0"sv, "a tar archive"},
    {257, "ustar  \0"sv, "a tar archive"},
    {0, "PAR1\x15"sv, "a Parquet table"},
    {0, "ARROW1\0\0"sv, "an Arrow table"},
    {0, "SQLite format 3\0"sv, "an SQLite database"},
    {0, "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"sv, "a document of Microsoft Office"},
    {0, "GGUF\1\0\0\0"sv, "a GGUF model"},
    {0, "GGUF\2\0\0\0"sv, "a GGUF model"},
    {0, "GGUF\3\0\0\0"sv, "a GGUF model"},
    {8, "{\""sv, "a safetensors file"},
    {0, "\x80\2}"sv, "a Python pickle"},
    {0, "\x80\2]"sv, "a Python pickle"},
    {0, "\x80\4\x95"sv, "a Python pickle"},
    {0, "\x80\5\x95"sv, "a Python pickle"},
    {0,
     "\x7f"
     "ELF"sv,
     "a program or library (ELF)"},
    {4, "ftyp"sv, "a video (MP4)"},
    {0, "\x1a\x45\xdf\xa3"sv, "a video (Matroska)"},
    {0, "OggS\0"sv, "sound (Ogg)"},
    {0, "fLaC\0"sv, "sound (FLAC)"},
    {8, "WAVEfmt "sv, "sound (WAV)"},
    {8, "AVI LIST"sv, "a video (AVI)"},
    {0, "ID3\3\0"sv, "sound (MP3)"},
    {0, "ID3\4\0"sv, "sound (MP3)"},
    {0, "NRRD000"sv, "an NRRD volume"},
    {0, "\x5c\x01\0\0"sv, kNifti},
    {0, "\0\0\x01\x5c"sv, kNifti},
    {0, "\x1c\x02\0\0"sv, "a NIfTI-2 volume"},
};

/// Returns true if the file has the second mark of its kind. A magic in the middle of a file could be text.
bool is_confirmed(const Magic& magic, std::string_view text) {
  if (magic.kind == "a safetensors file"sv) return text.substr(4, 4) == "\0\0\0\0"sv;  // of a length of 64 bits
  if (magic.kind == "a video (MP4)"sv) return text.starts_with("\0\0"sv);              // of a length of 32 bits
  return magic.at != 8 || text.starts_with("RIFF");
}

/// Returns true if the bytes first, first + 2, ... are 0 and no others are.
bool has_zeros_at(std::string_view text, size_t first) {
  for (size_t i = 0; i < text.size(); ++i)
    if ((text[i] == '\0') != (i % 2 == first)) return false;
  return true;
}

/// Returns true if every four bytes are a character of text in UTF-32: no control except tabs and ends of lines.
bool is_utf32(std::string_view text, bool big_endian) {
  for (size_t i = 0; i + 4 <= text.size(); i += 4) {
    uint32_t code = 0;
    for (size_t k = 0; k < 4; ++k) code = code << 8 | static_cast<unsigned char>(text[i + (big_endian ? k : 3 - k)]);
    const bool white = code == '\t' || code == '\n' || code == '\r';
    if ((code < ' ' && !white) || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return false;
  }
  return true;
}

}  // namespace

std::string_view file_kind(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (const Magic& magic : kMagics)
    if (text.size() > magic.at && text.substr(magic.at).starts_with(magic.bytes) && is_confirmed(magic, text))
      return magic.kind;
  return {};
}

std::string_view non_text_kind(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  // UTF-32 first: its little-endian mark begins with that of UTF-16.
  if (text.starts_with("\xff\xfe\0\0"sv) || text.starts_with("\0\0\xfe\xff"sv)) return "text in UTF-32";
  if (text.starts_with("\xff\xfe"sv) || text.starts_with("\xfe\xff"sv)) return "text in UTF-16";
  if (const std::string_view kind = file_kind(bytes); !kind.empty()) return kind;
  const std::string_view deciding = text.substr(0, std::min(kDecidingBytes, text.size() / 2 * 2));
  if (deciding.size() < kMinDecidingBytes) return {};
  if (is_utf32(deciding, false)) return "text in UTF-32LE";
  if (is_utf32(deciding, true)) return "text in UTF-32BE";
  if (has_zeros_at(deciding, 1)) return "text in UTF-16LE";
  if (has_zeros_at(deciding, 0)) return "text in UTF-16BE";
  return {};
}

std::string text_remedy(std::string_view kind, const std::filesystem::path& file) {
  const std::string name = file.filename().string();
  if (kind.starts_with("text in "))
    return fmt::format("convert it to UTF-8: iconv -f {} -t UTF-8 {} > NEW_FILE", kind.substr(8), name);
  const bool packed = kind == kGzip || kind == "a zstd file" || kind == "a bzip2 file" || kind == "an xz file" ||
                      kind == "an lz4 file" || kind == "an lzma file" || kind == "a compress file (.Z)" ||
                      kind.ends_with("archive") || kind.starts_with("a zip");
  return packed ? "unpack it first" : "name a text file in UTF-8";
}

std::string_view file_kind(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) return {};  // to open a pipe would wait for its writer
  std::array<char, kLooked> bytes = {};
  std::ifstream stream(file, std::ios::binary);
  stream.read(bytes.data(), bytes.size());
  return file_kind(std::as_bytes(std::span(bytes.data(), static_cast<size_t>(stream.gcount()))));
}

namespace {

thread_local DataNotes* current_notes = nullptr;

}  // namespace

DataNotes::Scope::Scope(DataNotes& notes) : before_(std::exchange(current_notes, &notes)) {}

DataNotes::Scope::~Scope() {
  current_notes = before_;
}

std::vector<std::string> DataNotes::lines() const {
  std::vector<std::string> lines;
  for (const Note& note : notes_) {
    const std::string others = note.further_files == 0   ? ""
                               : note.further_files == 1 ? " and 1 more file"
                                                         : fmt::format(" and {} more files", note.further_files);
    lines.push_back(without_controls(fmt::format("{}{}: {}", note.first_file, others, note.what)));
  }
  return lines;
}

void note_data(const std::filesystem::path& file, std::string what) {
  if (current_notes == nullptr) return;
  std::vector<DataNotes::Note>& notes = current_notes->notes_;
  const auto found = std::ranges::find(notes, what, &DataNotes::Note::what);
  if (found == notes.end())
    notes.push_back({file.string(), std::move(what), 0});
  else if (found->first_file != file.string())
    ++found->further_files;
}

}  // namespace plimsoll
