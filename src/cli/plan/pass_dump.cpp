#include "cli/plan/pass_dump.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>
#include <vector>

#include "base/atomic_file.h"
#include "base/file_error.h"
#include "cli/screen/table.h"
#include "cli/trace_listing.h"
#include "plimsoll/bytes.h"

namespace plimsoll::cli {

namespace {

constexpr const char* kTableFile = "passes.txt";

struct DumpedPass {
  PassReport report;
  std::string name, listing;  // no listing: the pass did not change the trace
};

std::vector<DumpedPass> passes_of(const PlannedJob& planned) {
  std::vector<DumpedPass> passes;
  observe_passes(planned.recorded, planned.plan, planned.plan_options,
                 [&](const PassReport& report, const Trace& after) {
                   passes.push_back({report, fmt::format("{:02}-{}.txt", passes.size(), report.pass),
                                     report.changed ? listing_of(after, {}, {}) : ""});
                 });
  return passes;
}

// Removes files of an earlier dump, in which a pass may have had another number. Other files of the folder stay.
void remove_earlier(const std::filesystem::path& folder, const std::vector<DumpedPass>& passes) {
  std::error_code error;
  std::vector<std::filesystem::path> earlier;
  for (auto entry = std::filesystem::directory_iterator(folder, error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const bool is_known = std::ranges::any_of(passes, [&](const DumpedPass& each) {
      return is_pass_file(name) && name.substr(3) == fmt::format("{}.txt", each.report.pass);
    });
    if (name == kTableFile || is_known) earlier.push_back(entry->path());
  }
  if (error) throw_file_error("list", folder, error.value());
  for (const std::filesystem::path& file : earlier)
    if (std::filesystem::remove(file, error); error) throw_file_error("remove", file, error.value());
}

}  // namespace

bool is_pass_file(const std::string& name) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return name == kTableFile ||
         (name.size() > 7 && is_digit(name[0]) && is_digit(name[1]) && name[2] == '-' && name.ends_with(".txt"));
}

PassDump dump_passes(const PlannedJob& planned, const std::filesystem::path& folder, const Screen& screen) {
  PassDump dump;
  dump.json = Json::array();
  Table table({{"pass"},
               {"ops", Align::right},
               {"buffers", Align::right},
               {"live", Align::right},
               {"bytes", Align::right},
               {"trace"}},
              "Passes");
  const std::vector<DumpedPass> passes = passes_of(planned);
  for (const auto& [report, name, listing] : passes) {
    table.add_row({std::string(report.pass), std::to_string(report.ops), std::to_string(report.buffers),
                   format_bytes(report.live_bytes), std::to_string(report.live_bytes),
                   report.changed   ? name
                   : report.applied ? "unchanged"
                                    : "not run"});
    dump.json.push_back({{"pass", report.pass},
                         {"applied", report.applied},
                         {"changed", report.changed},
                         {"ops", report.ops},
                         {"buffers", report.buffers},
                         {"live_bytes", report.live_bytes},
                         {"file", report.changed ? Json(name) : Json()}});
  }
  of_key("--dump-passes", [&] {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) throw_file_error("make the folder", folder, error.value());
    remove_earlier(folder, passes);
    for (const DumpedPass& each : passes)
      if (each.report.changed) write_file_atomically(folder / each.name, each.listing);
    write_file_atomically(folder / kTableFile, table.to_string({}));
  });
  dump.table = table.to_string(screen);
  return dump;
}

}  // namespace plimsoll::cli
