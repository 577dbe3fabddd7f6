// A text, as it is and packed by gzip: its bytes in pieces, and its lines.
#include "files/text_file.h"

#include <zlib.h>

#include "base/text.h"
#include "files/file_kind.h"
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

bool read(std::string_view input, const std::filesystem::path& file, std::string& text) {
  return fuzz::reads(input, [&] {
    TextBytes bytes(file, "data.files: " + file.string());
    constexpr size_t kPiece = 100;
    for (size_t got = kPiece; got == kPiece;) {
      text.resize(text.size() + kPiece);
      got = bytes.read(std::span(text).subspan(text.size() - kPiece));
      fuzz::require(got <= kPiece, "a piece is longer than its room");
      text.resize(text.size() - kPiece + got);
      fuzz::require(text.size() < (size_t{1} << 24), "a text without an end");
    }
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input = fuzz::text(data, size);
  const std::filesystem::path file = fuzz::write("input.txt", input);
  std::string text, unpacked;
  const bool good = read(input, file, text);
  size_t bytes = 0;
  const bool lines = fuzz::reads(input, [&] {
    TextLines reader(file, "list", 1024);
    int64_t number = 0;
    for (std::string line; reader.next(line); bytes += line.size()) {
      fuzz::require(reader.line() == ++number, "a line does not follow the one before");
      fuzz::require(line.find_first_of("\r\n") == line.npos, "a line has a line end");
    }
  });
  if (input.starts_with("\x1f\x8b")) return 0;
  fuzz::require(!lines || (good && bytes <= text.size()), "lines of a file that is no text, or of other bytes");
  fuzz::require(!good || text == without_byte_order_mark(input), "a text of other bytes than its file's");
  fuzz::require(read(input, fuzz::write("input.gz", packed(input)), unpacked) == good,
                "a file is read as it is and not packed, or packed and not as it is");
  fuzz::require(!good || text == unpacked, "a packed text has other bytes");
  return 0;
}
