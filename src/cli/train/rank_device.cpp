#include "cli/train/rank_device.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <string_view>
#include <thread>
#include <vector>

#include "cli/utilization.h"
#include "plimsoll/error.h"

namespace plimsoll::cli {
namespace {

std::vector<std::string> items_of(std::string_view list) {
  std::vector<std::string> items;
  while (!list.empty()) {
    const std::string_view item = list.substr(0, list.find(','));
    if (!item.empty()) items.emplace_back(item);
    list.remove_prefix(std::min(item.size() + 1, list.size()));
  }
  return items;
}

const char* variable_of(const std::string& device) {
  return device == "rocm" ? "HIP_VISIBLE_DEVICES" : "CUDA_VISIBLE_DEVICES";
}

std::string text_of(const char* variable) {
  const char* const value = ::getenv(variable);
  return value == nullptr ? "" : value;
}

int64_t present_devices(const std::string& device) {
  const char* const source = device == "rocm" ? "ROCm SMI" : "NVML";
  return std::ranges::count(gpus_in_use(), source, &GpuUse::source);
}

/// Returns the largest number of ranks on the CPU: each is a process with some hundred MiB, and a step waits for all of
/// them.
int64_t max_ranks_of_cpu() {
  constexpr int64_t kAlways = 64, kOfCore = 4;
  return std::max<int64_t>(kAlways, kOfCore * std::thread::hardware_concurrency());
}

void require_one(const std::string& device, int count) {
  if (device == "mps" && count > 1)
    throw UserError(fmt::format("{} ranks, but this machine has one device of type mps; set devices=1", count));
}

}  // namespace

std::optional<std::string> visible_device_of(int local_rank, int local_size, const std::string& visible,
                                             int64_t present, bool binds) {
  const std::vector<std::string> items = items_of(visible);
  if (binds && items.size() == 1) return std::nullopt;
  const int64_t devices = items.empty() ? present : static_cast<int64_t>(items.size());
  if ((devices > 0 || !items.empty()) && devices < local_size)
    throw UserError(fmt::format("{} ranks on this host, but {} device{}{}; start at most {} here", local_size, devices,
                                devices == 1 ? "" : "s", items.empty() ? "" : " visible (" + visible + ")", devices));
  return items.empty() ? std::to_string(local_rank) : items[static_cast<size_t>(local_rank)];
}

void choose_device_of_rank(const std::string& device, int local_rank, int local_size) {
  if (device == "cpu") return;
  require_one(device, local_size);
  const char* const variable = variable_of(device);
  // srun --gpus-per-task gives each task a device of its own.
  const bool binds = ::getenv("SLURM_PROCID") != nullptr;
  const auto own = visible_device_of(local_rank, local_size, text_of(variable), present_devices(device), binds);
  if (own) ::setenv(variable, own->c_str(), 1);
}

bool lists_devices(const std::string& device) {
  return device == "cpu" || present_devices(device) > 0;
}

void require_devices(const std::string& device, int count) {
  if (device == "cpu") {
    if (count > max_ranks_of_cpu())
      throw UserError(fmt::format("{} ranks on the CPU of this machine, which has {} cores; set devices to at most {}",
                                  count, std::thread::hardware_concurrency(), max_ranks_of_cpu()));
    return;
  }
  require_one(device, count);
  visible_device_of(0, count, text_of(variable_of(device)), present_devices(device), false);
}

}  // namespace plimsoll::cli
