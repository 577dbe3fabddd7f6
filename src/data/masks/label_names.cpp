#include "data/masks/label_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <string_view>

#include "base/names.h"
#include "base/text.h"
#include "files/csv_file.h"
#include "files/file_kind.h"
#include "files/text_file.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr size_t kMaxFileBytes = size_t{1} << 24;
constexpr const char* kWanted = "list of label names ('37 left hippocampus')";

struct Line {
  std::string place;
  int64_t number = 0;
  std::string name;
};

using Words = std::vector<std::string_view>;

Words words_of(std::string_view text) {
  Words words;
  for (text = trimmed(text); !text.empty(); text = trimmed(text)) {
    const size_t end = std::min(text.find_first_of(" \t"), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return words;
}

bool is_number(std::string_view word) {
  double number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return error == std::errc{} && end == word.data() + word.size();
}

bool is_color(std::string_view word) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return error == std::errc{} && end == word.data() + word.size() && number >= 0 && number <= 255;
}

/// Returns the text of a name that is whole in double quotes, else the name.
std::string_view without_quotes(std::string_view name) {
  const bool quoted =
      name.size() > 2 && name.front() == '"' && name.back() == '"' && name.find('"', 1) == name.size() - 1;
  return quoted ? name.substr(1, name.size() - 2) : name;
}

/// Removes `count` numbers behind every name; returns false, and removes nothing, if a name does not have them.
bool remove_colors_behind(std::vector<Line>& lines, size_t count) {
  std::vector<size_t> ends;
  for (const Line& line : lines) {
    const Words words = words_of(line.name);
    if (words.size() <= count || !std::all_of(words.end() - static_cast<std::ptrdiff_t>(count), words.end(), is_color))
      return false;
    const std::string_view last = words[words.size() - count - 1];
    ends.push_back(static_cast<size_t>(last.data() + last.size() - line.name.data()));
  }
  for (size_t i = 0; i < lines.size(); ++i) lines[i].name.resize(ends[i]);
  return true;
}

/// Removes `count` numbers before every name; returns false, and removes nothing, if a name does not have exactly them.
bool remove_numbers_before(std::vector<Line>& lines, size_t count) {
  std::vector<size_t> begins;
  for (const Line& line : lines) {
    const Words words = words_of(line.name);
    if (words.size() <= count ||
        !std::all_of(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(count), is_number) ||
        is_number(words[count]))
      return false;
    begins.push_back(static_cast<size_t>(words[count].data() - line.name.data()));
  }
  for (size_t i = 0; i < lines.size(); ++i) lines[i].name.erase(0, begins[i]);
  return true;
}

void leave_out_colors(std::vector<Line>& lines, const std::filesystem::path& file) {
  const std::string first = lines.front().name;
  for (const size_t count : {4, 3})
    if (remove_colors_behind(lines, count))
      return note_data(
          file, fmt::format("{} numbers up to 255 behind every name are colors, and are left out: {} is {}", count,
                            in_quotes(first), in_quotes(lines.front().name)));
  for (const size_t count : {6, 4, 3})
    if (remove_numbers_before(lines, count))
      return note_data(
          file, fmt::format("{} numbers before every name are colors and flags, and are left out: {} is {}", count,
                            in_quotes(first), in_quotes(lines.front().name)));
}

/// Reads a table with the columns index and name, or returns nothing if the first line does not name them.
std::optional<std::vector<Line>> read_table(const std::filesystem::path& file) {
  CsvFile table(file);
  std::vector<std::string> names, cells;
  if (!table.next(names)) return std::nullopt;
  const auto column = [&](const char* name) {
    return static_cast<size_t>(std::ranges::find(names, name) - names.begin());
  };
  const size_t index = column("index"), label = column("name");
  if (index == names.size() || label == names.size()) return std::nullopt;
  std::vector<Line> lines;
  while (table.next(cells)) {
    if (cells.size() != names.size())
      throw UserError(fmt::format("{}: the line has {} cells, and the first line names {}", table.place(), cells.size(),
                                  names.size()));
    Line line{table.place(), 0, cells[label]};
    const std::string& number = cells[index];
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), line.number);
    if (error != std::errc{} || end != number.data() + number.size() || line.name.empty())
      throw UserError(fmt::format("{}: index {} and name {} are no label's number and name", table.place(),
                                  in_quotes(number), in_quotes(line.name)));
    lines.push_back(std::move(line));
  }
  std::erase_if(names, [](const std::string& name) { return name == "index" || name == "name"; });
  if (!names.empty())
    note_data(file, fmt::format("the columns index and name are read, and no others: {}", few_names(names)));
  return lines;
}

