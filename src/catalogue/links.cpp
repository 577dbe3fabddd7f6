// Lists the links of the catalogue and finds them by name. Computes the cost of exchanges between ranks from the links
// that connect them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <map>

#include "base/names.h"
#include "base/text.h"
#include "catalogue/catalogue.h"
#include "plimsoll/devices.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

using catalogue::kGiga;

// Latency of a step: the "ring, simple protocol" column of NCCL's cost model, by kind of link.
constexpr double kNvlinkStep = 3.4e-6, kPcieStep = 5.7e-6, kNetworkStep = 9.6e-6;
constexpr const char* kStepSource =
    "latency: one step of a ring, simple protocol, in NCCL's cost model (src/graph/tuning.cc)";

// NCCL's cost model assumes at most 235 of the 300 GB/s of an A100.
constexpr double kNvlinkReach = 235.0 / 300;
constexpr const char* kNvlinkReachSource =
    "reach: derived: 235 of 300 GB/s, the limit for an A100 in NCCL's cost model (src/graph/tuning.cc)";
constexpr const char* kNvlinkReachLike = "reach: estimated: as NVLink 3, 235 of 300 GB/s";

struct Row {
  const char* id;
  const char* name;
  double rate;  ///< GB/s one way
  int64_t max_devices;
  const char* sheet;
  std::vector<std::string> aliases;
};

LinkSpec link_of(const Row& row) {
  LinkSpec link;
  link.id = row.id;
  link.name = row.name;
  link.aliases = row.aliases;
  link.max_devices = row.max_devices;
  link.bytes_per_second = row.rate * kGiga;
  link.sources = {fmt::format("rate: {}", row.sheet)};
  return link;
}

void add_nvlink(std::vector<LinkSpec>& links) {
  static const std::vector<Row> rows = {
      // clang-format off
      {"nvlink2", "NVLink 2 (V100 SXM2)", 150, 0, "NVIDIA Tesla V100 data sheet, 2018: 300 GB/s both ways", {"nvlink2-sxm"}},
      {"nvlink3", "NVLink 3 (A100 SXM4)", 300, 0, "NVIDIA A100 data sheet, 2021: 600 GB/s both ways", {"nvlink3-sxm"}},
      {"nvlink4", "NVLink 4 (H100 SXM5)", 450, 0, "NVIDIA H100 data sheet, 2024: 900 GB/s both ways", {"nvlink4-sxm"}},
      {"nvlink5", "NVLink 5 (B200)", 900, 0, "NVIDIA Blackwell Architecture Technical Brief, 2024: 1.8 TB/s both ways", {"nvlink5-sxm"}},
      {"nvlink2-bridge", "NVLink 2 bridge (RTX 2080 Ti to Quadro RTX 8000)", 50, 2, "NVIDIA Turing GPU Architecture whitepaper, 2018: 100 GB/s both ways", {}},
      {"nvlink3-bridge", "NVLink 3 bridge (RTX 3090, RTX A6000, A40)", 56.25, 2, "NVIDIA Ampere GA102 GPU Architecture whitepaper 2.1, 2021: four links of 14.0625 GB/s each way", {"nvlink3-bridge-ga102"}},
      {"nvlink3-bridge-a30", "NVLink 3 bridge (A30)", 100, 2, "NVIDIA A30 data sheet, 2021: 200 GB/s both ways", {}},
      {"nvlink3-bridge-a100", "NVLink 3 bridges (A100 PCIe)", 300, 2, "NVIDIA A100 data sheet, 2021: 600 GB/s both ways with three bridges", {}},
      {"nvlink4-bridge", "NVLink 4 bridges (H100 PCIe, H100 NVL)", 300, 2, "NVIDIA H100 data sheet, 2024: 600 GB/s both ways", {"nvlink4-bridge-h100"}},
      // clang-format on
  };
  for (const Row& row : rows) {
    LinkSpec& link = links.emplace_back(link_of(row));
    link.reach = kNvlinkReach;
    link.latency_seconds = kNvlinkStep;
    link.sources.emplace_back(link.id == "nvlink3" ? kNvlinkReachSource : kNvlinkReachLike);
    link.sources.emplace_back(kStepSource);
  }
}

