// What memory the machine has left for this process.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace plimsoll {

/// Bytes that this process can take without swapping: what the kernel counts as available, or what the process's
/// control groups (containers, batch systems) leave of their limit where that is less; page cache that can be dropped
/// counts as free. Nothing where the system does not say. `root` is where /proc and /sys are looked for: for tests.
std::optional<int64_t> available_host_memory(const std::filesystem::path& root = "/");

}  // namespace plimsoll