std::vector<Line> read_lines(const std::filesystem::path& file) {
  TextLines reader(file, kWanted, kMaxFileBytes, UserError::Kind::usage);
  std::vector<Line> lines;
  size_t bytes = 0;
  for (std::string text; reader.next(text);) {
    if ((bytes += text.size()) > kMaxFileBytes)
      throw UserError(
          fmt::format("{}: is larger than a {} may be; allowed: {} bytes", file.string(), kWanted, kMaxFileBytes));
    const std::string_view whole = trimmed(text);
    if (whole.empty() || whole.front() == '#') continue;
    Line line{reader.place()};
    const auto [rest, error] = std::from_chars(whole.data(), whole.data() + whole.size(), line.number);
    line.name = trimmed({rest, static_cast<size_t>(whole.data() + whole.size() - rest)});
    if (error != std::errc{} || line.name.empty() || (*rest != ' ' && *rest != '\t')) {
      if (lines.empty())
        if (auto table = read_table(file)) return std::move(*table);
      throw UserError(fmt::format("{}: {} is no label's number and name; for example '37 left hippocampus'", line.place,
                                  in_quotes(std::string(whole))));
    }
    lines.push_back(std::move(line));
  }
  if (!lines.empty()) leave_out_colors(lines, file);
  for (Line& line : lines) {
    line.name = std::string(without_quotes(line.name));
    if (line.name.find('\t') != std::string::npos)
      throw UserError(
          fmt::format("{}: {} has further columns behind the name; write a number and a name, or a first line "
                      "with the columns index and name",
                      line.place, in_quotes(line.name)));
  }
  return lines;
}

}  // namespace

std::vector<LabelName> read_label_names(const std::filesystem::path& file) {
  std::vector<LabelName> names;
  std::set<int64_t> numbers;
  std::set<std::string> words;
  for (Line& line : read_lines(file)) {
    const auto refuse = [&](const std::string& what) { throw UserError(fmt::format("{}: {}", line.place, what)); };
    if (!numbers.insert(line.number).second) refuse(fmt::format("number {} was there before", line.number));
    if (!words.insert(line.name).second) refuse(fmt::format("the name {} was there before", in_quotes(line.name)));
    names.push_back({line.number, std::move(line.name)});
  }
  if (names.empty()) throw UserError(fmt::format("{}: has no names", file.string()));
  return names;
}

std::vector<LabelName> matching(const std::vector<LabelName>& all, const std::vector<std::string>& patterns,
                                const std::filesystem::path& file) {
  std::vector<bool> taken(all.size(), false);
  for (const std::string& pattern : patterns) {
    bool any = false;
    for (size_t i = 0; i < all.size(); ++i)
      if (matches_path(pattern, all[i].name)) any = taken[i] = true;
    if (any) continue;
    std::vector<std::string> names;
    for (const LabelName& label : all) names.push_back(label.name);
    throw UserError(fmt::format("data.structures: {} matches no name in {}; it has for example {}", in_quotes(pattern),
                                file.string(), few_names(nearest_few(pattern, names, 3))));
  }
  std::vector<LabelName> found;
  for (size_t i = 0; i < all.size(); ++i)
    if (taken[i]) found.push_back(all[i]);
  return found;
}

}  // namespace plimsoll
