// Computes the cost of exchanges between ranks from the links that connect them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>

#include "plimsoll/devices.h"
#include "plimsoll/error.h"

namespace plimsoll {
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
