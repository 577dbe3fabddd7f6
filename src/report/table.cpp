#include "report/table.h"

#include <algorithm>
#include <utility>

#include "plimsoll/error.h"
#include "report/text_width.h"

namespace plimsoll {
namespace {

constexpr size_t kGap = 2;

std::string bold(const std::string& text, bool terminal) {
  return terminal ? "\x1b[1m" + text + "\x1b[0m" : text;
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

std::string Table::format_row(const Row& row, const std::vector<size_t>& widths) const {
  std::string line;
  for (size_t i = 0; i < row.size(); ++i) {
    if (i > 0) line.append(kGap, ' ');
    std::string padding(widths[i] - display_width(row[i]), ' ');
    line += columns_[i].align == Align::right ? padding + row[i] : row[i] + padding;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

std::string Table::to_string(bool terminal) const {
  Row header;
  for (const Column& column : columns_) header.push_back(column.name);
  std::vector<size_t> widths;
  for (const std::string& name : header) widths.push_back(display_width(name));
  for (const Row& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], display_width(row[i]));
  }
  size_t total = kGap * (widths.size() - 1);
  for (size_t width : widths) total += width;
  const std::string rule(total, '-');

  std::string text;
  if (!title_.empty()) text += bold(title_, terminal) + "\n\n";
  if (std::ranges::any_of(header, [](const std::string& name) { return !name.empty(); })) {
    text += bold(format_row(header, widths), terminal) + "\n" + rule + "\n";
  }
  for (const Row& row : rows_) text += (row.empty() ? rule : format_row(row, widths)) + "\n";
  return text;
}

}  // namespace plimsoll
