// Implements plimsoll place: the placement solver alone, from a CSV of buffers to the same CSV with offsets.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "base/atomic_file.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/placement_csv.h"
#include "cli/process.h"
#include "cli/value_checks.h"
#include "plimsoll/error.h"
#include "plimsoll/placement.h"

namespace plimsoll::cli {
namespace {

constexpr const char* kPlaceExamples =
    "Examples:\n"
    "  plimsoll place buffers.csv --capacity 1MiB --output placed.csv\n"
    "  plimsoll place buffers.csv --capacity 1048576 --alignment 64 --json -\n"
    "\n"
    "FILE.csv has a header with id, lower, upper and size: a buffer is alive in\n"
    "[lower, upper) and takes size bytes. The output has the same rows and a column\n"
    "offset. It goes to --output or to standard output.";

// Effort of the search for a given capacity: a few seconds for a hard problem.
constexpr int64_t kEffort = 4'000'000;

struct PlaceArguments {
  std::string file;
  std::string output_file;  ///< empty: standard output
  PlacementOptions options;
  Output output;
};

Json place_json(const Placement& placement, int64_t capacity, bool fits) {
  return {{"fits", fits},
          {"capacity", capacity},
          {"height", placement.height},
          {"lower_bound", placement.lower_bound},
          {"distance", placement.lower_bound > 0 ? static_cast<double>(placement.height - placement.lower_bound) /
                                                       static_cast<double>(placement.lower_bound)
                                                 : 0.0},
          {"offsets", placement.offsets}};
}

int run_place(const PlaceArguments& arguments) {
  arguments.output.require_writable();
  require_writable({"--output", arguments.output_file});
  const PlacementTable table = read_placement_csv(arguments.file);
  const PlacementOptions& options = arguments.options;
  const Placement placement = place(table.items, options);
  if (const std::string fault = check_placement(table.items, placement, options.alignment); !fault.empty())
    throw InternalError("unsound placement: " + fault);

  const bool fits = placement.height <= options.capacity;
  const Json json = place_json(placement, options.capacity, fits);
  const std::string csv = to_csv(table, placement);
  if (arguments.output_file.empty()) {
    arguments.output.print(csv);
  } else {
    write_file_atomically(arguments.output_file, csv);
  }
  arguments.output.write(json);
  print_status(fmt::format("height {} bytes, lower bound {} bytes, {:.2f} % above it: {} the capacity of {} bytes\n",
                           placement.height, placement.lower_bound, 100 * json["distance"].get<double>(),
                           fits ? "fits" : "does not fit", options.capacity));
  return fits ? kDone : kDoesNotFit;
}

}  // namespace

void add_place(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("place", "assign offsets in one arena to buffers with known lifetimes");
  const auto arguments = std::make_shared<PlaceArguments>();
  command->add_option("FILE.csv", arguments->file, "file with the buffers")->required()->option_text(" ");
  PlacementOptions& options = arguments->options;
  options.effort = kEffort;
  add_bytes_option(*command, "--capacity", options.capacity, "size of the arena in bytes: 1MiB, 1048576")
      ->required()
      ->type_name("N");
  command
      ->add_option("--output", arguments->output_file,
                   "write the rows with their offsets to this file; default: standard output")
      ->type_name("OUT.csv")
      ->check(names_a_file());
  add_bytes_option(*command, "--alignment", options.alignment, "alignment of offsets in bytes (default 1)")
      ->type_name("A");
  add_number_option(
      *command, "--effort", 0, options.effort,
      fmt::format("maximum number of single-buffer placements in the search, about 1 us each (default {})",
                  options.effort))
      ->type_name("E");
  arguments->output.add_option_to(*command);
  command->footer(kPlaceExamples);
  command->callback([&action, arguments] { action = [arguments] { return run_place(*arguments); }; });
}

}  // namespace plimsoll::cli
