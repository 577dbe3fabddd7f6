// Reads when a process began, which distinguishes it from a later process with its number.
#pragma once

#include <cstdint>
#include <optional>

namespace plimsoll {

/// Returns when the process began, in ticks of the kernel's clock since the machine's start (field 22 of
/// /proc/PID/stat, see proc(5)). Returns nullopt if there is no such process, or if it has ended.
std::optional<int64_t> process_start_of(int64_t pid);

}  // namespace plimsoll
