#include "cli/screen/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr size_t kColumnGap = 2;
constexpr size_t kIndentBelow = 2;

std::string bold(const std::string& text, const Screen& screen) {
  return screen.bold ? "\x1b[1m" + text + "\x1b[0m" : text;
}

std::string without_end_spaces(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

}  // namespace

Table::Table(std::vector<Column> columns, std::string title)
    : columns_(std::move(columns)), title_(without_controls(title)) {
  check(!columns_.empty(), "Table: no columns");
  for (Column& column : columns_) column.name = without_controls(column.name);
}

void Table::add_row(std::vector<std::string> cells) {
  check(cells.size() <= columns_.size(), "Table: a row has more cells than there are columns");
  for (std::string& cell : cells) cell = without_controls(cell);
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

void Table::add_rule() {
  rows_.emplace_back();
}

size_t Table::Layout::total() const {
  size_t total = 0;
  for (size_t width : widths) total += width > 0 ? width + kColumnGap : 0;
  return total > 0 ? total - kColumnGap : 0;
}

std::vector<size_t> Table::natural_widths() const {
  std::vector<size_t> widths;
  for (const Column& column : columns_) widths.push_back(display_width(column.name));
  for (const Row& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], display_width(row[i]));
  }
  return widths;
}

size_t Table::min_width_of(size_t column, size_t natural) const {
  const Column& of = columns_[column];
  if (of.fit == Fit::whole || of.fit == Fit::below) return natural;
  return std::min(natural, std::max({of.min_width, display_width(of.name), size_t{1}}));
}

Table::Layout Table::layout(size_t columns) const {
  Layout layout{natural_widths()};
  if (layout.total() <= columns) return layout;
  layout.below = true;
  for (size_t i = 0; i < columns_.size(); ++i)
    if (columns_[i].fit == Fit::below) layout.widths[i] = 0;

  const auto least_of_all = [&] {
    Layout least = layout;
    for (size_t i = 0; i < columns_.size(); ++i) least.widths[i] = min_width_of(i, layout.widths[i]);
    return least.total();
  };
  while (least_of_all() > columns) {
    size_t chosen = columns_.size();
    for (size_t i = 0; i < columns_.size(); ++i)
      if (columns_[i].drop > 0 && layout.widths[i] > 0 &&
          (chosen == columns_.size() || columns_[i].drop > columns_[chosen].drop))
        chosen = i;
    if (chosen == columns_.size()) break;
    layout.widths[chosen] = 0;
  }
  while (layout.total() > columns) {
    size_t widest = columns_.size();
    for (size_t i = 0; i < columns_.size(); ++i)
      if (layout.widths[i] > min_width_of(i, layout.widths[i]) &&
          (widest == columns_.size() || layout.widths[i] > layout.widths[widest]))
        widest = i;
    if (widest == columns_.size()) break;
    --layout.widths[widest];
  }
  return layout;
}

std::vector<std::string> Table::lines_of(const std::string& cell, size_t column, size_t width) const {
  switch (columns_[column].fit) {
    case Fit::end:
      return {shorten_end(cell, width)};
    case Fit::middle:
      return {shorten_middle(cell, width)};
    case Fit::fold:
      return folded_lines(cell, width, 0, LongWords::cut);
    case Fit::whole:
    case Fit::below:
      break;
  }
  return {cell};
}

