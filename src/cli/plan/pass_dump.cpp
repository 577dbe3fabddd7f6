#include "cli/plan/pass_dump.h"

#include <fmt/format.h>

#include <system_error>

#include "base/atomic_file.h"
#include "base/file_error.h"
#include "base/key_errors.h"
#include "cli/trace/trace_listing.h"
#include "plimsoll/bytes.h"
#include "report/table.h"

namespace plimsoll::cli {

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
  of_key("--dump-passes", [&] {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) throw_file_error("make the folder", folder, error.value());
    observe_passes(
        planned.recorded, planned.plan, planned.plan_options, [&](const PassReport& report, const Trace& after) {
          const std::string name = fmt::format("{:02}-{}.txt", dump.json.size(), report.pass);
          if (report.changed)
            write_file_atomically(folder / name, listing_of(after, {}, {}));
          else
            std::filesystem::remove(folder / name, error);
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
        });
    write_file_atomically(folder / "passes.txt", table.to_string({}));
  });
  dump.table = table.to_string(screen);
  return dump;
}

}  // namespace plimsoll::cli
