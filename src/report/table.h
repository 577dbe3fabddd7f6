// Aligned text tables, for standard output and for log files.
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

namespace plimsoll {

enum class Align : uint8_t { left, right };

struct Column {
  std::string name;  ///< the header's cell; without any name the table has no header
  Align align = Align::left;
};

class Table {
 public:
  explicit Table(std::vector<Column> columns, std::string title = {});

  /// One row; missing cells at the end are empty. Control characters are shown as '?'. InternalError for more cells
  /// than columns.
  void add_row(std::vector<std::string> cells);
  /// A line across the table, before the next row.
  void add_rule();

  /// Every line ends with a newline and has no spaces at its end. With `terminal` title and header are bold, by an ANSI
  /// sequence: see colour_allowed in report/terminal.h.
  std::string to_string(bool terminal = false) const;

 private:
  using Row = std::vector<std::string>;
  std::string format_row(const Row& row, const std::vector<size_t>& widths) const;

  std::vector<Column> columns_;
  std::string title_;
  std::vector<Row> rows_;  ///< an empty row is a rule
};

}  // namespace plimsoll
