// Implements plimsoll trace: the recorded training step or the planned schedule, operator by operator, or its ops by
// time.
#include <unistd.h>
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <charconv>
#include <memory>
#include <optional>

#include "base/text.h"
#include "cli/command.h"
#include "cli/job_arguments.h"
#include "cli/screen/terminal.h"
#include "cli/trace_listing.h"
#include "cli/value_checks.h"
#include "plimsoll/devices.h"
#include "plimsoll/train_job.h"

namespace plimsoll::cli {
namespace {

constexpr const char* kTraceExamples =
    "Examples:\n"
    "  plimsoll trace job.yaml --summary\n"
    "  plimsoll trace job.yaml --segment micro --limit 50\n"
    "  plimsoll trace job.yaml --scheduled --json trace.json\n"
    "  plimsoll trace job.yaml --hot              ops by time, on this machine\n"
    "  plimsoll trace job.yaml --gpu a6000 --hot  ops by predicted time, on a GPU\n"
    "\n"
    "Line of an operator: index, phase, name, operands read -> written (! in place),\n"
    "{constants}, cost, module.\n"
    "b12 float32[64, 32] is a tensor in buffer 12; \"at\" and \"by\" give offset and\n"
    "strides in elements.\n"
    "--segment, --limit and --summary limit the listing; the JSON always has the\n"
    "whole trace, and with --hot all kinds of ops by time.";

struct TraceArguments {
  JobArguments job;
  ListingOptions listing;
  bool scheduled = false;
  std::optional<int64_t> hot;  ///< number of ops by time, instead of the listing; 0: as many as fit the screen
  double measure_seconds = 30;
  std::string gpu;
};

int run_hot(const TraceArguments& arguments, const Job& job) {
  const Output& output = arguments.job.output;
  const bool here = arguments.gpu.empty() && job.device == "cpu";
  const PlannedJob planned = here                    ? plan_by_timed_ops(job, arguments.measure_seconds)
                             : arguments.gpu.empty() ? plan_job(job)
                                                     : plan_job(job, target_of(require_device(arguments.gpu)));
  const std::string segment = arguments.listing.segment.value_or("");
  const HotOps hot = hot_ops(planned, segment);
  const std::string whole = segment.empty() ? "a step" : "segment " + segment;
  const CostModel& cost = planned.settings.cost;
  output.print(hot_text(hot, cost, whole, *arguments.hot, screen_of(STDOUT_FILENO)));
  if (output.json_wanted()) output.write(hot_json(hot, cost));
  return kDone;
}

int run_trace(const TraceArguments& arguments) {
  Job job = arguments.job.read();
  job.budget.process.reset();  // nothing is trained
  arguments.job.require_outputs_apart(job);
  const Output& output = arguments.job.output;
  output.require_writable();
  if (arguments.hot) return run_hot(arguments, job);
  const PlannedJob planned = plan_job(job);
  const Trace& trace = arguments.scheduled ? planned.plan.trace : planned.recorded;
  const std::vector<int64_t> offsets = arguments.scheduled ? planned.plan.offsets : std::vector<int64_t>();
  ListingOptions listing = arguments.listing;
  listing.screen = screen_of(STDOUT_FILENO);
  output.print(listing_of(trace, offsets, listing));
  if (output.json_wanted()) output.write(trace_json(trace, offsets));
  return kDone;
}

// Adds --hot, which takes a number or no value (then ""). A word with "=" is an override of the job: `trace job.yaml
// --hot max_steps=8`.
void add_hot(CLI::App& command, TraceArguments& arguments) {
  const auto read = [&arguments](const CLI::results_t& values) {
    arguments.hot = 0;
    if (values.empty() || values.front().empty()) return true;
    const std::string& text = values.front();
    if (text.find('=') != std::string::npos) {
      arguments.job.overrides.push_back(text);
      return true;
    }
    int64_t number = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc() || stop != end || number < 1)
      throw CLI::ValidationError(
          "--hot", in_quotes(text) + " is not a whole number of 1 or more; without a number it stands last");
    arguments.hot = number;
    return true;
  };
  CLI::Option* hot =
      command.add_option("--hot", read,
                         "list the N kinds of ops that take the most time in a step, with the lower bound set by the "
                         "device's rates; N is 20 or what fits the terminal if not given");
  hot->type_name("[N]")->expected(0, 1);
  command
      .add_option("--measure", arguments.measure_seconds,
                  "with --hot: seconds for timing ops, whose times later plans use; 0: use only stored times")
      ->check(between(0.0, 3600.0))
      ->needs(hot)
      ->capture_default_str();
  command
      .add_option("--gpu", arguments.gpu,
                  "with --hot: predict the times for this device of the catalogue instead of timing ops")
      ->type_name("NAME")
      ->needs(hot)
      ->check(not_empty());
  for (const char* other : {"--limit", "--summary", "--scheduled"}) hot->excludes(command.get_option(other));
}

}  // namespace

void add_trace(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("trace", "list the recorded training step, operator by operator");
  const auto arguments = std::make_shared<TraceArguments>();
  arguments->job.add_to(*command);
  command
      ->add_option("--segment", arguments->listing.segment,
                   "list only this segment: initialize, micro, accumulate, remainder, update, evaluate")
      ->type_name("NAME")
      ->check(not_empty());
  add_number_option(*command, "--limit", 1, arguments->listing.limit, "list at most N operators and N buffers")
      ->type_name("N");
  command->add_flag("--summary", arguments->listing.summary, "list only segments and totals");
  command->add_flag("--scheduled", arguments->scheduled,
                    "list the planned schedule, after all passes, with the offsets of buffers");
  add_hot(*command, *arguments);
  command->footer(kTraceExamples);
  command->callback([&action, arguments] { action = [arguments] { return run_trace(*arguments); }; });
}

}  // namespace plimsoll::cli
