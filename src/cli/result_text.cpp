#include "cli/result_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "base/text.h"
#include "cli/screen/table.h"
#include "plimsoll/bytes.h"

namespace plimsoll::cli {

std::string verdict_of(const PlannedStep& planned) {
  const Plan& plan = planned.plan;
  const std::string peak = format_bytes(plan.peak_bytes);
  if (plan.budget.device_bytes() == 0) return fmt::format("needs {}; no budget is set", peak);
  const std::string budget = format_bytes(plan.budget.device_bytes());
  // A verdict that leaves out a GPU's context must say so in its own line: people read no further.
  const auto not_counted = std::ranges::find(plan.reasons, "not counted", &Reason::decision);
  const std::string limits = not_counted == plan.reasons.end() ? "" : "; " + not_counted->why;
  if (plan.fits) return fmt::format("fits: {} of {}{}", peak, budget, limits);
  // Two amounts may be equal after rounding; then the bytes are printed too.
  const auto exactly = [&](const std::string& text, int64_t bytes) {
    return peak == budget ? fmt::format("{} ({} bytes)", text, bytes) : text;
  };
  const ProcessMemory& process = planned.process;
  if (process.binds)
    return fmt::format(
        "does not fit: with a plan of {}, the process has {} resident, process_budget is {}; the minimum "
        "is {} ({} bytes){}",
        peak, format_bytes_up(process.total()), format_bytes(process.budget), format_bytes_up(process.minimum),
        process.minimum, limits);
  return fmt::format("does not fit: the peak is {}, the budget is {}; the minimum budget is {} ({} bytes){}",
                     exactly(peak, plan.peak_bytes), exactly(budget, plan.budget.device_bytes()),
                     format_bytes_up(planned.minimum_budget_bytes), planned.minimum_budget_bytes, limits);
}

std::string early_verdict_of(int64_t enough_bytes, int64_t budget_bytes) {
  return fmt::format("fits: {} of {} are enough; searching for the fastest plan", format_bytes_up(enough_bytes),
                     format_bytes(budget_bytes));
}

std::string peak_report(const PlannedStep& planned, const Screen& screen) {
  Table table({{.name = "buffer", .fit = Fit::middle, .min_width = 20},
               {"role"},
               {"size", Align::right},
               {"share", Align::right}},
              "Largest buffers at the peak");
  for (const Resident& resident : largest_at_peak(planned.plan, kResidentsShown)) {
    table.add_row({resident.label, std::string(name_of(resident.role)), format_bytes(resident.bytes),
                   percent_of(resident.bytes, planned.plan.peak_bytes)});
  }
  return fold(verdict_of(planned), screen.columns, 2) + "\n" + table.to_string(screen);
}

int64_t effective_batch_of(const ResolvedSettings& settings) {
  return settings.sequences(settings.first_accumulation()) * settings.ranks.count;
}

std::string describe_effective_batch(const ResolvedSettings& settings) {
  std::string text =
      fmt::format("effective batch {}: micro batch {}", effective_batch_of(settings), describe_micro_batches(settings));
  if (settings.ranks.count > 1) text += fmt::format(" x {} devices", settings.ranks.count);
  const char* separator = ";";
  for (const auto& [epoch, count] : settings.accumulation()) {
    if (epoch == 0) continue;
    text += fmt::format("{} from epoch {} on {} (x {})", separator, epoch,
                        settings.sequences(count) * settings.ranks.count, count);
    separator = ",";
  }
  return text;
}

std::string describe_parameters(const ResolvedSettings& settings) {
  const auto text = [](int64_t count) { return short_count(static_cast<double>(count)); };
  std::string all = text(settings.parameters);
  if (settings.parameters != settings.model_parameters) all += " of " + text(settings.model_parameters);
  if (settings.rank_parameters < settings.parameters)
    all += fmt::format(", {} on a rank", text(settings.rank_parameters));
  return all;
}

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
