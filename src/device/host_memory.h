// What memory the machine has left for this process.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>

namespace plimsoll {

/// Bytes that this process can take without swapping: what the kernel counts as available, or what the process's
/// control groups (containers, batch systems) leave of their limit where that is less; page cache that can be dropped
/// counts as free. Nothing where the system does not say. `root` is where /proc and /sys are looked for: for tests.
std::optional<int64_t> available_host_memory(const std::filesystem::path& root = "/");

/// The same, as everything that plans for this machine asks for it.
std::optional<int64_t> host_memory_now();

/// For as long as it lives, host_memory_now() answers what `answer` does: a machine that runs full, for tests. Not for
/// several threads at once.
class StandInHostMemory {
 public:
  using Answer = std::function<std::optional<int64_t>()>;
  explicit StandInHostMemory(Answer answer);
  ~StandInHostMemory();
  StandInHostMemory(const StandInHostMemory&) = delete;
  StandInHostMemory& operator=(const StandInHostMemory&) = delete;

 private:
  Answer previous_;
};

}  // namespace plimsoll
