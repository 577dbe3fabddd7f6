#include "files/text_file.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "base/file_error.h"
#include "base/text.h"
#include "files/data_memory.h"
#include "files/file_kind.h"
#include "plimsoll/bytes.h"

namespace plimsoll {
namespace {

constexpr size_t kTextBlock = size_t{1} << 16;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string note_on_bytes(unsigned char byte, int64_t at) {
  return fmt::format("byte 0x{:02x} at {} is no UTF-8 (another encoding, or no text?); its bytes are taken as they are",
                     byte, at);
}

/// Returns true if the text is a list of JSON's objects or texts, or has an object in each of its first two lines.
bool is_json(std::string_view text) {
  const auto skip = [&](size_t count) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n", count), text.size()));
  };
  skip(0);
  if (text.starts_with('[')) {
    skip(1);
    if (text.starts_with('{')) skip(1);
    return text.starts_with('"');
  }
  const std::string_view line = text.substr(0, text.find('\n'));
  if (!line.starts_with('{') || line.size() == text.size() || !nlohmann::json::accept(line)) return false;
  skip(line.size());
  return text.starts_with('{');
}

}  // namespace

void TextBytes::Close::operator()(gzFile_s* file) const {
  gzclose_r(file);
}

TextBytes::TextBytes(const std::filesystem::path& file, const std::string& place) : path_(file), place_(place) {
  errno = 0;
  plain_.open(file, std::ios::binary);
  if (!plain_) throw_file_error("read", file, errno != 0 ? errno : EIO);
  begin_.resize(kTextBlock);
  begin_.resize(read_file(begin_));
  std::string_view kind = non_text_kind(bytes_of(begin_));
  if (kind == kGzip) {
    std::error_code error;
    const auto size = std::filesystem::file_size(file, error);
    if (error) throw_file_error("read", file, error.value());
    file_bytes_ = static_cast<int64_t>(size);
    plain_.close();
    packed_.reset(gzopen(file.c_str(), "rb"));
    if (!packed_) throw_file_error("read", file, errno != 0 ? errno : EIO);
    gzbuffer(packed_.get(), 1 << 16);
    form_ = TextForm::packed;
    begin_.resize(kTextBlock);
    begin_.resize(read_file(begin_));
    kind = non_text_kind(bytes_of(begin_));
    if (!kind.empty())
      refuse(fmt::format("is a gzip file of {}; allowed: text in UTF-8; {}", kind, text_remedy(kind, file)));
  }
  if (!kind.empty())
    refuse(fmt::format("is {}; allowed: text in UTF-8, plain or packed by gzip; {}", kind, text_remedy(kind, file)));
  begin_at_ = begin_.size() - without_byte_order_mark(begin_).size();
  if (begin_at_ > 0 && form_ == TextForm::plain) form_ = TextForm::marked;
  // A block may end inside a character.
  const std::string_view text = std::string_view(begin_).substr(begin_at_);
  if (const size_t valid = valid_utf8_prefix(text); text.size() - valid > (begin_.size() == kTextBlock ? 3 : 0))
    note_ = note_on_bytes(static_cast<unsigned char>(text[valid]), static_cast<int64_t>(begin_at_ + valid));
  else if (const size_t zero = text.find('\0'); zero != text.npos)
    note_ =
        fmt::format("the byte at {} is 0, which text does not have (a binary file?); its bytes are taken as they are",
                    begin_at_ + zero);
  else if (is_json(text))
    note_ =
        "the text is JSON: its braces, quotes and names of fields are learned too; if one field has the texts, write "
        "these to a file";
  watched_ = static_cast<int64_t>(begin_at_);
}

void TextBytes::refuse(const std::string& what) const {
  throw UserError(fmt::format("{} {}", place_, what), UserError::Kind::failure);
}

