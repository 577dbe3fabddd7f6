// Formats aligned text tables for standard output and for log files, as wide as the screen allows, and numbers with
// three significant digits.
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

/// The side of a column at which its cells are aligned.
enum class Align : uint8_t { left, right };

/// Treatment of a column if the table is wider than the screen.
enum class Fit : uint8_t {
  whole,   ///< unchanged: for numbers
  end,     ///< cells end in an ellipsis: for operands
  middle,  ///< cells have an ellipsis in the middle: for module paths
  fold,    ///< cells take several lines: for prose
  below,   ///< cells are printed under their rows, folded and indented, without a header
};

struct Column {
  std::string name;  ///< cell of the header; if no column has a name, the table has no header
  Align align = Align::left;
  Fit fit = Fit::whole;
  size_t min_width = 0;  ///< minimum width in columns when it gets narrower; its name always stays whole
  int drop = 0;          ///< 0: always shown; of the others the largest is dropped first, if nothing else suffices
};

class Table {
 public:
  explicit Table(std::vector<Column> columns, std::string title = {});

  /// Adds a row; missing cells at the end are empty. Control characters are shown as '?'. Throws InternalError for more
  /// cells than columns.
  void add_row(std::vector<std::string> cells);
  /// Adds a line across the table, before the next row.
  void add_rule();

  /// Returns the table. Every line ends with a newline and has no spaces at its end. No line is longer than the
  /// screen's columns, if the columns can give up enough width. First, columns with Fit::below go under their rows.
  /// Then columns are dropped until the minimum widths of the rest fit; then the widest get narrower. Columns without a
  /// name and without text take no width. A last line names the dropped columns
  /// and, in a pipe, the COLUMNS that have them. A table with at least as many lines as
  /// the screen repeats its header below its rows.
  std::string to_string(const Screen& screen = {}) const;

 private:
  using Row = std::vector<std::string>;
  struct Layout {
    std::vector<size_t> widths;  ///< by column; 0: not shown
    bool below = false;          ///< true: columns with Fit::below are printed under their rows
    size_t total() const;
  };
  Layout layout(size_t columns) const;
  std::vector<size_t> natural_widths() const;
  size_t min_width_of(size_t column, size_t natural) const;
  std::string format_row(const Row& row, const Layout& layout, size_t columns) const;
  std::string left_out_note(const Layout& layout, const Screen& screen) const;
  std::vector<std::string> lines_of(const std::string& cell, size_t column, size_t width) const;

  std::vector<Column> columns_;
  std::string title_;
  std::vector<Row> rows_;  ///< an empty row is a rule
};

}  // namespace plimsoll

namespace plimsoll::cli {

/// Returns "12.3 %"; "-" if `whole` is 0.
std::string percent_of(int64_t part, int64_t whole);

/// Returns "1.20 M", "12.3 k", "812".
std::string short_count(double count);

/// Returns "1.25 s", "12.3 ms", "0.5 us".
std::string short_seconds(double seconds);

}  // namespace plimsoll::cli
