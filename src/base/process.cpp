#include "base/process.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#ifdef __GLIBC__  // which <fstream> has defined
#include <malloc.h>
#endif

namespace plimsoll {
namespace {

ScopedFakeResidentMemory::Answer& fake_of_resident_memory() {
  static ScopedFakeResidentMemory::Answer answer;
  return answer;
}

}  // namespace

std::optional<int64_t> process_start_of(int64_t pid) {
  std::ifstream stream("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(stream, line)) return std::nullopt;
  // The name in brackets may contain any character, brackets too: fields are counted after the last bracket.
  const size_t end = line.rfind(')');
  if (end == std::string::npos) return std::nullopt;
  std::istringstream rest(line.substr(end + 1));
  std::string state, skipped;
  rest >> state;
  for (int field = 4; field < 22; ++field) rest >> skipped;
  int64_t start = 0;
  if (!(rest >> start) || state == "Z" || state == "X") return std::nullopt;
  return start;
}

ResidentMemory resident_memory() {
  if (const ScopedFakeResidentMemory::Answer& fake = fake_of_resident_memory()) return fake();
  std::ifstream stream("/proc/self/status");
  ResidentMemory memory;
  for (std::string line; std::getline(stream, line);) {
    std::istringstream fields(line);
    std::string key;
    int64_t kib = 0;
    if (!(fields >> key >> kib)) continue;
    if (key == "VmRSS:") memory.now = kib * 1024;
    if (key == "VmHWM:") memory.peak = kib * 1024;
  }
  return memory;
}

ScopedFakeResidentMemory::ScopedFakeResidentMemory(Answer answer)
    : previous_(std::exchange(fake_of_resident_memory(), std::move(answer))) {}

ScopedFakeResidentMemory::~ScopedFakeResidentMemory() {
  fake_of_resident_memory() = std::move(previous_);
}

std::optional<double> processor_quota(const std::filesystem::path& root) {
  std::optional<double> least;
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // HIERARCHY:CONTROLLERS:PATH; version 2 names no controllers
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool unified = controllers.empty();
    if (!unified && ("," + controllers + ",").find(",cpu,") == std::string::npos) continue;
    const std::filesystem::path mount = root / "sys/fs/cgroup" / controllers;
    for (std::filesystem::path group = line.substr(second + 1);; group = group.parent_path()) {
      const std::filesystem::path folder = mount / group.relative_path();
      double quota = 0, period = 0;
      if (unified)
        std::ifstream(folder / "cpu.max") >> quota >> period;  // "max 100000": no limit
      else if (std::ifstream(folder / "cpu.cfs_quota_us") >> quota)
        std::ifstream(folder / "cpu.cfs_period_us") >> period;
      if (quota > 0 && period > 0) least = std::min(least.value_or(quota / period), quota / period);
      if (!group.has_relative_path()) break;
    }
  }
  return least;
}

std::optional<double> memory_stall_seconds(const std::filesystem::path& root) {
  std::vector<std::filesystem::path> files;
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);)
    if (line.starts_with("0::/")) files.push_back(root / "sys/fs/cgroup" / line.substr(4) / "memory.pressure");
  files.push_back(root / "proc/pressure/memory");
  for (const std::filesystem::path& file : files) {
    std::ifstream stream(file);
    // some avg10=0.00 avg60=0.00 avg300=0.00 total=MICROSECONDS
    for (std::string line; std::getline(stream, line);) {
      const size_t total = line.find("total=");
      if (!line.starts_with("some ") || total == std::string::npos) continue;
      int64_t microseconds = 0;
      if (std::istringstream(line.substr(total + 6)) >> microseconds) return 1e-6 * static_cast<double>(microseconds);
    }
  }
  return std::nullopt;
}

int usable_cores() {
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  static const std::optional<double> quota = processor_quota();
  return quota ? std::clamp(static_cast<int>(std::ceil(*quota)), 1, cores) : cores;
}

void release_free_memory() {
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

void return_large_blocks() {
#ifdef __GLIBC__
  ::mallopt(M_MMAP_THRESHOLD, 1 << 20);
#endif
}

}  // namespace plimsoll
