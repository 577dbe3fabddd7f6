#include "cli/json_output.h"

#include <CLI/App.hpp>
#include <algorithm>

#include "base/atomic_file.h"
#include "cli/breakdown_parts.h"
#include "cli/command.h"
#include "cli/output_files.h"

namespace plimsoll::cli {

Json json_of(const Breakdown& breakdown) {
  Json json;
  for_each_part([&](std::string name, int64_t Breakdown::*part) {
    std::ranges::replace(name, ' ', '_');
    json[name] = breakdown.*part;
  });
  return json;
}

Json json_of(const std::vector<Resident>& residents) {
  Json list = Json::array();
  for (const Resident& resident : residents)
    list.push_back({{"label", resident.label}, {"role", name_of(resident.role)}, {"bytes", resident.bytes}});
  return list;
}

void Output::add_option_to(CLI::App& command) {
  command
      .add_option("--json", target_, "write the result as JSON to FILE; -: to standard output, without other output")
      ->type_name("FILE|-")
      ->check([](const std::string& name) {
        return name.empty() ? std::string("--json needs a file name, or - for standard output") : "";
      });
}

void Output::require_writable() const {
  cli::require_writable({"--json", target_});
}

void Output::print(const std::string& text) const {
  if (!to_standard_output()) print_result(text);
}

void Output::write(const Json& json) const {
  if (!json_wanted()) return;
  const std::string text = json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  if (to_standard_output()) {
    print_result(text);
  } else {
    write_file_atomically(target_, text);
  }
}

}  // namespace plimsoll::cli