void add_infinity_fabric(std::vector<LinkSpec>& links) {
  static const std::vector<Row> rows = {
      // clang-format off
      {"infinity-fabric2", "Infinity Fabric (MI100)", 138, 0, "AMD Instinct MI100 data sheet, 2020: up to 276 GB/s both ways", {"xgmi2"}},
      {"infinity-fabric3", "Infinity Fabric (MI210, MI250)", 150, 0, "AMD Instinct MI210 data sheet, 2022: up to 300 GB/s both ways; a GCD of an MI250: estimated, as an MI210", {"xgmi3"}},
      {"infinity-fabric4", "Infinity Fabric (MI300X, MI325X)", 448, 0, "AMD Instinct MI300X data sheet, 2023: 896 GB/s both ways, over seven links", {"xgmi4"}},
      {"infinity-fabric4-mi350", "Infinity Fabric (MI350X, MI355X)", 537.6, 0, "AMD Instinct MI350X data sheet, 2025: 1075.2 GB/s both ways, over seven links", {"xgmi4-mi350"}},
      // clang-format on
  };
  for (const Row& row : rows) {
    LinkSpec& link = links.emplace_back(link_of(row));
    link.reach = 0.7;
    link.latency_seconds = kNvlinkStep;
    link.sources.emplace_back("reach: estimated: 60 to 80 % are usual with RCCL");
    link.sources.emplace_back("latency: estimated: as NVLink");
  }
}

void add_pcie(std::vector<LinkSpec>& links) {
  for (const int generation : {3, 4, 5})
    for (const int lanes : {4, 8, 16}) {
      LinkSpec& link = links.emplace_back();
      link.id = fmt::format("pcie{}-x{}", generation, lanes);
      link.name = fmt::format("PCI Express {}.0 x{}", generation, lanes);
      link.aliases = {fmt::format("pcie{}.0-x{}", generation, lanes)};
      if (lanes == 16) link.aliases.push_back(fmt::format("pcie{}", generation));
      link.bytes_per_second = catalogue::pcie(generation, lanes) * kGiga;
      link.reach = 0.6;
      link.latency_seconds = kPcieStep;
      link.sources = {fmt::format("rate: derived: PCI Express Base Specification {0}.0, {1} lanes, 128 of 130 bits are "
                                  "data",
                                  generation, lanes),
                      "reach: estimated: 0.8 if devices copy to each other below one switch, about half through host "
                      "memory",
                      kStepSource};
    }
}

void add_networks(std::vector<LinkSpec>& links) {
  struct Class {
    const char* id;
    const char* name;
    int gigabits;
    std::vector<std::string> aliases;
  };
  const auto add = [&](const Class& each, double reach, const char* reach_source, double latency,
                       const char* latency_source, const char* standard) {
    LinkSpec& link = links.emplace_back();
    link.id = each.id;
    link.name = each.name;
    link.aliases = each.aliases;
    link.between_machines = true;
    link.bytes_per_second = each.gigabits / 8.0 * kGiga;
    link.reach = reach;
    link.latency_seconds = latency;
    link.sources = {fmt::format("rate: derived: {}, {} Gbit/s, 8 bits a byte", standard, each.gigabits), reach_source,
                    latency_source};
  };
  for (const Class& each : std::vector<Class>{{"infiniband-hdr", "InfiniBand HDR, 200 Gbit/s", 200, {"hdr", "ib-hdr"}},
                                              {"infiniband-ndr", "InfiniBand NDR, 400 Gbit/s", 400, {"ndr", "ib-ndr"}},
                                              {"infiniband-xdr", "InfiniBand XDR, 800 Gbit/s", 800, {"xdr", "ib-xdr"}}})
    add(each, 0.9, "reach: estimated: 90 to 96 % are usual for large messages", kNetworkStep, kStepSource,
        "InfiniBand Trade Association, InfiniBand Roadmap, four lanes");
  for (const int gigabits : {10, 25, 100, 200, 400}) {
    const std::string id = fmt::format("ethernet-{}", gigabits), name = fmt::format("Ethernet, {} Gbit/s", gigabits);
    add({id.c_str(), name.c_str(), gigabits, {fmt::format("{}gbe", gigabits), fmt::format("eth{}", gigabits)}}, 0.85,
        "reach: estimated: TCP or RoCE, 80 to 90 % for large messages", 30e-6,
        "latency: estimated: a step over TCP; RoCE takes about a third of it", "IEEE 802.3");
  }
}