std::string Table::format_row(const Row& row, const Layout& layout, size_t columns) const {
  std::vector<std::vector<std::string>> cells;
  size_t height = 1;
  for (size_t i = 0; i < row.size(); ++i) {
    cells.push_back(layout.widths[i] > 0 ? lines_of(row[i], i, layout.widths[i]) : std::vector<std::string>());
    height = std::max(height, cells.back().size());
  }
  std::string text;
  for (size_t l = 0; l < height; ++l) {
    std::string line;
    bool first = true;
    for (size_t i = 0; i < row.size(); ++i) {
      if (layout.widths[i] == 0) continue;
      if (!std::exchange(first, false)) line.append(kColumnGap, ' ');
      const std::string cell = l < cells[i].size() ? cells[i][l] : "";
      const std::string padding(layout.widths[i] - display_width(cell), ' ');
      line += columns_[i].align == Align::right ? padding + cell : cell + padding;
    }
    text += without_end_spaces(std::move(line)) + "\n";
  }
  if (!layout.below) return text;
  for (size_t i = 0; i < row.size(); ++i) {
    if (columns_[i].fit != Fit::below || row[i].empty()) continue;
    const std::string indent(kIndentBelow, ' ');
    for (const std::string& line : folded_lines(row[i], columns - kIndentBelow, kIndentBelow, LongWords::cut))
      text += indent + line + "\n";
  }
  return text;
}

std::string Table::to_string(const Screen& screen) const {
  const Layout layout = this->layout(screen.columns);
  const std::string rule(layout.total(), '-');
  Row header;
  for (const Column& column : columns_)
    header.push_back(layout.below && column.fit == Fit::below ? std::string() : column.name);

  std::string text;
  if (!title_.empty()) {
    for (const std::string& line : folded_lines(title_, screen.columns)) text += bold(line, screen) + "\n";
    text += "\n";
  }
  std::string names;  // the line of the header; empty: there is none
  if (std::ranges::any_of(header, [](const std::string& name) { return !name.empty(); })) {
    names = format_row(header, layout, screen.columns);
    names.pop_back();
    names = bold(names, screen) + "\n";
    text += names + rule + "\n";
  }
  for (const Row& row : rows_) text += row.empty() ? rule + "\n" : format_row(row, layout, screen.columns);
  const std::string note = left_out_note(layout, screen);
  const auto lines = static_cast<size_t>(std::ranges::count(text, '\n') + std::ranges::count(note, '\n'));
  if (!names.empty() && lines >= screen.lines) text += rule + "\n" + names;  // the header has scrolled off the top
  return text + note;
}

std::string Table::left_out_note(const Layout& layout, const Screen& screen) const {
  std::string names;
  Layout all{natural_widths(), /*below=*/true};
  for (size_t i = 0; i < columns_.size(); ++i) {
    const bool below = columns_[i].fit == Fit::below;
    all.widths[i] = below ? 0 : min_width_of(i, all.widths[i]);
    if (columns_[i].drop > 0 && layout.widths[i] == 0 && !(layout.below && below) && !columns_[i].name.empty())
      names += (names.empty() ? "" : ", ") + columns_[i].name;
  }
  if (names.empty()) return "";
  const std::string wider =
      screen.lines == kAnyWidth ? "COLUMNS=" + std::to_string(all.total()) : std::string("a wider terminal");
  return fold(
      "Left out on " + std::to_string(screen.columns) + " columns: " + names + "; " + wider + " and --json have them.",
      screen.columns, kIndentBelow);
}

}  // namespace plimsoll

namespace plimsoll::cli {
namespace {

// Returns three significant digits.
std::string figures(double value) {
  return fmt::format("{:.{}f}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
}

}  // namespace

std::string percent_of(int64_t part, int64_t whole) {
  if (whole == 0) return "-";
  return fmt::format("{:.1f} %", 100 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string short_count(double count) {
  constexpr std::array<const char*, 5> units = {"", " k", " M", " G", " T"};
  size_t unit = 0;
  while (unit + 1 < units.size() && count >= 999.5) {
    count /= 1000;
    ++unit;
  }
  if (unit == 0 && count == static_cast<double>(static_cast<int64_t>(count))) return fmt::format("{:.0f}", count);
  return figures(count) + units[unit];
}

std::string short_seconds(double seconds) {
  if (seconds < 0.9995e-3) return figures(seconds * 1e6) + " us";
  if (seconds < 0.9995) return figures(seconds * 1e3) + " ms";
  return figures(seconds) + " s";
}

}  // namespace plimsoll::cli
