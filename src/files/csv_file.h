// Reads tables in text files line by line: RFC 4180's CSV, and variants that spreadsheets write.
//
// Bounds: a line has at most 64 MiB and 2^20 cells. Only one line is in memory; it takes with its cells at most 32 MiB
// + 3 x its bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "files/text_file.h"

namespace plimsoll {

/// A reader of cells between commas, or between semicolons or tabs if the first line has no comma and has these. A cell
/// may be in double quotes, within which a separator is a letter and "" a quote; blanks around cells are ignored. Empty
/// lines and a byte order mark are skipped. A cell ends with its line: quotes that do not close are an error.
class CsvFile {
 public:
  /// Throws UserError (failure) that names the file if it cannot be read.
  explicit CsvFile(const std::filesystem::path& file);

  /// Reads the next line's cells; returns false at the end. Throws UserError (failure) with file and line: quotes that
  /// do not close, a line of more than 64 MiB.
  bool next(std::vector<std::string>& cells);

  /// Returns the line number in the file, from 1, of the cells that next() returned last.
  int64_t line() const { return lines_.line(); }
  std::string place() const { return lines_.place(); }  ///< "table.csv:3"

 private:
  TextLines lines_;
  std::string text_;
  char separator_ = '\0';
};

}  // namespace plimsoll