LinkSpec shared_memory() {
  LinkSpec link;
  link.id = "shared-memory";
  link.name = "shared memory of one host";
  link.aliases = {"shm"};
  link.bytes_per_second = 2e9;
  link.latency_seconds = 20e-6;
  link.sources = {
      "rate: measured: reduce-scatter of 64 MiB of float32 between 2 processes, 32 MiB each in 17 ms, on a "
      "machine with 2 cores, 2026",
      "reach: none: the rate is that of whole exchanges",
      "latency: estimated: processes that wait for each other on shared cores"};
  return link;
}

}  // namespace

const std::vector<LinkSpec>& link_catalogue() {
  static const std::vector<LinkSpec> links = [] {
    std::vector<LinkSpec> all;
    add_nvlink(all);
    add_infinity_fabric(all);
    add_pcie(all);
    add_networks(all);
    all.push_back(shared_memory());
    return all;
  }();
  return links;
}

namespace {

constexpr size_t kMaxLinkName = 100;  // bytes of a name from outside

// Returns letters and digits in lower case: "PCIe 4.0 x16" is "pcie40x16".
std::string link_key(std::string_view name) {
  std::string key;
  for (const char c : name.substr(0, kMaxLinkName))
    if (std::isalnum(static_cast<unsigned char>(c)))
      key += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return key;
}

const std::map<std::string, const LinkSpec*, std::less<>>& link_index() {
  static const auto index = [] {
    std::map<std::string, const LinkSpec*, std::less<>> names;
    const auto add = [&](const std::string& name, const LinkSpec& link) {
      const auto [found, added] = names.emplace(link_key(name), &link);
      check(added || found->second == &link, "two links in the catalogue are called " + name);
    };
    for (const LinkSpec& link : link_catalogue()) {
      add(link.id, link);
      add(link.name, link);
      for (const std::string& alias : link.aliases) add(alias, link);
    }
    return names;
  }();
  return index;
}

}  // namespace

const LinkSpec* find_link(std::string_view name) {
  if (name.size() > kMaxLinkName) return nullptr;
  const auto found = link_index().find(link_key(name));
  return found == link_index().end() ? nullptr : found->second;
}

const LinkSpec& require_link(std::string_view name) {
  if (const LinkSpec* link = find_link(name)) return *link;
  const std::string key = link_key(name);
  std::vector<std::string> meant, ids;
  for (const LinkSpec& link : link_catalogue()) {
    ids.push_back(link.id);
    if (!key.empty() && link_key(link.id + link.name).find(key) != std::string::npos) meant.push_back(link.id);
  }
  if (meant.empty()) {
    std::vector<std::string> known;
    for (const auto& [each, link] : link_index()) known.push_back(each);
    if (const auto close = nearest(key, known)) meant.push_back(link_index().find(*close)->second->id);
  }
  throw UserError(meant.empty()
                      ? fmt::format("unknown link {}; allowed: {}", in_quotes(name), fmt::join(ids, ", "))
                      : fmt::format("unknown link {}; did you mean {}? 'plimsoll gpus --links' lists all links",
                                    in_quotes(name), fmt::join(meant, ", ")));
}

