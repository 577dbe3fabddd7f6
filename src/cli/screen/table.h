// Aligned text tables, for standard output and for log files, as wide as the screen lets them be.
//
//     Memory at the peak
//
//                   planned      used
//     -------------------------------
//     parameters   4.00 GiB  4.00 GiB
//     activations  1.20 GiB  1.19 GiB
//     -------------------------------
//     total        5.20 GiB  5.19 GiB
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/screen/terminal.h"

namespace plimsoll {

enum class Align : uint8_t { left, right };

/// What a column does where the table is wider than the screen.
enum class Fit : uint8_t {
  whole,   ///< nothing: numbers stay as they are
  end,     ///< its cells end in an ellipsis: operands
  middle,  ///< an ellipsis in their middle: module paths
  fold,    ///< its cells take several lines: prose
  below,   ///< its cells stand under their rows, folded and indented, without a header
};

struct Column {
  std::string name;  ///< the header's cell; without any name the table has no header
  Align align = Align::left;
  Fit fit = Fit::whole;
  size_t least = 0;  ///< columns that are left of it where it gets narrower; its name always stays whole
  int drop = 0;      ///< 0: always shown; of the others the greatest goes first, where nothing else helps
};

class Table {
 public:
  explicit Table(std::vector<Column> columns, std::string title = {});

  /// One row; missing cells at the end are empty. Control characters are shown as '?'. InternalError for more cells
  /// than columns.
  void add_row(std::vector<std::string> cells);
  /// A line across the table, before the next row.
  void add_rule();

  /// Every line ends with a newline and has no spaces at its end. No line is longer than the screen has columns, where
  /// the columns' ways to give room suffice: columns below go under their rows, others are dropped until the least
  /// widths of what is left fit, then the widest get narrower. Columns without a name and without text take no room.
  std::string to_string(const Screen& screen = {}) const;

  /// Whether the column of this name is seen on `screen`.
  bool shows(const std::string& name, const Screen& screen) const;

 private:
  using Row = std::vector<std::string>;
  struct Layout {
    std::vector<size_t> widths;  ///< by column; 0: not shown
    bool below = false;          ///< columns that can stand below do
    size_t total() const;
  };
  Layout layout(size_t columns) const;
  std::vector<size_t> natural_widths() const;
  size_t least_width(size_t column, size_t natural) const;
  std::string format_row(const Row& row, const Layout& layout, size_t columns) const;
  std::vector<std::string> lines_of(const std::string& cell, size_t column, size_t width) const;

  std::vector<Column> columns_;
  std::string title_;
  std::vector<Row> rows_;  ///< an empty row is a rule
};

}  // namespace plimsoll
