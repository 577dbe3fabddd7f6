#include "catalogue/catalogue.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <utility>

#include "base/names.h"
#include "base/text.h"
#include "plimsoll/bytes.h"
#include "plimsoll/devices.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr size_t kMaxNameLength = 100;  // bytes of a name from outside; the longest known name has half of that
constexpr size_t kShown = 6;            // number of names that an error lists

// Words for maker and product line, which distinguish no two devices. "quadro" and "pro" do.
constexpr std::array<std::string_view, 12> kMakersWords = {"nvidia", "geforce",  "tesla", "rtx",   "gtx", "amd",
                                                           "radeon", "instinct", "rx",    "intel", "arc", "apple"};

// Returns letters and digits in lower case, without additions of drivers: "Intel(R) Arc(TM) A770 Graphics" is
// "intelarca770".
std::string letters_of(std::string_view name) {
  std::string letters;
  for (const char c : name.substr(0, kMaxNameLength))
    letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const std::string_view added : {"(r)", "(tm)", "graphics"})
    for (size_t at = letters.find(added); at != std::string::npos; at = letters.find(added))
      letters.erase(at, added.size());
  std::erase_if(letters, [](char c) { return !((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')); });
  return letters;
}

// Returns letters_of() without the maker's words in front. Never empty if the name has a letter: "rtx" stays "rtx".
std::string key_of(std::string_view name) {
  std::string key = letters_of(name);
  for (bool again = true; again;) {
    again = false;
    for (const std::string_view word : kMakersWords) {
      if (key.size() <= word.size() || !key.starts_with(word)) continue;
      key.erase(0, word.size());
      again = true;
    }
  }
  return key;
}

using Index = std::map<std::string, const DeviceSpec*, std::less<>>;

// Returns the index of all names' keys. Two devices with one name are an error in the tables.
Index index_of(const std::vector<DeviceSpec>& devices) {
  Index index;
  const auto add = [&index](const std::string& name, const DeviceSpec& device) {
    const auto [found, added] = index.emplace(key_of(name), &device);
    check(added || found->second == &device, "two devices in the catalogue are called " + name);
  };
  for (const DeviceSpec& device : devices) {
    add(device.id, device);
    add(device.name, device);
    for (const std::string& alias : device.aliases) add(alias, device);
  }
  return index;
}

const Index& names() {
  static const Index index = index_of(device_catalogue());
  return index;
}

bool contains(std::string_view text, std::string_view part) {
  return letters_of(text).find(part) != std::string::npos;
}

bool matches(const DeviceSpec& device, std::string_view key) {
  return contains(device.id, key) || contains(device.name, key) || contains(device.architecture, key) ||
         contains(device.vendor, key) ||
         std::ranges::any_of(device.aliases, [key](const std::string& alias) { return contains(alias, key); });
}

size_t common_beginning(std::string_view a, std::string_view b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

// Returns the names at the smallest distance that nearest() finds, those that begin like `key` first. For "a600",
// "a6000" lacks a digit, and "7600" differs in one letter as well.
std::vector<std::string> nearest_names(const std::string& key) {
  std::vector<std::string> known;
  for (const auto& [other, device] : names()) known.push_back(other);
  const auto meant = nearest(key, known);
  if (!meant) return {};
  const size_t least = edit_distance(key, *meant);
  std::erase_if(known, [&](const std::string& other) { return edit_distance(key, other) > least; });
  std::ranges::stable_sort(known, std::greater(),
                           [&](const std::string& other) { return common_beginning(key, other); });
  return known;
}

// Returns the likeliest ids, best first: the nearest spellings, then names that contain the word.
std::vector<std::string> suggestions(std::string_view name) {
  std::vector<std::string> ids;
  const auto add = [&ids](const DeviceSpec& device) {
    if (ids.size() < kShown && std::ranges::find(ids, device.id) == ids.end()) ids.push_back(device.id);
  };
  const std::string key = key_of(name);
  for (const std::string& meant : nearest_names(key)) add(*names().find(meant)->second);
  for (const DeviceSpec& device : device_catalogue())
    if (!key.empty() && matches(device, key)) add(device);
  return ids;
}

// Returns the ids that the name with key `key` of `device` may mean. The device's id and full name mean only this
// device. So do names that drivers report, because they are no shorthand of a table.
std::vector<std::string> variants_meant(const DeviceSpec& device, const std::string& key) {
  const auto is_shorthand = [](const std::string& alias) {
    return std::ranges::none_of(alias, [](unsigned char c) { return std::isupper(c) != 0 || c == ' '; });
  };
  std::vector<std::string> ids;
  if (key_of(device.id) == key || key_of(device.name) == key) return ids;
  for (const std::string& alias : device.aliases)
    if (key_of(alias) == key && is_shorthand(alias))
      for (const DeviceSpec* each : catalogue::variants_called(device, alias)) ids.push_back(each->id);
  return ids;
}

}  // namespace

std::string catalogue::pcie_link(int generation, double gigabytes) {
  for (const int lanes : {4, 8, 16})
    if (std::abs(pcie(generation, lanes) / gigabytes - 1) < 0.01) return fmt::format("pcie{}-x{}", generation, lanes);
  throw InternalError(fmt::format("no PCI Express {}.0 link has {} GB/s", generation, gigabytes));
}

DeviceSpec catalogue::device_of_vendor(const Vendor& vendor, int year) {
  DeviceSpec device;
  device.vendor = vendor.name;
  device.year = year;
  device.device = vendor.device;
  device.launch_seconds = vendor.launch_seconds;
  return device;
}

std::vector<std::string> catalogue::sources_of(const Vendor& vendor, const char* sheet, const std::string& rates,
                                               const char* usable, const char* peer_link) {
  return {fmt::format("memory, bandwidth, host link: {}", sheet),
          "rates: " + rates,
          usable,
          vendor.context_source,
          vendor.workspace_source,
          fmt::format("peer link: {}", peer_link),
          vendor.launch_source};
}

const std::vector<DeviceSpec>& device_catalogue() {
  static const std::vector<DeviceSpec> devices = [] {
    std::vector<DeviceSpec> all;
    for (std::vector<DeviceSpec>& some : std::array{catalogue::nvidia_devices(), catalogue::amd_devices(),
                                                    catalogue::apple_devices(), catalogue::intel_devices()})
      std::ranges::move(some, std::back_inserter(all));
    for (DeviceSpec& device : all) catalogue::set_matmul_rates(device);
    return all;
  }();
  return devices;
}

const DeviceSpec* find_device(std::string_view name) {
  if (name.size() > kMaxNameLength) return nullptr;
  const auto found = names().find(key_of(name));
  return found == names().end() ? nullptr : found->second;
}

const DeviceSpec& require_device(std::string_view name) {
  if (const DeviceSpec* device = find_device(name)) {
    if (std::vector<std::string> ids = variants_meant(*device, key_of(name)); ids.size() > 1)
      throw UserError(fmt::format("GPU {} is not one device: there are {} and {}; name one", in_quotes(name),
                                  fmt::join(ids.begin(), ids.end() - 1, ", "), ids.back()));
    return *device;
  }
  std::string message = fmt::format("unknown GPU {}", in_quotes(name));
  if (key_of(name).empty()) throw UserError(message + "; 'plimsoll gpus' lists those that are known");
  for (const char* vendor : {"nvidia", "amd", "apple", "intel"})
    if (key_of(name) == vendor || letters_of(name) == vendor)
      throw UserError(
          fmt::format("{}: that is a vendor; 'plimsoll gpus --vendor {}' lists its devices", message, vendor));
  for (const char* device : {"cuda", "rocm", "mps", "hip", "gpu", "cpu", "auto", "all"})
    if (letters_of(name.substr(0, name.find(':'))) == device)
      throw UserError(fmt::format("{}: a plan is for a model, such as rtx4090; 'plimsoll gpus' lists them", message));
  const std::vector<std::string> meant = suggestions(name);
  message += meant.empty() ? ";" : fmt::format("; did you mean {}?", fmt::join(meant, ", "));
  throw UserError(message + " 'plimsoll gpus' lists those that are known");
}

std::vector<const DeviceSpec*> devices_matching(std::string_view pattern) {
  std::vector<const DeviceSpec*> found;
  if (pattern.size() > kMaxNameLength) return found;
  const std::string key = key_of(pattern);
  if (key.empty()) return found;
  for (const DeviceSpec& device : device_catalogue())
    if (key_of(device.id) == key) return {&device};
  // The pattern as written comes before the one without the maker's words: "rx 7900" does not match W7900, "nvidia"
  // alone is a vendor.
  for (const std::string& part : {letters_of(pattern), key}) {
    for (const DeviceSpec& device : device_catalogue())
      if (matches(device, part)) found.push_back(&device);
    if (!found.empty()) break;
  }
  return found;
}

}  // namespace plimsoll

namespace plimsoll::catalogue {
namespace {

/// Form factors of a data center's card, as the ids write them: a digit may follow ("sxm4").
constexpr std::array<std::string_view, 3> kForms = {"sxm", "pcie", "nvl"};

bool is_digit(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}

bool is_size(std::string_view word) {
  return word.size() > 2 && word.ends_with("gb") && std::all_of(word.begin(), word.end() - 2, is_digit);
}

/// Returns "sxm" for "sxm4"; "" if the word is not a form factor.
std::string_view form_of(std::string_view word) {
  for (const std::string_view form : kForms)
    if (word.starts_with(form) &&
        std::all_of(word.begin() + static_cast<std::ptrdiff_t>(form.size()), word.end(), is_digit))
      return form;
  return "";
}

/// Parts of a name: "a100-40gb-sxm" has a family, and the properties that distinguish its members.
struct Name {
  std::string family;     ///< "a100"
  std::string_view size;  ///< "40gb"; empty: not given
  std::string_view form;  ///< "sxm"; empty: not given
};

Name parts_of(std::string_view name) {
  Name parts;
  while (!name.empty()) {
    const std::string_view word = name.substr(0, name.find('-'));
    name.remove_prefix(std::min(name.size(), word.size() + 1));
    if (is_size(word))
      parts.size = word;
    else if (const std::string_view form = form_of(word); !form.empty())
      parts.form = form;
    else
      parts.family += word;
  }
  return parts;
}

bool same_to_a_plan(const DeviceSpec& a, const DeviceSpec& b) {
  const auto figures = [](const DeviceSpec& each) {
    const DenseRates &rates = each.rates, &matmul = each.matmul_rates;
    return std::array{static_cast<double>(each.usable_bytes),
                      static_cast<double>(each.context_bytes),
                      static_cast<double>(each.library_workspace_bytes),
                      each.memory_bandwidth,
                      each.host_link,
                      static_cast<double>(each.pcie_generation),
                      each.launch_seconds,
                      rates.fp32,
                      rates.tf32,
                      rates.fp16,
                      rates.bf16,
                      rates.fp8,
                      rates.int8,
                      matmul.fp32,
                      matmul.fp16,
                      matmul.bf16,
                      static_cast<double>(each.matmul_reports),
                      static_cast<double>(each.multiprocessors)};
  };
  return a.device == b.device && figures(a) == figures(b);
}

}  // namespace

std::vector<const DeviceSpec*> variants_called(const DeviceSpec& device, std::string_view alias) {
  const Name family = parts_of(device.id), requested = parts_of(alias);
  std::vector<const DeviceSpec*> found;
  for (const DeviceSpec& each : device_catalogue()) {
    const Name name = parts_of(each.id);
    if (name.family != family.family || (!requested.form.empty() && name.form != requested.form)) continue;
    // An id without a size still has one memory size.
    if (!requested.size.empty() && requested.size != std::to_string(each.memory_bytes / GiB) + "gb") continue;
    found.push_back(&each);
  }
  if (std::ranges::all_of(found, [&](const DeviceSpec* each) { return same_to_a_plan(*each, device); }))
    return {&device};
  return found;
}

}  // namespace plimsoll::catalogue

namespace plimsoll {

namespace {

// Seconds of a load from a GPU's memory: about 500 cycles at 1.7 GHz (Luo et al., arXiv 2402.13499: 466 to 542 cycles
// on A100, H100 and RTX 4090). A matmul's tile begins with a load and ends with a store.
constexpr double kMemoryLatency = 0.3e-6;

// Returns true for cards that libtorch's flash kernels run on: they need compute capability 8.0.
bool has_flash_attention(const DeviceSpec& device) {
  return device.architecture != "Pascal" && device.architecture != "Volta" && device.architecture != "Turing";
}

// Returns true for chips whose matrix units are fed by groups of warps. Flash kernels of libtorch feed them by single
// warps, which limits each multiprocessor.
bool has_warpgroup_units(const DeviceSpec& device) {
  return device.architecture == "Hopper" || device.id == "b200" || device.id == "gb200";
}

// Sets how far predictions may be off, by what is known of each constant (docs/predictions.md).
void set_uncertainty(CostModel& model, const DeviceSpec& device) {
  // Reports of one card differ by 2 to 15 %, cards of one class by 10 to 20 %. Tiles of other vendors are not modeled.
  const double reported = device.matmul_reports >= 3  ? 0.05
                          : device.matmul_reports > 0 ? 0.10
                          : device.vendor == "nvidia" ? 0.20
                                                      : 0.30;
  const double rate = device.vendor == "nvidia" ? reported : std::max(reported, 0.20);
  // Matmuls of one size differ by 10 % from those of the best one, and two cards of a kind by 5 %.
  const double matmul = std::sqrt(rate * rate + 0.10 * 0.10 + 0.05 * 0.05);
  model.uncertainty.fill(0.15);  // copies reach 0.75 to 0.92 of the bandwidth
  for (const OpKind kind : {OpKind::product, OpKind::loss_head}) model.uncertainty[static_cast<int>(kind)] = matmul;
  for (const OpKind kind : {OpKind::attention, OpKind::convolution, OpKind::random})
    model.uncertainty[static_cast<int>(kind)] = std::sqrt(rate * rate + 0.25 * 0.25);
}

// Sets the rates of copies between device and host.
void set_host_link(CostModel& model, const DeviceSpec& device, const KernelEfficiency& efficiency) {
  if (device.unified_memory) return;  // device and host share their memory: offloading to the host frees nothing
  const double one_way = device.pcie_generation >= 5   ? efficiency.link5
                         : device.pcie_generation == 4 ? efficiency.link4
                                                       : efficiency.link;
  const double both_ways = device.pcie_generation >= 5   ? efficiency.link5_duplex
                           : device.pcie_generation == 4 ? efficiency.link4_duplex
                                                         : efficiency.link;
  model.host_link = device.host_link * one_way;
  model.host_link_duplex = device.host_link * both_ways;
}

}  // namespace

CostModel cost_model_of(const DeviceSpec& device, const KernelEfficiency& efficiency) {
  CostModel model;
  model.device = device.name;
  model.source = "catalogue";
  model.overhead_seconds = device.launch_seconds;
  set_host_link(model, device, efficiency);
  if (model.host_link > 0) {  // the host's properties are not known
    model.disk_link = kTypicalDiskLink;
    model.host_bytes = kTypicalHostBytes;
  }
  const double bytes = device.memory_bandwidth * efficiency.bandwidth;
  // A device without units for a 16-bit type computes in float32.
  const auto fill = [&](OpKind kind, const DenseRates& rates, double share) {
    const double half = rates.fp16 > 0 ? rates.fp16 : rates.fp32, brain = rates.bf16 > 0 ? rates.bf16 : rates.fp32;
    model.rate(kind, DType::float64) = {rates.fp32 / 32 * share, bytes};
    model.rate(kind, DType::float32) = {rates.fp32 * share, bytes};
    model.rate(kind, DType::bfloat16) = {brain * share, bytes};
    model.rate(kind, DType::float16) = {half * share, bytes};
  };
  fill(OpKind::product, device.matmul_rates, 1);
  fill(OpKind::loss_head, device.matmul_rates, 1);
  fill(OpKind::convolution, device.rates, efficiency.convolution);
  fill(OpKind::attention, device.matmul_rates, efficiency.attention);
  if (has_warpgroup_units(device))
    for (OpRate& rate : model.rates[static_cast<int>(OpKind::attention)])
      rate.flops = std::min(rate.flops, efficiency.attention_of_unit * device.multiprocessors);
  for (OpKind kind : {OpKind::streaming, OpKind::reduction, OpKind::random, OpKind::update})
    for (OpRate& rate : model.rates[static_cast<int>(kind)]) rate = {0, bytes};
  model.gpu = {.is_gpu = true,
               .flash_attention = has_flash_attention(device),
               .multiprocessors = device.multiprocessors,
               .tile_seconds = 2 * kMemoryLatency,
               .attention_backward = efficiency.attention_backward};
  set_uncertainty(model, device);
  return model;
}

}  // namespace plimsoll
