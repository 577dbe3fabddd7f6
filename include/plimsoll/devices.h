// The device catalogue: GPUs that a plan can be made for without having one. Figures are those of data sheets and of
// public reports, each with where it comes from; what this machine's device does is measured instead.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/cost_model.h"

namespace plimsoll {

/// The most that a device computes, in operations a second, without structured sparsity: upper bounds that kernels
/// reach 40 to 90 % of. 0: the hardware has no way of its own to compute in that type.
struct DenseRates {
  double fp32 = 0;  ///< full single precision: vector units, or matrix units that keep all bits (AMD Instinct)
  double tf32 = 0;  ///< matrix units, fp32 in memory
  double fp16 = 0;  ///< matrix units where there are any, sums in fp32: half the advertised figure on GeForce
  double bf16 = 0;  ///< likewise
  double fp8 = 0;   ///< likewise
  double int8 = 0;  ///< sums in int32
};

/// One GPU as libtorch sees it: half an MI250X, one stack of a Max 1550. Amounts in bytes, times in seconds.
struct DeviceSpec {
  std::string id;                    ///< "a6000", "h100-sxm", "m2-16gb": lower case, unique
  std::string name;                  ///< "NVIDIA RTX A6000"
  std::vector<std::string> aliases;  ///< other names that mean this device, unique over all devices
  std::string vendor;                ///< nvidia | amd | apple | intel
  std::string architecture;          ///< "Ampere", "CDNA3 (gfx942)"
  int year = 0;                      ///< in which it came out
  std::string device;                ///< libtorch's name of the backend: cuda | rocm | mps | xpu

  int64_t memory_bytes = 0;             ///< nominal, as sold: a GB of the data sheet is taken as 2^30
  int64_t usable_bytes = 0;             ///< what one program may have, its context included; the driver keeps the rest
  int64_t context_bytes = 0;            ///< of it, what the runtime takes before the first tensor
  int64_t library_workspace_bytes = 0;  ///< of it, what PyTorch's defaults set aside for cuBLAS and its like
  bool unified_memory = false;          ///< one memory with the host: moving there frees nothing

  double memory_bandwidth = 0;  ///< bytes a second
  DenseRates rates;
  double host_link = 0;       ///< bytes a second, one way, of the link itself: copies reach 75 to 90 %
  std::string peer_link;      ///< id of the usual link between such devices of one machine (LinkSpec)
  std::string bridge;         ///< id of the NVLink bridge that connects two of them; empty: the device has none
  double launch_seconds = 0;  ///< from the host's call to the kernel's start, typical

  /// "figures: where they come from", one entry for each group. What we worked out begins with "derived", what is a
  /// judgement with "estimated".
  std::vector<std::string> sources;
};

/// All devices, by vendor and line, about as they came out. Built once; the reference stays good.
const std::vector<DeviceSpec>& device_catalogue();

/// The device that is called so, or null. Case, spaces and punctuation do not count, nor do the maker's words in front:
/// "RTX A6000", "nvidia-a6000" and "A6000" are one, "4090" is the RTX 4090. A name that several sizes share means the
/// one with least memory ("a100": 40 GB): what fits there fits the others, and drivers give no more.
const DeviceSpec* find_device(std::string_view name);

/// The device that a person calls so. Throws UserError, naming the nearest known ones, where there is none, and naming
/// all that it may be where several sizes share the name and are not the same to a plan.
const DeviceSpec& require_device(std::string_view name);

/// Devices with `pattern` in their id, name, an alias, the architecture or the vendor, compared as find_device does;
/// only that one where `pattern` is an id. In the catalogue's order.
std::vector<const DeviceSpec*> devices_matching(std::string_view pattern);

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