const LinkSpec& require_link(std::string_view name, const DeviceSpec& device) {
  const std::string key = link_key(name);
  const bool own_nvlink = device.peer_link.starts_with("nvlink");
  if (key == "nvlink" || key == "bridge" || key == "nvlinkbridge") {
    if (key != "nvlink" && device.bridge.empty())
      throw UserError(
          fmt::format("{} has no NVLink bridge; allowed: its usual link, {}, or another id of "
                      "'plimsoll gpus --links'",
                      device.name, device.peer_link));
    if (!device.bridge.empty()) return require_link(device.bridge);
    if (own_nvlink) return require_link(device.peer_link);
    throw UserError(
        fmt::format("{} has no NVLink; allowed: its usual link, {}, or another id of 'plimsoll gpus "
                    "--links'",
                    device.name, device.peer_link));
  }
  // "nvlink3" of an RTX A6000 is its bridge of that generation, which is slower than the NVLink 3 of an A100.
  if (key.size() == std::string_view("nvlink3").size() && !device.bridge.empty() && device.bridge.starts_with(key))
    return require_link(device.bridge);
  return require_link(name);
}

namespace {

// A link and the ranks that it connects: groups of `inner` ranks become groups of `outer` ranks.
struct Level {
  const LinkSpec* link;
  int64_t inner, outer;
};

// Returns the number of doublings from 1 to `count`.
int64_t doublings(int64_t count) {
  return count <= 1 ? 0 : std::bit_width(static_cast<uint64_t>(count - 1));
}

void require_positive(const char* what, int64_t value) {
  if (value < 1) throw UserError(fmt::format("{} is {}; allowed: at least 1", what, value));
}

// Returns the levels from the smallest group to all ranks.
std::vector<Level> levels_of(const LinkSpec& link, const LinkSpec& default_link, const PeerTopology& topology) {
  if (link.between_machines) return {{&link, 1, topology.ranks}};  // every rank on a machine of its own
  const int64_t machines = (topology.ranks + topology.devices_per_machine - 1) / topology.devices_per_machine;
  // The rank of the smallest machine sends the most bytes over the network.
  const int64_t in_machine = topology.ranks / machines;
  std::vector<Level> levels;
  int64_t inner = 1;
  const auto join = [&](const LinkSpec& by, int64_t outer) {
    if (outer > inner) levels.push_back({&by, inner, outer});
    inner = std::max(inner, outer);
  };
  join(link, link.max_devices > 0 ? std::min(link.max_devices, in_machine) : in_machine);
  join(default_link, in_machine);
  if (machines > 1) join(require_link(topology.network), topology.ranks);
  return levels;
}

}  // namespace

std::string set_peer_link(CostModel& model, const DeviceSpec* device, const PeerTopology& topology, bool on_cpu) {
  require_positive("the number of devices", topology.ranks);
  require_positive("the number of devices per machine", topology.devices_per_machine);
  model.peer_link = model.peer_latency = 0;
  model.exchanges_overlap = false;
  const LinkSpec& default_link = require_link(device ? device->peer_link : on_cpu ? "shared-memory" : "pcie4-x16");
  const LinkSpec& link = topology.link.empty() ? default_link
                         : device              ? require_link(topology.link, *device)
                                               : require_link(topology.link);
  if (topology.ranks == 1) return "";
  model.exchanges_overlap = !on_cpu || link.between_machines || topology.ranks > topology.devices_per_machine;
  std::vector<std::string> words;
  for (const Level& level : levels_of(link, default_link, topology)) {
    const double share = static_cast<double>(level.outer - level.inner) / static_cast<double>(topology.ranks - 1);
    const double rate = level.link->bytes_per_second * level.link->reach / share;
    model.peer_link = words.empty() ? rate : std::min(model.peer_link, rate);
    const int64_t joined = (level.outer + level.inner - 1) / level.inner;
    model.peer_latency += level.link->latency_seconds * static_cast<double>(doublings(joined));
    words.push_back(level.outer == topology.ranks
                        ? level.link->name
                        : fmt::format("{} between {} devices", level.link->name, level.outer));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

}  // namespace plimsoll
