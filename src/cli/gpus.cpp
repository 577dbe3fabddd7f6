// Implements plimsoll gpus: the device catalogue as a table, or one device with every figure and its source.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <array>
#include <cctype>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/names.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/screen/table.h"
#include "cli/screen/terminal.h"
#include "cli/value_checks.h"
#include "plimsoll/bytes.h"
#include "plimsoll/devices.h"
#include "plimsoll/error.h"

namespace plimsoll::cli {
namespace {

constexpr const char* kGpusExamples =
    "Examples:\n"
    "  plimsoll gpus                                  all GPUs in the catalogue\n"
    "  plimsoll gpus a6000                            one GPU, with sources\n"
    "  plimsoll gpus h100 mi300x --json -\n"
    "  plimsoll gpus --vendor apple --min-memory 32GiB\n"
    "  plimsoll gpus --links                          links between devices\n"
    "\n"
    "PATTERN is an id or a part of a name, an architecture or a vendor: 4090, a100,\n"
    "ada, amd. Rates are dense, in TFLOP/s; -: the hardware has no such rate.\n"
    "docs/devices.md explains the columns.";

constexpr std::array<const char*, 4> kVendors = {"nvidia", "amd", "apple", "intel"};

using Devices = std::vector<const DeviceSpec*>;

struct GpusArguments {
  std::vector<std::string> patterns;  ///< empty: all devices
  std::string vendor;                 ///< empty: all vendors
  int64_t min_memory = 0;             ///< bytes of nominal memory
  bool links = false;                 ///< list links instead
  Output output;
};

// Returns the devices in the catalogue's order, each once. A pattern without a match is a name: known by another
// spelling, or unknown.
Devices named(const std::vector<std::string>& patterns) {
  std::set<const DeviceSpec*> wanted;
  for (const std::string& pattern : patterns) {
    const Devices matching = devices_matching(pattern);
    wanted.insert(matching.begin(), matching.end());
    if (matching.empty()) wanted.insert(&require_device(pattern));
  }
  Devices devices;
  for (const DeviceSpec& device : device_catalogue())
    if (patterns.empty() || wanted.contains(&device)) devices.push_back(&device);
  return devices;
}

Devices chosen(const GpusArguments& arguments) {
  Devices devices = named(arguments.patterns);
  std::erase_if(devices, [&](const DeviceSpec* device) {
    return device->memory_bytes < arguments.min_memory ||
           (!arguments.vendor.empty() && device->vendor != arguments.vendor);
  });
  return devices;
}

std::string rate_of(double rate) {
  return rate > 0 ? fmt::format("{:.1f}", rate / 1e12) : "-";
}

std::string gib_of(int64_t bytes) {
  return fmt::format("{:.2f}", static_cast<double>(bytes) / static_cast<double>(GiB));
}

std::string link_of(const DeviceSpec& device) {
  return device.unified_memory ? "unified" : fmt::format("{:.1f}", device.host_link / 1e9);
}

std::string table_of(const Devices& devices, const Screen& screen) {
  Table table({{"gpu"},
               {.name = "name", .fit = Fit::end, .min_width = 28},
               {"usable GiB", Align::right},
               {"of", Align::right},
               {"GB/s", Align::right},
               {"bf16", Align::right},
               {.name = "fp16", .align = Align::right, .drop = 2},
               {.name = "fp32", .align = Align::right, .drop = 1},
               {.name = "host GB/s", .align = Align::right, .drop = 3},
               {.name = "context MiB", .align = Align::right, .drop = 4}},
              fmt::format("GPUs in the catalogue ({})", devices.size()));
  for (const DeviceSpec* device : devices)
    table.add_row({device->id, device->name, gib_of(device->usable_bytes), std::to_string(device->memory_bytes / GiB),
                   fmt::format("{:.0f}", device->memory_bandwidth / 1e9), rate_of(device->rates.bf16),
                   rate_of(device->rates.fp16), rate_of(device->rates.fp32), link_of(*device),
                   std::to_string(device->context_bytes / MiB)});
  return table.to_string(screen);
}

std::string details_of(const DeviceSpec& device, const Screen& screen) {
  Table table({{""}, {"", Align::right}}, fmt::format("{} ({})", device.name, device.id));
  table.add_row({"architecture", device.architecture});
  table.add_row({"year", std::to_string(device.year)});
  table.add_row({"device", device.device});
  if (!device.aliases.empty()) table.add_row({"also called", fmt::format("{}", fmt::join(device.aliases, ", "))});
  table.add_rule();
  table.add_row({"memory, nominal", format_bytes(device.memory_bytes)});
  table.add_row({"memory, usable", format_bytes(device.usable_bytes)});
  table.add_row({"context, part of it", format_bytes(device.context_bytes)});
  table.add_row({"library workspaces, part of it", format_bytes(device.library_workspace_bytes)});
  table.add_row({"left for a training step",
                 format_bytes(device.usable_bytes - device.context_bytes - device.library_workspace_bytes)});
  table.add_row({"bandwidth", fmt::format("{:.0f} GB/s", device.memory_bandwidth / 1e9)});
  table.add_row({"host link, one way", fmt::format("{:.1f} GB/s{}", device.host_link / 1e9,
                                                   device.unified_memory ? " (unified memory)" : "")});
  const LinkSpec& link = require_link(device.peer_link);
  table.add_row(
      {"link between devices, one way", fmt::format("{:.1f} GB/s ({})", link.bytes_per_second / 1e9, link.id)});
  if (!device.bridge.empty())
    table.add_row({"bridge between two devices, one way",
                   fmt::format("{:.1f} GB/s ({})", require_link(device.bridge).bytes_per_second / 1e9, device.bridge)});
  table.add_row({"kernel launch", fmt::format("{:.0f} us", device.launch_seconds * 1e6)});
  table.add_rule();
  const auto add_rate = [&](const char* type, double rate) {
    table.add_row({type, rate > 0 ? rate_of(rate) + " TFLOP/s" : "-"});
  };
  add_rate("fp32", device.rates.fp32);
  add_rate("tf32", device.rates.tf32);
  add_rate("fp16", device.rates.fp16);
  add_rate("bf16", device.rates.bf16);
  add_rate("fp8", device.rates.fp8);
  add_rate("int8", device.rates.int8);
  std::string text = table.to_string(screen) + "\nSources\n\n";
  for (const std::string& source : device.sources) text += fold(source, screen.columns, 2);
  return text;
}

std::string text_of(const Devices& devices, const Screen& screen) {
  if (devices.empty()) return "no GPU in the catalogue matches\n";
  return devices.size() == 1 ? details_of(*devices.front(), screen) : table_of(devices, screen);
}

Json json_of(const DeviceSpec& device) {
  return {{"id", device.id},
          {"name", device.name},
          {"aliases", device.aliases},
          {"vendor", device.vendor},
          {"architecture", device.architecture},
          {"year", device.year},
          {"device", device.device},
          {"memory_bytes", device.memory_bytes},
          {"usable_bytes", device.usable_bytes},
          {"context_bytes", device.context_bytes},
          {"library_workspace_bytes", device.library_workspace_bytes},
          {"unified_memory", device.unified_memory},
          {"memory_bandwidth", device.memory_bandwidth},
          {"rates",
           {{"fp32", device.rates.fp32},
            {"tf32", device.rates.tf32},
            {"fp16", device.rates.fp16},
            {"bf16", device.rates.bf16},
            {"fp8", device.rates.fp8},
            {"int8", device.rates.int8}}},
          {"host_link", device.host_link},
          {"pcie_generation", device.pcie_generation},
          {"peer_link", device.peer_link},
          {"bridge", device.bridge.empty() ? Json() : Json(device.bridge)},
          {"launch_seconds", device.launch_seconds},
          {"sources", device.sources}};
}

std::string links_text(const Screen& screen) {
  Table table({{"link"},
               {.name = "name", .fit = Fit::end, .min_width = 20},
               {"GB/s", Align::right},
               {"reach", Align::right},
               {.name = "step us", .align = Align::right, .drop = 2},
               {.name = "also called", .fit = Fit::end, .min_width = 8, .drop = 1}},
              fmt::format("Links in the catalogue ({}); rates one way", link_catalogue().size()));
  for (const LinkSpec& link : link_catalogue())
    table.add_row({link.id, link.name, fmt::format("{:.4g}", link.bytes_per_second / 1e9),
                   fmt::format("{:.2f}", link.reach), fmt::format("{:.1f}", link.latency_seconds * 1e6),
                   fmt::format("{}", fmt::join(link.aliases, ", "))});
  std::string text = table.to_string(screen) + "\nSources\n\n";
  for (const LinkSpec& link : link_catalogue())
    text += fold(fmt::format("{}: {}", link.id, fmt::join(link.sources, "; ")), screen.columns, 2);
  return text;
}

Json links_json() {
  Json list = Json::array();
  for (const LinkSpec& link : link_catalogue())
    list.push_back({{"id", link.id},
                    {"name", link.name},
                    {"aliases", link.aliases},
                    {"between_machines", link.between_machines},
                    {"max_devices", link.max_devices},
                    {"bytes_per_second", link.bytes_per_second},
                    {"reach", link.reach},
                    {"latency_seconds", link.latency_seconds},
                    {"sources", link.sources}});
  return list;
}

int run_gpus(const GpusArguments& arguments) {
  if (arguments.links) {
    if (!arguments.patterns.empty() || !arguments.vendor.empty() || arguments.min_memory > 0)
      throw UserError("--links lists all links; leave out PATTERN, --vendor and --min-memory");
    arguments.output.require_writable();
    arguments.output.print(links_text(screen_of(STDOUT_FILENO)));
    arguments.output.write({{"links", links_json()}});
    return kDone;
  }
  // Every device has that many bytes, so a number without a unit is meant in GiB.
  if (arguments.min_memory > 0 && arguments.min_memory < MiB)
    throw UserError(fmt::format("--min-memory is {0} bytes; did you mean {0}GiB?", arguments.min_memory));
  const Devices devices = chosen(arguments);
  arguments.output.require_writable();
  Json list = Json::array();
  for (const DeviceSpec* device : devices) list.push_back(json_of(*device));
  arguments.output.print(text_of(devices, screen_of(STDOUT_FILENO)));
  arguments.output.write({{"gpus", list}});
  return kDone;
}

CLI::Option* add_vendor_option(CLI::App& command, std::string& target) {
  const std::vector<std::string> known(kVendors.begin(), kVendors.end());
  const auto read = [&target, known](const std::string& text) {
    target = text;
    std::ranges::transform(target, target.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (std::ranges::find(known, target) != known.end()) return;
    std::string message = fmt::format("{} is no vendor; allowed: {}", in_quotes(text), fmt::join(known, ", "));
    if (const auto meant = nearest(text, known)) message += fmt::format("; did you mean '{}'?", *meant);
    throw CLI::ValidationError("--vendor", message);
  };
  return command.add_option_function<std::string>("--vendor", read, "list only the devices of this vendor");
}

}  // namespace

void add_gpus(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("gpus", "list the GPUs of the catalogue, for which a job can be planned on any machine");
  const auto arguments = std::make_shared<GpusArguments>();
  command->add_option("PATTERN", arguments->patterns, "ids or parts of names; default: all GPUs")->option_text("...");
  add_vendor_option(*command, arguments->vendor)->type_name("nvidia|amd|apple|intel");
  add_bytes_option(*command, "--min-memory", arguments->min_memory,
                   "list only GPUs with at least N bytes of nominal memory, for example 16GiB")
      ->type_name("N");
  command->add_flag("--links", arguments->links, "list the links between devices instead, with their sources");
  arguments->output.add_option_to(*command);
  command->footer(kGpusExamples);
  command->callback([&action, arguments] { action = [arguments] { return run_gpus(*arguments); }; });
}

}  // namespace plimsoll::cli
