#include "cli/json_output.h"

#include <CLI/App.hpp>

#include "base/atomic_file.h"
#include "cli/command.h"
#include "cli/output_files.h"

namespace plimsoll::cli {

Json json_of(const Breakdown& breakdown) {
  return {{"parameters", breakdown.parameters},
          {"gradients", breakdown.gradients},
          {"optimizer_state", breakdown.optimizer_state},
          {"activations", breakdown.activations},
          {"inputs", breakdown.inputs},
          {"workspace", breakdown.workspace},
          {"context", breakdown.context},
          {"fragmentation", breakdown.fragmentation}};
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