size_t TextBytes::read_file(std::span<char> to) {
  if (form_ != TextForm::packed) {
    errno = 0;
    plain_.read(to.data(), std::ssize(to));
    if (plain_.bad()) throw_file_error("read", path_, errno != 0 ? errno : EIO);
    bytes_ += plain_.gcount();
    return static_cast<size_t>(plain_.gcount());
  }
  size_t done = 0;
  while (done < to.size()) {
    const auto wanted = static_cast<unsigned>(std::min<size_t>(to.size() - done, 1 << 24));
    const int got = gzread(packed_.get(), to.data() + done, wanted);
    int code = Z_OK;
    const char* const problem = gzerror(packed_.get(), &code);
    if (got < 0 || (got == 0 && code != Z_OK && code != Z_STREAM_END))
      refuse(code == Z_BUF_ERROR ? "is a gzip file that ends before its text does: it is truncated"
                                 : fmt::format("is a gzip file that is damaged: {}", problem));
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  bytes_ += static_cast<int64_t>(done);
  if (bytes_ > unpacked_limit(file_bytes_))
    refuse(
        fmt::format("unpacks to more than {} bytes; allowed: {} and {} for each byte of the packed file; unpack the "
                    "file with gunzip to read it",
                    unpacked_limit(file_bytes_), format_bytes(kUnpackedFloor), kUnpackedFactor));
  return done;
}

size_t TextBytes::read(std::span<char> to) {
  const size_t held = std::min(to.size(), begin_.size() - begin_at_);
  std::copy_n(begin_.data() + begin_at_, held, to.data());
  begin_at_ += held;
  const size_t done = held + (held < to.size() ? read_file(to.subspan(held)) : 0);
  if (note_.empty()) watch({to.data(), done}, done < to.size());
  return done;
}

void TextBytes::watch(std::string_view text, bool at_end) {
  const std::string whole = cut_ + std::string(text);
  const int64_t begin = watched_ - std::ssize(cut_);
  watched_ += std::ssize(text);
  const size_t valid = valid_utf8_prefix(whole);
  cut_ = whole.substr(valid);
  // The next bytes may complete a character of at most four.
  if (cut_.size() > (at_end ? 0 : 3))
    note_ = note_on_bytes(static_cast<unsigned char>(cut_[0]), begin + static_cast<int64_t>(valid));
}

int64_t TextBytes::file_bytes_read() const {
  if (form_ != TextForm::packed) return bytes_;
  return std::min<int64_t>(gzoffset(packed_.get()), file_bytes_);
}

TextLines::TextLines(const std::filesystem::path& file, std::string_view wanted, size_t max_line_bytes,
                     UserError::Kind kind)
    : path_(file), wanted_(wanted), max_line_bytes_(max_line_bytes), kind_(kind) {
  std::error_code error;
  const auto status = std::filesystem::status(file, error);
  if (error) throw_file_error("read", file, error.value());
  if (std::filesystem::is_directory(status)) throw_file_error("read", file, EISDIR);
  if (!std::filesystem::is_regular_file(status)) throw_not_regular(file);
  errno = 0;
  stream_.open(file, std::ios::binary);
  if (!stream_) throw_file_error("read", file, errno != 0 ? errno : EIO);
  const auto size = std::filesystem::file_size(file, error);
  if (!error) file_bytes_ = static_cast<int64_t>(size);
  fill();
  if (const std::string_view found = non_text_kind(bytes_of(block_)); !found.empty())
    throw UserError(fmt::format("{}: is no {}; it is {}; {}", file.string(), wanted, found, text_remedy(found, file)),
                    kind_);
  at_ = block_.size() - without_byte_order_mark(block_).size();
}

bool TextLines::fill() {
  block_.resize(kTextBlock);
  errno = 0;
  stream_.read(block_.data(), std::ssize(block_));
  if (stream_.bad()) throw_file_error("read", path_, errno != 0 ? errno : EIO);
  block_.resize(static_cast<size_t>(stream_.gcount()));
  bytes_ += std::ssize(block_);
  if (stream_.eof() && bytes_ < file_bytes_) throw_lost_bytes(path_, file_bytes_);
  at_ = 0;
  return !block_.empty();
}

std::string TextLines::place() const {
  return fmt::format("{}:{}", path_.string(), line_);
}

bool TextLines::next(std::string& line) {
  line.clear();
  bool any = false;
  while (at_ < block_.size() || fill()) {
    if (after_return_ && block_[at_] == '\n') ++at_;
    after_return_ = false;
    if (at_ == block_.size()) continue;
    if (!any) ++line_;
    any = true;
    const size_t end = std::min(block_.find_first_of("\n\r", at_), block_.size());
    line.append(block_, at_, end - at_);
    if (line.size() > max_line_bytes_)
      throw UserError(
          fmt::format("{}: the line is longer than any {}'s; allowed: {} bytes", place(), wanted_, max_line_bytes_),
          kind_);
    at_ = end;
    if (end == block_.size()) continue;
    after_return_ = block_[at_++] == '\r';
    return true;
  }
  return any;
}

}  // namespace plimsoll
