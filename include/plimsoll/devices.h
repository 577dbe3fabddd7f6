// Declares the catalogues of devices and links: GPUs that a plan can be made for without having one.
//
// The figures are those of data sheets and public reports, each with its source. Rates of this machine's device are
// measured instead.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/cost_model.h"

namespace plimsoll {

/// A device's arithmetic rates in operations a second, without structured sparsity. Those of data sheets are at a
/// nominal clock: kernels reach 40 to 115 %. 0: the hardware does not compute in that type.
struct DenseRates {
  double fp32 = 0;  ///< full single precision: vector units, or matrix units that keep all bits (AMD Instinct)
  double tf32 = 0;  ///< matrix units, fp32 in memory
  double fp16 = 0;  ///< matrix units if there are any, sums in fp32: half the advertised figure on GeForce
  double bf16 = 0;  ///< matrix units if there are any, sums in fp32: half the advertised figure on GeForce
  double fp8 = 0;   ///< matrix units if there are any, sums in fp32: half the advertised figure on GeForce
  double int8 = 0;  ///< sums in int32
};

/// One GPU as libtorch sees it: half an MI250X, one stack of a Max 1550. Amounts in bytes, times in seconds.
struct DeviceSpec {
  std::string id;                    ///< "a6000", "h100-sxm", "m2-16gb": lower case, unique
  std::string name;                  ///< "NVIDIA RTX A6000"
  std::vector<std::string> aliases;  ///< other names that mean this device, unique over all devices
  std::string vendor;                ///< nvidia | amd | apple | intel
  std::string architecture;          ///< "Ampere", "CDNA3 (gfx942)"
  int year = 0;                      ///< year of release
  std::string device;                ///< libtorch's name of the backend: cuda | rocm | mps | xpu

  int64_t memory_bytes = 0;   ///< nominal, as sold: 1 GB of the data sheet is counted as 2^30
  int64_t usable_bytes = 0;   ///< bytes that one program may use, its context included; the driver keeps the rest
  int64_t context_bytes = 0;  ///< part of usable_bytes that the runtime uses before the first tensor
  /// Part of usable_bytes that PyTorch's defaults reserve for cuBLAS and similar libraries.
  int64_t library_workspace_bytes = 0;
  bool unified_memory = false;  ///< true: device and host share one memory, so offloading frees nothing

  double memory_bandwidth = 0;  ///< bytes a second
  DenseRates rates;
  DenseRates matmul_rates;    ///< operations a second that large matmuls of libtorch reach: fp32, fp16 and bf16 only
  int matmul_reports = 0;     ///< published measurements behind bf16's, or fp16's; 0: derived from cards like it
  int multiprocessors = 0;    ///< 0: not known
  double host_link = 0;       ///< nominal bytes a second of the link, one way: copies reach 80 to 90 %
  int pcie_generation = 0;    ///< generation of PCI Express of the host link; 0: another link
  std::string peer_link;      ///< id of the usual link between such devices of one machine (LinkSpec)
  std::string bridge;         ///< id of the NVLink bridge that connects two of them; empty: the device has none
  double launch_seconds = 0;  ///< typical seconds from the host's call to the kernel's start

  /// Sources, "figures: source", one entry for each group of figures. "derived" marks figures that were computed,
  /// "estimated" those that are estimates.
  std::vector<std::string> sources;
};

/// Returns all devices, by vendor and line, about in the order of their release. Built once; the reference stays valid.
const std::vector<DeviceSpec>& device_catalogue();

/// Returns the device with this name, or nullptr. Case, spaces, punctuation and a vendor's name in front do not count:
/// "RTX A6000", "nvidia-a6000" and "A6000" are one device, "4090" is the RTX 4090. A name that several sizes share
/// means the one with least memory ("a100": 40 GB): a plan that fits it fits the others, and drivers report no more.
const DeviceSpec* find_device(std::string_view name);

/// Returns the device with this name. Throws UserError with the nearest names if there is none. Throws UserError with
/// all candidates if several sizes share the name and differ for a plan.
const DeviceSpec& require_device(std::string_view name);

/// Returns the devices with `pattern` in their id, name, an alias, the architecture or the vendor, compared as in
/// find_device(). If `pattern` is an id, only that device. In the catalogue's order.
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

/// A description of how the ranks of a training are connected.
struct PeerTopology {
  int64_t ranks = 1;                       ///< devices in all, at least 1
  std::string link;                        ///< link inside a machine; empty: the usual link of the device
  int64_t devices_per_machine = 8;         ///< at least 1
  std::string network = "infiniband-hdr";  ///< link between machines, with one adapter for each device
};

/// Sets `peer_link` and `peer_latency` of a cost model. `device` is one of the catalogue; nullptr: ranks are processes
/// on the CPU of one machine if `on_cpu`, else devices on PCI Express 4.0 x16. Returns a description of the links;
/// empty for one rank, whose `peer_link` is 0.
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
