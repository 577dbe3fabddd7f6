// Declares the catalogue of links between devices: NVLink, PCI Express, networks, shared memory. Rates are those of
// data sheets, in one direction, each with its source.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/cost_model.h"
#include "plimsoll/devices.h"

namespace plimsoll {

/// A link over which the devices of a training exchange tensors.
struct LinkSpec {
  std::string id;                    ///< "nvlink3", "pcie4-x16", "infiniband-hdr": lower case, unique
  std::string name;                  ///< "NVLink 3 (A100 SXM)"
  std::vector<std::string> aliases;  ///< other names of this link, unique over all links
  bool between_machines = false;     ///< a network; false: a link inside one machine
  int64_t max_devices = 0;           ///< devices that one link connects: 2 for a bridge; 0: any number
  double bytes_per_second = 0;       ///< rate at which one device sends while it receives at the same rate
  double reach = 1;                  ///< share of bytes_per_second that exchanges of large tensors reach, in (0, 1]
  double latency_seconds = 0;        ///< time of one step of a collective
  std::vector<std::string> sources;  ///< "figures: where they come from", as in DeviceSpec
};

/// Returns all links, by kind and generation. Built once; the reference stays valid.
const std::vector<LinkSpec>& link_catalogue();

/// Returns the link with this id, name or alias, or nullptr. Case, spaces and punctuation do not count.
const LinkSpec* find_link(std::string_view name);

/// Returns the link with this id, name or alias. Throws UserError with the nearest names if there is none.
const LinkSpec& require_link(std::string_view name);

/// Returns the link with this name between devices of this kind. "nvlink" is the NVLink of the device; "nvlink",
/// "bridge" and "nvlinkN" mean the bridge if the device has NVLink only through a bridge, of generation N. Throws
/// UserError if the device has no NVLink and the name does not say which generation.
const LinkSpec& require_link(std::string_view name, const DeviceSpec& device);

/// The connections between the ranks of a training.
struct PeerTopology {
  int64_t ranks = 1;                       ///< devices in all, at least 1
  std::string link;                        ///< link inside a machine; empty: the usual link of the device
  int64_t devices_per_machine = 8;         ///< at least 1
  std::string network = "infiniband-hdr";  ///< link between machines, with one adapter for each device
};

/// Sets `peer_link` and `peer_latency` of a cost model. `device` is one of the catalogue; nullptr: ranks are processes
/// on the CPU of one machine if `on_cpu`, else devices on PCI Express 4.0 x16. Returns the links in words; empty for
/// one rank, whose `peer_link` is 0.
///
/// Each rank sends an equal share of its bytes to each other rank. A bridge carries the shares of its pair, the link of
/// a machine those of the other devices in the machine, the network the rest. All links work at the same time, so the
/// slowest one decides:
///   peer_link = min over links of (rate x reach) / (share of the bytes)
/// Steps of a collective double the group: peer_latency = sum over links of latency x ceil(log2(groups joined)).
///
/// Throws UserError for an unknown link and for numbers below 1.
std::string set_peer_link(CostModel& model, const DeviceSpec* device, const PeerTopology& topology,
                          bool on_cpu = false);

}  // namespace plimsoll
