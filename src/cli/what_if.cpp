#include "cli/what_if.h"

#include "base/bytes_up.h"
#include "cli/plan_text.h"
#include "plimsoll/bytes.h"
#include "report/table.h"
#include "train/job_units.h"

namespace plimsoll::cli {

std::string what_if_table(const Job& job, const std::vector<ModelChange>& changes, const Screen& screen) {
  Table table({{.name = "change", .fit = Fit::middle, .least = 20},
               {.drop = 2},
               {"fits"},
               {.name = "parameters", .align = Align::right, .drop = 1},
               {"least budget", Align::right},
               {"peak", Align::right},
               {"step", Align::right},
               {unit_of(job) + "/s", Align::right}},
              "What smaller numbers would do");
  for (const ModelChange& each : changes)
    table.add_row({each.change.empty() ? "none" : each.change, each.meaning, each.fits ? "yes" : "no",
                   short_count(static_cast<double>(each.parameters)), format_bytes_up(each.minimum_budget_bytes),
                   format_bytes(each.peak_bytes), each.fits ? short_seconds(each.step_seconds) : "-",
                   each.fits ? short_count(each.tokens_per_second) : "-"});
  return table.to_string(screen);
}

Json what_if_json(const std::vector<ModelChange>& changes) {
  Json list = Json::array();
  for (const ModelChange& each : changes)
    list.push_back({{"change", each.change},
                    {"meaning", each.meaning},
                    {"fits", each.fits},
                    {"parameters", each.parameters},
                    {"minimum_budget_bytes", each.minimum_budget_bytes},
                    {"peak_bytes", each.peak_bytes},
                    {"step_seconds", each.step_seconds},
                    {"units_per_second", each.tokens_per_second}});
  return list;
}

}  // namespace plimsoll::cli
