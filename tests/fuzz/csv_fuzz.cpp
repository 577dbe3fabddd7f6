// A table in a text file.
#include "files/csv_file.h"
#include "fuzz.h"

using namespace plimsoll;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input = fuzz::text(data, size);
  const std::filesystem::path file = fuzz::write("input.csv", input);
  fuzz::reads(input, [&] {
    CsvFile table(file);
    std::vector<std::string> cells;
    int64_t line = 0;
    size_t bytes = 0;
    while (table.next(cells)) {
      fuzz::require(table.line() > line, "a line comes twice");
      line = table.line();
      for (const std::string& cell : cells) bytes += cell.size();
    }
    fuzz::require(bytes <= size, "cells have more bytes than their file");
  });
  return 0;
}
