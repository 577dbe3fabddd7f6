#include "cli/plan/rank_arguments.h"

#include <algorithm>
#include <utility>

#include "cli/value_checks.h"
#include "plimsoll/error.h"

namespace plimsoll::cli {
namespace {

constexpr int64_t kMaxDevices = 1'000'000;

}  // namespace

void RankArguments::add_to(CLI::App& command) {
  if (CLI::Option* const other = command.get_option_no_throw("--devices")) command.remove_option(other);
  command
      .add_option("--devices", counts,
                  "plan for one of N devices that train together; several numbers: compare them, one line each")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("N[,N...]")
      ->check(between<int64_t>(1, kMaxDevices));
  command
      .add_option("--link", link,
                  "link between the devices of a machine (list: plimsoll gpus --links); default: the usual link of the "
                  "device")
      ->type_name("NAME")
      ->check(not_empty());
  command
      .add_option("--devices-per-machine", devices_per_machine,
                  "devices of one machine; more devices are reached over the network (default 8)")
      ->type_name("N")
      ->check(between<int64_t>(1, kMaxDevices));
  command
      .add_option("--network", network,
                  "network between machines, with one adapter for each device (default infiniband-hdr)")
      ->type_name("NAME")
      ->check(not_empty());
}

PlanTarget RankArguments::target_for(PlanTarget target, int64_t devices) const {
  const bool none_is_several = devices == 1 && std::ranges::none_of(counts, [](int64_t count) { return count > 1; });
  if (none_is_several && !(link.empty() && network.empty() && !devices_per_machine))
    throw UserError(
        "--link, --network and --devices-per-machine are of several devices, and the plan is for one; add --devices N");
  PeerTopology topology;
  topology.ranks = devices;
  topology.link = link;
  if (!network.empty()) topology.network = network;
  topology.devices_per_machine = devices_per_machine.value_or(topology.devices_per_machine);
  return with_ranks(std::move(target), topology);
}

}  // namespace plimsoll::cli
