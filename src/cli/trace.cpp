// plimsoll trace: the recorded training step, or the planned schedule, operator by operator.
#include <unistd.h>

#include <CLI/App.hpp>
#include <memory>

#include "cli/command.h"
#include "cli/job_arguments.h"
#include "cli/number_options.h"
#include "cli/trace_json.h"
#include "cli/trace_listing.h"
#include "plimsoll/train_job.h"
#include "report/terminal.h"

namespace plimsoll::cli {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  plimsoll trace job.yaml --summary\n"
    "  plimsoll trace job.yaml --segment micro --limit 50\n"
    "  plimsoll trace job.yaml --scheduled --json trace.json\n\n"
    "An operator's line: index, phase, name, what it reads -> what it writes (! in place), {constants}, cost, module.\n"
    "b12 float32[64, 32] is a tensor in buffer 12; \"at\" and \"by\" give offset and strides in elements.\n"
    "--segment, --limit and --summary choose what is listed; the JSON always holds the whole trace.";

struct TraceArguments {
  JobArguments job;
  ListingOptions listing;
  bool scheduled = false;
};

int run_trace(const TraceArguments& arguments) {
  const Job job = arguments.job.read();
  const Output& output = arguments.job.output;
  output.require_writable();
  const PlannedJob planned = plan_job(job);
  const Trace& trace = arguments.scheduled ? planned.plan.trace : planned.recorded;
  const std::vector<int64_t> offsets = arguments.scheduled ? planned.plan.offsets : std::vector<int64_t>();
  ListingOptions listing = arguments.listing;
  listing.terminal = colour_allowed(STDOUT_FILENO);
  output.print(listing_of(trace, offsets, listing));
  if (output.json_wanted()) output.write(trace_json(trace, offsets));
  return kDone;
}

}  // namespace

void add_trace(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("trace", "list the recorded training step, operator by operator");
  const auto arguments = std::make_shared<TraceArguments>();
  arguments->job.add_to(*command);
  command
      ->add_option("--segment", arguments->listing.segment,
                   "only this one: initialize, micro, accumulate, remainder, update, evaluate")
      ->type_name("NAME");
  add_number_option(*command, "--limit", 1, arguments->listing.limit, "list at most N operators and N buffers")
      ->type_name("N");
  command->add_flag("--summary", arguments->listing.summary, "segments and totals only");
  command->add_flag("--scheduled", arguments->scheduled, "the schedule after all passes, with the buffers' places");
  command->footer(kExamples);
  command->callback([&action, arguments] { action = [arguments] { return run_trace(*arguments); }; });
}

}  // namespace plimsoll::cli
