// Reads tables in text files line by line: RFC 4180's CSV, and variants that spreadsheets, pandas and R write.
//
// Bounds: a line has at most 64 MiB and 2^20 cells. Memory: one line, with its cells at most 32 MiB + 3 x its bytes,
// and the first 8 lines.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "files/file_kind.h"
#include "files/text_file.h"

namespace plimsoll {

namespace tables {

inline constexpr FileFact kFacts[] = {
    {"table", "separator", "applied",
     "comma, semicolon or tab: the one that the first line has; of several the one that cuts the first 8 lines into "
     "equal numbers of cells; else the table is refused; numbers of fMRI series may be between blanks"},
    {"table", "double quotes", "applied", "a separator within them is a letter, and \"\" is a quote"},
    {"table", "decimal comma", "applied",
     "with a note; both marks in one table are refused, and so is '1,234' unless semicolons separate cells"},
    {"table", "names in the first line", "applied",
     "series and pictures need them; an fMRI series has them if no cell of the first line is a number, with a note"},
    {"table", "names that count (0,1,2)", "refused", "write names, or values as 0.0,1.0,2.0"},
    {"table", "first column without a name", "applied",
     "an index that counts is left out with a note; other values are refused"},
    {"table", "first column with a name that counts the lines", "refused",
     "it is an index; remove it, or write values as 0.0, 1.0"},
    {"table", "further columns without a name", "refused", "in series and pictures; name or remove them"},
    {"table", "lines of other numbers of cells", "refused", "write every cell, or leave it empty"},
    {"table", "empty cells, ? and nan", "applied", "missing values of a series; an fMRI series refuses empty cells"},
    {"table", "series (or sample, id), label (or class), time", "applied",
     "columns of series, in any case of letters; the others are channels; two columns of one name are refused"},
};
static_assert(are_complete(kFacts));

}  // namespace tables

/// A reader of cells. The separator is a comma, semicolon or tab, chosen by the first lines. A cell may be in double
/// quotes, within which a separator is a letter and "" a quote; blanks around cells are ignored. Empty lines are
/// skipped. A cell ends with its line: quotes that do not close are an error.
class CsvFile {
 public:
  /// `blanks`: cells may also lie between blanks and tabs, several of which are one separator.
  /// Throws UserError that names the file if it cannot be read, is no text, or if its separator is ambiguous.
  explicit CsvFile(const std::filesystem::path& file, bool blanks = false);

  /// Reads the next line's cells; returns false at the end. Throws UserError (failure) with file and line: quotes that
  /// do not close, a line of more than 64 MiB.
  bool next(std::vector<std::string>& cells);

  /// Returns the number that a cell has, or nothing. The texts nan and inf are numbers. A comma within the
  /// cell may be the decimal mark; the first is noted (files/file_kind.h). Throws UserError (failure) with
  /// file and line: decimal points and commas in one table, and a comma that may separate thousands.
  std::optional<double> number(std::string_view cell);

  /// Returns the line number in the file, from 1, of the cells that next() returned last.
  int64_t line() const { return line_; }
  std::string place() const;  ///< "table.csv:3"

 private:
  [[noreturn]] void refuse(const std::string& what) const;
  bool next_line(std::string& text);
  char chosen_separator();
  void split(std::string_view text, std::vector<std::string>& cells) const;
  void split_at_blanks(std::string_view text, std::vector<std::string>& cells) const;
  std::string take_quoted(std::string_view& text) const;

  std::filesystem::path path_;
  TextLines lines_;
  bool blanks_;
  std::deque<std::pair<int64_t, std::string>> ahead_;  // lines that were read to choose the separator
  std::string text_, first_point_, first_comma_;       // cells with a decimal mark
  char separator_ = ',';                               // ' ': blanks and tabs
  int64_t line_ = 0;
};

/// Returns true if the cells are whole numbers that count up by 1 from 0 or from 1, as programs name columns without
/// names.
bool are_counting_names(const std::vector<std::string>& cells, size_t first = 0);

/// A judge of whether a column counts the lines of its table: whole numbers with one step between neighbors.
class IndexColumn {
 public:
  /// Takes the next cell of the column; returns false if the column does not count.
  bool add(std::string_view cell);

  /// Returns true if the column counts and has enough cells that this is no chance: 3 for a step of 1, 8 for others.
  bool is_certain() const { return counts_ && cells_ >= (step_ == 1 ? 3 : 8); }
  std::string describe() const;  ///< "counts from 0 to 39"

 private:
  bool counts_ = true;
  int64_t cells_ = 0, first_ = 0, last_ = 0, step_ = 0;
};

}  // namespace plimsoll
