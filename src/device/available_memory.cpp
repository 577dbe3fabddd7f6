#include "device/available_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "base/process.h"

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

namespace {

using std::filesystem::path;

std::optional<int64_t> number_in(std::string_view text) {
  const size_t digit = text.find_first_of("0123456789");
  if (digit == std::string_view::npos) return {};  // "max": no limit
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data() + digit, text.data() + text.size(), value);
  if (error != std::errc()) return {};
  return value;
}

ScopedFakeHostMemory::Answer& stand_in() {
  static ScopedFakeHostMemory::Answer answer;
  return answer;
}

/// Returns the number after `key` at the start of a line of `file`.
std::optional<int64_t> number_of(const path& file, std::string_view key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(key)) return number_in(std::string_view(line).substr(key.size()));
  return {};
}

/// A hierarchy of control groups: its mount point and the names of its files.
struct Hierarchy {
  path mount;
  const char* limit;
  const char* usage;
  const char* droppable;  // page cache, as a key of memory.stat
};

/// A limit of a group, and what is left of it.
struct GroupMemory {
  std::optional<int64_t> limit, left;

  void add(const GroupMemory& other) {
    for (auto member : {&GroupMemory::limit, &GroupMemory::left})
      if (other.*member) this->*member = std::min((this->*member).value_or(*(other.*member)), *(other.*member));
  }
};

/// Returns the smallest limit, and the smallest rest of one, in `group` and the groups that contain it.
GroupMemory memory_of(const Hierarchy& hierarchy, path group) {
  GroupMemory least;
  for (;; group = group.parent_path()) {
    const path folder = hierarchy.mount / group.relative_path();
    const auto limit = number_of(folder / hierarchy.limit, "");
    const auto usage = number_of(folder / hierarchy.usage, "");
    if (limit && usage) {
      const int64_t cache = number_of(folder / "memory.stat", hierarchy.droppable).value_or(0);
      least.add({*limit, std::max<int64_t>(0, *limit - std::max<int64_t>(0, *usage - cache))});
    }
    if (!group.has_relative_path()) return least;
  }
}

GroupMemory memory_of_groups(const path& root) {
  GroupMemory least;
  // HIERARCHY:CONTROLLERS:PATH; version 2 has number 0 and names no controllers.
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = fmt::format(",{},", line.substr(first + 1, second - first - 1));
    const path group = line.substr(second + 1);
    const path mounts = root / "sys/fs/cgroup";
    if (line.starts_with("0::"))
      least.add(memory_of({mounts, "memory.max", "memory.current", "inactive_file "}, group));
    else if (controllers.find(",memory,") != std::string::npos)
      least.add(memory_of({mounts / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "},
                          group));
  }
  return least;
}

}  // namespace

std::optional<int64_t> control_group_memory(const path& root) {
  // Version 1 writes a number without meaning where there is no limit.
  constexpr int64_t kNoLimit = int64_t{1} << 60;
  const std::optional<int64_t> limit = memory_of_groups(root).limit;
  return limit && *limit < kNoLimit ? limit : std::nullopt;
}

std::optional<int64_t> available_host_memory(const path& root) {
  std::optional<int64_t> available = number_of(root / "proc/meminfo", "MemAvailable:");
  if (!available) return {};
  *available *= 1024;  // the kernel's "kB"

  if (const std::optional<int64_t> left = memory_of_groups(root).left) available = std::min(*available, *left);
  return available;
}

std::optional<int64_t> current_host_memory() {
  return stand_in() ? stand_in()() : available_host_memory();
}

ScopedFakeHostMemory::ScopedFakeHostMemory(Answer answer) : previous_(std::exchange(stand_in(), std::move(answer))) {}

ScopedFakeHostMemory::~ScopedFakeHostMemory() {
  stand_in() = std::move(previous_);
}

}  // namespace plimsoll
