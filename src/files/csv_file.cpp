#include "files/csv_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "base/file_error.h"
#include "base/trimmed.h"
#include "files/file_kind.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr size_t kMaxLineLength = size_t{1} << 26;
constexpr int64_t kMaxCells = int64_t{1} << 20;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

}  // namespace

CsvFile::CsvFile(const std::filesystem::path& file) : path_(file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error))
    throw_file_error("read", file, error ? error.value() : std::filesystem::is_directory(file) ? EISDIR : EINVAL);
  if (const std::string_view kind = file_kind(file); !kind.empty())
    throw UserError(fmt::format("{}: is no table (.csv); it is {}", file.string(), kind), UserError::Kind::failure);
  errno = 0;
  stream_.open(file, std::ios::binary);
  if (!stream_) throw_file_error("read", file, errno != 0 ? errno : EIO);
}

std::string CsvFile::place() const {
  return fmt::format("{}:{}", path_.string(), line_);
}

bool CsvFile::next(std::vector<std::string>& cells) {
  const auto refuse = [&](const std::string& what) {
    throw UserError(fmt::format("{}: {}", place(), what), UserError::Kind::failure);
  };
  std::string_view text;
  do {
    if (!std::getline(stream_, text_)) {
      if (stream_.bad()) throw_file_error("read", path_, EIO);
      return false;
    }
    ++line_;
    if (text_.size() > kMaxLineLength) refuse("the line is longer than any table's");
    text = text_;
    if (line_ == 1 && text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  } while (trimmed(text).empty());
  if (separator_ == '\0') {
    separator_ = ',';
    for (const char c : {'\t', ';', ','})
      if (text.find(c) != text.npos) separator_ = c;
  }
  if (std::ranges::count(text, separator_) >= kMaxCells)
    refuse(fmt::format("the line has more than {} cells", kMaxCells));
  cells.clear();
  const auto blanks = [&] {
    while (!text.empty() && text.front() != separator_ && (text.front() == ' ' || text.front() == '\t'))
      text.remove_prefix(1);
  };
  for (bool more = true; more;) {
    blanks();
    if (!text.starts_with('"')) {
      const size_t end = text.find(separator_);
      cells.emplace_back(trimmed(text.substr(0, end)));
      more = end != text.npos;
      if (more) text.remove_prefix(end + 1);
      continue;
    }
    std::string cell;
    for (text.remove_prefix(1);; text.remove_prefix(1)) {
      const size_t end = text.find('"');
      if (end == text.npos) refuse("a cell's double quotes do not close within the line");
      cell += text.substr(0, end);
      text.remove_prefix(end + 1);
      if (!text.starts_with('"')) break;
      cell += '"';
    }
    cells.push_back(std::move(cell));
    blanks();
    if (text.starts_with('\r')) text.remove_prefix(1);
    more = text.starts_with(separator_);
    if (!more && !text.empty()) refuse("a cell goes on behind its double quotes");
    if (more) text.remove_prefix(1);
  }
  return true;
}

}  // namespace plimsoll
