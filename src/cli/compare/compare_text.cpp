#include "cli/compare/compare_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "cli/screen/short_numbers.h"
#include "cli/screen/table.h"
#include "plimsoll/bytes.h"

namespace plimsoll::cli {
namespace {

// Returns the memory of a row compared with row 1; "-" if row 1 was not trained.
std::string ratio_of(const CompareRow& row, const CompareRow& first) {
  if (!first.fits || first.measured_peak_bytes == 0) return "-";
  return fmt::format("{:.2f}",
                     static_cast<double>(row.measured_peak_bytes) / static_cast<double>(first.measured_peak_bytes));
}

// Returns "1.20 GiB and 3.00 GiB of host memory, 0.31 of row 1; 12 ms a step".
std::string figures_of(const CompareRow& row, const CompareRow& first) {
  std::string text = format_bytes(row.measured_peak_bytes);
  if (row.measured_host_bytes > 0) text += fmt::format(" and {} of host memory", format_bytes(row.measured_host_bytes));
  if (row.measured_disk_bytes > 0) text += fmt::format(" and {} of disk", format_bytes(row.measured_disk_bytes));
  if (const std::string ratio = ratio_of(row, first); ratio != "-") text += fmt::format(", {} of row 1", ratio);
  return text + fmt::format("; {} a step", short_seconds(row.measured_step_seconds));
}

}  // namespace

std::string compare_table(const std::vector<CompareRow>& rows, int64_t steps, const Screen& screen) {
  Table table({{.fit = Fit::fold, .min_width = 16},
               {"planned", Align::right},
               {"measured", Align::right},
               {"ratio", Align::right},
               {"step", Align::right},
               {"predicted", Align::right},
               {.name = fmt::format("loss, step {}", steps), .align = Align::right, .drop = 1},
               {.name = "settings", .fit = Fit::below}},
              "Measured on this machine (ratio: memory compared with row 1)");
  for (const CompareRow& row : rows) {
    std::vector<std::string> cells{row.name, format_bytes(row.planned_peak_bytes)};
    if (row.fits)
      cells.insert(cells.end(), {format_bytes(row.measured_peak_bytes), ratio_of(row, rows.front()),
                                 short_seconds(row.measured_step_seconds), short_seconds(row.predicted_step_seconds),
                                 fmt::format("{:.4f}", row.final_loss)});
    else
      cells.insert(cells.end(), {"no fit", "", "", "", ""});
    cells.push_back(row.settings);
    table.add_row(std::move(cells));
  }
  return table.to_string(screen);
}

std::string compare_summary(const std::vector<CompareRow>& rows, int64_t budget) {
  if (rows.empty()) return "";
  std::vector<CompareRow> within;
  std::ranges::copy_if(rows, std::back_inserter(within), [&](const CompareRow& row) {
    return row.fits && (budget == 0 || row.measured_peak_bytes <= budget);
  });
  if (within.empty()) {
    const CompareRow& least = *std::ranges::min_element(rows, {}, &CompareRow::planned_peak_bytes);
    return fmt::format("No row fits{}; the smallest is '{}', with a planned peak of {}.",
                       budget > 0 ? " the budget of " + format_bytes(budget) : "", least.name,
                       format_bytes(least.planned_peak_bytes));
  }
  const CompareRow& smallest = *std::ranges::min_element(
      within, {}, [](const CompareRow& row) { return std::tuple(row.measured_peak_bytes, row.measured_step_seconds); });
  const CompareRow& fastest = *std::ranges::min_element(
      within, {}, [](const CompareRow& row) { return std::tuple(row.measured_step_seconds, row.measured_peak_bytes); });
  const std::string of =
      budget > 0 ? fmt::format("Within the budget of {}", format_bytes(budget)) : "Of the rows that fit";
  if (&smallest == &fastest)
    return fmt::format("{}, '{}' is the smallest and the fastest ({}).", of, smallest.name,
                       figures_of(smallest, rows.front()));
  return fmt::format("{}, '{}' is the smallest ({}), and '{}' is the fastest ({}).", of, smallest.name,
                     figures_of(smallest, rows.front()), fastest.name, figures_of(fastest, rows.front()));
}

}  // namespace plimsoll::cli
