#include "collectives/device_group.h"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <utility>

#include "collectives/rank_fault.h"
#include "device/backend.h"

namespace plimsoll {
namespace {

struct Factories {
  std::mutex mutex;
  std::map<std::string, DeviceGroupFactory> by_device;
};

Factories& factories() {
  static auto* all = new Factories;  // never destroyed: a library may be unloaded during static destruction
  return *all;
}

}  // namespace

void set_device_group_factory(const std::string& device, DeviceGroupFactory factory) {
  const std::lock_guard lock(factories().mutex);
  factories().by_device[device] = std::move(factory);
}

std::shared_ptr<DeviceGroup> make_device_group(const std::string& device, const StorePointer& store,
                                               const DeviceGroupOptions& options) {
  backend_for(device);
  DeviceGroupFactory factory;
  {
    const std::lock_guard lock(factories().mutex);
    const auto found = factories().by_device.find(device);
    if (found != factories().by_device.end()) factory = found->second;
  }
  if (!factory) {
    throw_failure(
        fmt::format("device {}: this build cannot exchange tensors between devices of this kind, because the headers "
                    "of NCCL were not found when it was built; set devices: 1, or install nvidia-nccl and build again",
                    device));
  }
  return factory(store, options);
}

}  // namespace plimsoll
