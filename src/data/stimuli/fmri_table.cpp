#include "data/stimuli/fmri_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "base/quoted.h"
#include "data/stimuli/bad_file.h"
#include "files/csv_file.h"
#include "files/data_memory.h"
#include "files/data_notes.h"

namespace plimsoll {
namespace {

// A column rises by one step if its steps differ by at most this fraction: float32 rounds times of 10^3 steps.
constexpr double kStepTolerance = 1e-3;
constexpr int64_t kMinRisingLines = 8;

using Cells = std::vector<std::string>;

class FmriTable {
 public:
  explicit FmriTable(const std::filesystem::path& path) : path_(path), table_(path, true) {}

  FmriSeries read() {
    series_.counted = "columns";
    Cells cells;
    for (bool first = true; table_.next(cells); first = false) {
      if (first && has_names(cells))
        take_names(cells);
      else
        add_volume(cells, first);
    }
    if (series_.volumes == 0) throw bad_file(path_, "it holds no time points");
    judge_first_line();
    judge_first_column();
    note_rising_columns();
    return std::move(series_);
  }

 private:
  [[noreturn]] void refuse_line(int64_t line, const std::string& what) const {
    throw bad_file(path_, fmt::format("line {}{}", line, what));
  }

  std::optional<float> number_of(const std::string& cell) {
    const std::optional<double> number = table_.number(cell);
    if (!number) return std::nullopt;
    const auto value = static_cast<float>(*number);
    if (std::isfinite(*number) && !std::isfinite(value)) return std::nullopt;  // beyond float32
    return value;
  }

  static bool lacks_first_name(const Cells& cells) { return cells.size() > 1 && cells[0].empty(); }

  bool has_names(const Cells& cells) {
    if (lacks_first_name(cells) && are_counting_names(cells, 1)) return true;  // an index and names that count
    return std::ranges::any_of(cells, [](const std::string& cell) { return !cell.empty(); }) &&
           std::ranges::none_of(cells, [this](const std::string& cell) { return number_of(cell).has_value(); });
  }

  void take_names(const Cells& cells) {
    index_cells_ = lacks_first_name(cells) ? 1 : 0;
    series_.names.assign(cells.begin() + index_cells_, cells.end());
    series_.voxels = std::ssize(series_.names);
    note_data(path_,
              fmt::format("line {} is taken as names and left out: {}", table_.line(), few_names(series_.names)));
  }

  void add_volume(const Cells& cells, bool first) {
    const int64_t line = table_.line(), values = std::ssize(cells) - index_cells_;
    if (first) {
      series_.voxels = values;
      first_cells_ = cells;
    }
    if (values != series_.voxels) {
      const bool row_names = series_.volumes == 0 && index_cells_ == 0 && values == series_.voxels + 1;
      refuse_line(line, fmt::format(" has {} values, those before it {}{}", values, series_.voxels,
                                    row_names ? "; if the first is a name of the line, write the table without such "
                                                "names (R: row.names = FALSE)"
                                              : ""));
    }
    if (!first_column_.add(cells[0]) && index_cells_ > 0)
      refuse_line(line, fmt::format(", cell 1: {} is in a column without a name, and does not count as an index does; "
                                    "name the column if it has values, or remove it",
                                    in_quotes(cells[0])));
    if (const size_t count = series_.values.size() + cells.size();
        sizeof(float) * static_cast<double>(count) > data_memory_left())
      require_data_memory(path_.string(), fmt::format("has {} values up to line {}", count, line),
                          sizeof(float) * static_cast<double>(count));
    for (size_t i = static_cast<size_t>(index_cells_); i < cells.size(); ++i) {
      const std::optional<float> value = number_of(cells[i]);
      if (!value)
        refuse_line(line, fmt::format(", cell {}: {} is not a number{}", i + 1, in_quotes(cells[i]),
                                      first ? "; a line of names would have no number" : ""));
      if (!first && cells[i].find_first_not_of("+-0123456789") != std::string::npos) later_lines_are_whole_ = false;
      series_.values.push_back(*value);
    }
    ++series_.volumes;
  }

  /// Refuses a first line 0,1,2,... or 1,2,3,... Such a line of one or two cells may have values if all others are
  /// whole numbers, too.
  void judge_first_line() const {
    if (series_.volumes < 2 || !are_counting_names(first_cells_)) return;
    const bool from_zero = first_cells_[0] == "0", single = first_cells_.size() == 1;
    if (single && (!from_zero || later_lines_are_whole_)) return;
    if (!from_zero && first_cells_.size() == 2 && later_lines_are_whole_) return;
    throw bad_file(path_, fmt::format("the first line counts: {}; programs write such a line if columns have no names; "
                                      "remove it (pandas: header=False), or write it as 0.0, 1.0, ... if it has values",
                                      few_names(first_cells_)));
  }

  void judge_first_column() const {
    if (index_cells_ > 0)
      note_data(path_, fmt::format("the first column has no name and {}; it is left out as an index",
                                   first_column_.describe()));
    else if (series_.voxels > 1 && first_column_.is_certain())
      throw bad_file(path_,
                     fmt::format("{} {}, as an index does; remove it (pandas: index=False), or write its numbers "
                                 "as 0.0, 1.0, ... if they are values",
                                 series_.name_of_voxel(0), first_column_.describe()));
  }

  /// Notes voxels that rise by one step from line to line, as the time does.
  void note_rising_columns() const {
    if (series_.volumes < kMinRisingLines) return;
    std::vector<std::string> rising;
    for (int64_t voxel = 0; voxel < series_.voxels; ++voxel) {
      const auto value = [&](int64_t line) {
        return double{series_.values[static_cast<size_t>(line * series_.voxels + voxel)]};
      };
      const double step = value(1) - value(0);
      bool rises = step > 0;
      for (int64_t line = 2; line < series_.volumes && rises; ++line)
        rises = std::abs(value(line) - value(line - 1) - step) <= kStepTolerance * step;
      if (rises) rising.push_back(series_.name_of_voxel(voxel));
    }
    if (!rising.empty())
      note_data(path_, fmt::format("columns that rise by one step from line to line, as the time does, are taken as "
                                   "values: {}; remove them if they are none",
                                   few_names(rising)));
  }

  const std::filesystem::path& path_;
  CsvFile table_;
  FmriSeries series_;
  Cells first_cells_;  // the first line; empty if it has names
  IndexColumn first_column_;
  int64_t index_cells_ = 0;  // 1: the first column has no name, and is an index
  bool later_lines_are_whole_ = true;
};

}  // namespace

FmriSeries read_fmri_table(const std::filesystem::path& path) {
  return FmriTable(path).read();
}

}  // namespace plimsoll
