#include "files/csv_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/trimmed.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr size_t kMaxLineLength = size_t{1} << 26;
constexpr int64_t kMaxCells = int64_t{1} << 20;

}  // namespace

CsvFile::CsvFile(const std::filesystem::path& file) : lines_(file, "table (.csv)", kMaxLineLength) {}

bool CsvFile::next(std::vector<std::string>& cells) {
  const auto refuse = [&](const std::string& what) {
    throw UserError(fmt::format("{}: {}", place(), what), UserError::Kind::failure);
  };
  std::string_view text;
  do {
    if (!lines_.next(text_)) return false;
    text = text_;
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
