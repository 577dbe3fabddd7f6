// Implements plimsoll compare: measures the steps from float32 to the planner's choice.
#include <fmt/format.h>
#include <unistd.h>
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <exception>
#include <functional>
#include <memory>

#include "cli/command.h"
#include "cli/job_arguments.h"
#include "cli/process.h"
#include "cli/result_text.h"
#include "cli/screen/progress.h"
#include "cli/screen/terminal.h"
#include "cli/value_checks.h"
#include "plimsoll/compare.h"
#include "plimsoll/error.h"

namespace plimsoll::cli {
namespace {

constexpr const char* kCompareExamples =
    "Examples:\n"
    "  plimsoll compare examples/small-lm/quickstart.yaml\n"
    "  plimsoll compare job.yaml memory_budget=2GiB --steps 10 --json compare.json\n"
    "\n"
    "Each row trains a few steps on this machine, from the start, with the same data\n"
    "and the same effective batch. The ops of each row are timed first, so that\n"
    "predicted times are those of this machine. The last line names the smallest and\n"
    "the fastest row within the job's memory_budget.\n"
    "\n";

struct CompareArguments {
  JobArguments job;
  int64_t steps = CompareOptions().steps;
  double seconds = CompareOptions().measure_seconds;
};

Json json_of_rows(const std::vector<CompareRow>& rows, int64_t steps) {
  Json list = Json::array();
  for (const CompareRow& row : rows)
    list.push_back({{"name", row.name},
                    {"settings", row.settings},
                    {"fits", row.fits},
                    {"budget_bytes", row.budget_bytes},
                    {"planned_peak_bytes", row.planned_peak_bytes},
                    {"measured_peak_bytes", row.measured_peak_bytes},
                    {"planned_host_bytes", row.planned_host_bytes},
                    {"measured_host_bytes", row.measured_host_bytes},
                    {"planned_disk_bytes", row.planned_disk_bytes},
                    {"measured_disk_bytes", row.measured_disk_bytes},
                    {"predicted_step_seconds", row.predicted_step_seconds},
                    {"measured_step_seconds", row.measured_step_seconds},
                    {"final_loss", row.final_loss}});
  return {{"steps", steps}, {"rows", list}};
}

int run_compare(const CompareArguments& arguments) {
  const Job job = arguments.job.read();
  if (job.ranks.count > 1)
    throw UserError(fmt::format(
        "compare trains on one device, but the job has devices: {}; add devices=1 to compare on one of them",
        job.ranks.count));
  arguments.job.require_outputs_apart(job);
  arguments.job.output.require_writable();
  require_device_of(job);
  ignore_sigpipe();
  const StopSignals signals("stopping after this step; press Ctrl-C again to stop immediately");
  Progress progress("compare", 0, progress_on_standard_error());
  CompareOptions options;
  options.steps = arguments.steps;
  options.measure_seconds = arguments.seconds;
  options.stop = [&] { return signals.received() != 0; };
  options.on_row = [&](int index, int count, const std::string& name) {
    progress.note(fmt::format("row {} of {}: {}", index + 1, count, name));
  };
  const std::vector<CompareRow> rows = compare_job(job, options);
  progress.finish();
  // If one output fails, the other is still written, and a received signal is not lost.
  std::exception_ptr failed;
  const auto print = [&] {
    const Screen screen = screen_of(STDOUT_FILENO);
    const std::string summary = compare_summary(rows, job.budget.device_bytes());
    arguments.job.output.print(compare_table(rows, options.steps, screen) +
                               (summary.empty() ? "" : "\n" + fold(summary, screen.columns)));
  };
  for (const std::function<void()>& hand_out :
       {std::function<void()>([&] { arguments.job.output.write(json_of_rows(rows, options.steps)); }),
        std::function<void()>(print)}) {
    try {
      hand_out();
    } catch (const UserError& error) {  // a failure in any case: the rows are trained
      if (!failed) failed = std::make_exception_ptr(UserError(error.what(), UserError::Kind::failure));
    }
  }
  signals.end_as_received();
  if (failed) std::rethrow_exception(failed);
  return rows.empty() || !rows.back().fits ? kDoesNotFit : kDone;
}

}  // namespace

void add_compare(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("compare", "train a job with one memory saving after another and measure each");
  const auto arguments = std::make_shared<CompareArguments>();
  arguments->job.add_to(*command);
  command->add_option("--steps", arguments->steps, "training steps per row")
      ->check(between(3, 100000))
      ->capture_default_str();
  command->add_option("--measure", arguments->seconds, "seconds per row for timing its ops; 0: use only stored times")
      ->check(between(0.0, 3600.0))
      ->capture_default_str();
  command->footer(kCompareExamples + memory_keys_help());
  command->callback([&action, arguments] { action = [arguments] { return run_compare(*arguments); }; });
}

}  // namespace plimsoll::cli
