#include "files/csv_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "files/file_kind.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr size_t kMaxLineLength = size_t{1} << 26;
constexpr int64_t kMaxCells = int64_t{1} << 20;
constexpr size_t kLinesAhead = 8;
constexpr std::string_view kSeparators = ",;\t";

bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

/// Calls visit(c) for each character that is not within double quotes.
template <typename Visit>
void each_outside_quotes(std::string_view text, const Visit& visit) {
  bool quoted = false;
  for (const char c : text) {
    if (c == '"') quoted = !quoted;
    if (!quoted) visit(c);
  }
}

int64_t count_outside_quotes(std::string_view text, char wanted) {
  int64_t count = 0;
  each_outside_quotes(text, [&](char c) { count += c == wanted; });
  return count;
}

std::optional<int64_t> whole_number(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<double> number_with_point(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// Returns the number of a cell whose decimal mark is a comma, or nothing.
std::optional<double> number_with_comma(std::string_view cell) {
  const size_t comma = cell.find(',');
  if (comma == cell.npos || cell.find('.') != cell.npos || cell.find(',', comma + 1) != cell.npos) return std::nullopt;
  std::string text(cell);
  text[comma] = '.';
  return number_with_point(text);
}

/// Returns true for "1,234", which is 1.234 or 1234: one to three digits, of which the first is not 0, and three more.
bool may_have_thousands(std::string_view cell) {
  if (cell.starts_with('-') || cell.starts_with('+')) cell.remove_prefix(1);
  const size_t comma = cell.find(',');
  return comma >= 1 && comma <= 3 && cell.size() == comma + 4 && cell.front() != '0';
}

/// Returns true if no cell has another of the separators, except commas of decimal numbers.
bool cuts_cleanly(std::string_view text, char separator) {
  std::string cell;
  bool clean = true;
  const auto end_cell = [&] {
    const std::string_view whole = trimmed(cell);
    if (whole.find_first_of(kSeparators) != whole.npos && (separator == ',' || !number_with_comma(whole)))
      clean = false;
    cell.clear();
  };
  each_outside_quotes(text, [&](char c) {
    if (c == separator)
      end_cell();
    else
      cell += c;
  });
  end_cell();
  return clean;
}

const char* name_of_separator(char separator) {
  return separator == ',' ? "commas" : separator == ';' ? "semicolons" : "tabs";
}

}  // namespace

CsvFile::CsvFile(const std::filesystem::path& file, bool blanks)
    : path_(file), lines_(file, "table (.csv)", kMaxLineLength), blanks_(blanks) {
  for (std::string text; ahead_.size() < kLinesAhead && lines_.next(text);)
    if (!trimmed(text).empty()) ahead_.emplace_back(lines_.line(), text);
  if (!ahead_.empty()) separator_ = chosen_separator();
}

std::string CsvFile::place() const {
  return fmt::format("{}:{}", path_.string(), line_);
}

void CsvFile::refuse(const std::string& what) const {
  throw UserError(fmt::format("{}: {}", place(), what), UserError::Kind::failure);
}

char CsvFile::chosen_separator() {
  const std::string& first = ahead_.front().second;
  line_ = ahead_.front().first;  // of errors
  std::string candidates;
  for (const char c : kSeparators)
    if (count_outside_quotes(first, c) > 0) candidates += c;
  if (candidates.empty()) return blanks_ ? ' ' : ',';
  if (blanks_ && candidates == "\t") {
    // Tabs alone cut the first line if no cell behind the first is empty or has several numbers between blanks.
    std::vector<std::string> cells, parts;
    separator_ = '\t';
    split(first, cells);
    for (size_t i = 0; i < cells.size(); ++i) {
      split_at_blanks(cells[i], parts);
      if ((i > 0 && cells[i].empty()) || (parts.size() > 1 && number_with_point(parts[0]))) return ' ';
    }
    return '\t';
  }
  if (candidates.size() == 1) return candidates[0];
  std::string equal, clean;
  for (const char c : candidates) {
    const auto cells_of = [&](const auto& line) { return count_outside_quotes(line.second, c); };
    if (std::ranges::any_of(ahead_, [&](const auto& line) { return cells_of(line) != cells_of(ahead_.front()); }))
      continue;
    equal += c;
    // Names in the first line may have any of the characters.
    const auto first_numbers = ahead_.begin() + (ahead_.size() > 1 ? 1 : 0);
    if (std::all_of(first_numbers, ahead_.end(), [&](const auto& line) { return cuts_cleanly(line.second, c); }))
      clean += c;
  }
  if (equal.empty()) return candidates[0];  // the lines are ragged, which the reader refuses
  if (equal.size() == 1) return equal[0];
  if (clean.size() == 1) return clean[0];
  refuse(
      fmt::format("the first line has both {} and {}, and either may separate its cells; put cells with one of them in "
                  "double quotes",
                  name_of_separator(equal[0]), name_of_separator(equal[1])));
}

bool CsvFile::next_line(std::string& text) {
  if (!ahead_.empty()) {
    line_ = ahead_.front().first;
    text = std::move(ahead_.front().second);
    ahead_.pop_front();
    return true;
  }
  do {
    if (!lines_.next(text)) return false;
  } while (trimmed(text).empty());
  line_ = lines_.line();
  return true;
}

bool CsvFile::next(std::vector<std::string>& cells) {
  if (!next_line(text_)) return false;
  cells.clear();
  if (separator_ == ' ')
    split_at_blanks(text_, cells);
  else
    split(text_, cells);
  return true;
}

std::string CsvFile::take_quoted(std::string_view& text) const {
  std::string cell;
  for (text.remove_prefix(1);; text.remove_prefix(1)) {
    const size_t end = text.find('"');
    if (end == text.npos) refuse("a cell's double quotes do not close within the line");
    cell += text.substr(0, end);
    text.remove_prefix(end + 1);
    if (!text.starts_with('"')) return cell;
    cell += '"';
  }
}

void CsvFile::split(std::string_view text, std::vector<std::string>& cells) const {
  if (std::ranges::count(text, separator_) >= kMaxCells)
    refuse(fmt::format("the line has more than {} cells", kMaxCells));
  const auto skip_blanks = [&] {
    while (!text.empty() && text.front() != separator_ && is_blank(text.front())) text.remove_prefix(1);
  };
  for (bool more = true; more;) {
    skip_blanks();
    if (!text.starts_with('"')) {
      const size_t end = text.find(separator_);
      cells.emplace_back(trimmed(text.substr(0, end)));
      more = end != text.npos;
      if (more) text.remove_prefix(end + 1);
      continue;
    }
    cells.push_back(take_quoted(text));
    skip_blanks();
    more = text.starts_with(separator_);
    if (!more && !text.empty()) refuse("a cell goes on behind its double quotes");
    if (more) text.remove_prefix(1);
  }
}

void CsvFile::split_at_blanks(std::string_view text, std::vector<std::string>& cells) const {
  cells.clear();
  for (text = trimmed(text); !text.empty(); text = trimmed(text)) {
    if (std::ssize(cells) == kMaxCells) refuse(fmt::format("the line has more than {} cells", kMaxCells));
    if (text.starts_with('"')) {
      cells.push_back(take_quoted(text));
      if (!text.empty() && !is_blank(text.front())) refuse("a cell goes on behind its double quotes");
      continue;
    }
    const size_t end = std::min(text.find_first_of(" \t"), text.size());
    cells.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

std::optional<double> CsvFile::number(std::string_view cell) {
  std::optional<double> number = number_with_point(cell);
  const bool point = number && cell.find('.') != cell.npos;
  if (point && first_point_.empty()) first_point_ = cell;
  if (!number && (number = number_with_comma(cell)) && first_comma_.empty()) {
    if (separator_ != ';' && may_have_thousands(cell))
      refuse(fmt::format("{} may be a number of thousands or a decimal fraction; write {} or {}", in_quotes(cell),
                         *number * 1000, *number));
    first_comma_ = cell;
    note_data(path_, fmt::format("numbers have decimal commas: {} is {}", in_quotes(cell), *number));
  }
  if (!first_point_.empty() && !first_comma_.empty())
    refuse(fmt::format("the table has both {} and {}; write all numbers with one decimal mark", in_quotes(first_point_),
                       in_quotes(first_comma_)));
  return number;
}

bool are_counting_names(const std::vector<std::string>& cells, size_t first) {
  if (cells.size() <= first) return false;
  const std::optional<int64_t> begin = whole_number(cells[first]);
  if (!begin || *begin < 0 || *begin > 1) return false;
  for (size_t i = first; i < cells.size(); ++i)
    if (whole_number(cells[i]) != *begin + static_cast<int64_t>(i - first)) return false;
  return true;
}

bool IndexColumn::add(std::string_view cell) {
  const std::optional<int64_t> number = whole_number(cell);
  // A step of such numbers could overflow.
  constexpr int64_t kMaxIndex = int64_t{1} << 53;
  if (!number || *number > kMaxIndex || *number < -kMaxIndex) return counts_ = false;
  if (cells_ == 0) first_ = *number;
  if (cells_ == 1) step_ = *number - last_;
  if (cells_ >= 1 && (step_ == 0 || *number - last_ != step_)) counts_ = false;
  last_ = *number;
  ++cells_;
  return counts_;
}

std::string IndexColumn::describe() const {
  return fmt::format("counts from {} to {}{}", first_, last_,
                     step_ == 1 || cells_ < 2 ? "" : fmt::format(" in steps of {}", step_));
}

}  // namespace plimsoll
