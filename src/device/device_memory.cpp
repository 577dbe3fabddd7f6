#include "device/device_memory.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/loaded_library.h"

namespace plimsoll {
namespace {

std::optional<DeviceMemory> checked(uint64_t free, uint64_t total) {
  if (total == 0 || total > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) || free > total) return {};
  return DeviceMemory{static_cast<int64_t>(free), static_cast<int64_t>(total)};
}

std::optional<DeviceMemory> memory_of(const LoadedLibrary& library) {
  const auto ask = library.find<int(size_t*, size_t*)>("hipMemGetInfo");
  size_t free = 0, total = 0;
  if (!ask || ask(&free, &total) != 0) return std::nullopt;
  return checked(free, total);
}

}  // namespace

std::optional<DeviceMemory> hip_memory(const char* library) {
  if (library) return memory_of(LoadedLibrary(library));
  for (const char* name : {"libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"})
    if (const LoadedLibrary found(name); found.loaded()) return memory_of(found);
  return std::nullopt;
}

// Calls Objective-C's methods by name, through one function of its runtime.
std::optional<DeviceMemory> metal_memory() {
  static const LoadedLibrary metal("/System/Library/Frameworks/Metal.framework/Metal");
  static const LoadedLibrary objc("/usr/lib/libobjc.A.dylib");
  using Object = void*;
  static const auto create = metal.find<Object()>("MTLCreateSystemDefaultDevice");
  static const auto name = objc.find<void*(const char*)>("sel_registerName");
  static const auto send = objc.find<uint64_t(Object, void*)>("objc_msgSend");
  if (!create || !name || !send) return std::nullopt;
  static const Object device = create();
  if (!device) return std::nullopt;
  const uint64_t total = send(device, name("recommendedMaxWorkingSetSize"));
  const uint64_t taken = send(device, name("currentAllocatedSize"));
  return checked(total - std::min(taken, total), total);
}

}  // namespace plimsoll
