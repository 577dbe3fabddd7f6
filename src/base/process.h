// Reads when a process began and its resident memory, returns free memory to the system, and loads libraries at run
// time that may not be installed.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>

namespace plimsoll {

/// Returns when the process began, in ticks of the kernel's clock since the machine's start (field 22 of
/// /proc/PID/stat, see proc(5)). Returns nullopt if there is no such process, or if it has ended.
std::optional<int64_t> process_start_of(int64_t pid);

/// The resident memory of this process as the operating system counts it, in bytes.
struct ResidentMemory {
  int64_t now = 0;   ///< VmRSS
  int64_t peak = 0;  ///< VmHWM: the largest value since the program began
};

/// Returns the resident memory (/proc/self/status, see proc(5)); 0 where the system does not say.
ResidentMemory resident_memory();

/// A fake of resident_memory() for its lifetime: it returns what `answer` returns, for tests of budgets. What a process
/// of tests has resident changes by itself: allocators and the system take pages back when they choose. Not
/// thread-safe.
class ScopedFakeResidentMemory {
 public:
  using Answer = std::function<ResidentMemory()>;
  explicit ScopedFakeResidentMemory(Answer answer);
  ~ScopedFakeResidentMemory();
  ScopedFakeResidentMemory(const ScopedFakeResidentMemory&) = delete;
  ScopedFakeResidentMemory& operator=(const ScopedFakeResidentMemory&) = delete;

 private:
  Answer previous_;
};

/// Returns the processor cores that the limits of the process's control groups (containers, batch systems) amount to:
/// seconds of processors for each second. Returns nullopt if there is no limit. `root` holds /proc and /sys; it is for
/// tests.
std::optional<double> processor_quota(const std::filesystem::path& root = "/");

/// Returns the cores that this process may use: those of its affinity, at most what processor_quota() amounts to.
int usable_cores();

/// Returns the seconds since the machine's start in which at least one process waited for memory: for pages to be
/// freed, or to be read back from disk. Those of this process's control group (memory.pressure), or else of the machine
/// (/proc/pressure/memory, see the kernel's Documentation/accounting/psi.rst); nullopt if the system does not say.
/// `root` holds /proc and /sys; it is for tests.
std::optional<double> memory_stall_seconds(const std::filesystem::path& root = "/");

/// Returns freed memory of malloc() to the system. Otherwise glibc keeps freed blocks below the end of the heap
/// resident. Has no effect with another C library.
void release_free_memory();

/// Lets malloc() return blocks of more than 1 MiB to the system as soon as they are freed, for the rest of the process.
/// By default glibc keeps blocks of up to 32 MiB after one of such a size was freed. Has no effect with another C
/// library.
void return_large_blocks();

/// Calls release_free_memory() before an allocation of `bytes`, if these are more than 1 MiB. Otherwise the heap keeps
/// what earlier ones have freed beside it.
inline void release_before(int64_t bytes) {
  if (bytes > int64_t{1} << 20) release_free_memory();
}

/// A library that stays loaded: drivers do not support unloading.
class LoadedLibrary {
 public:
  explicit LoadedLibrary(const char* name) : handle_(::dlopen(name, RTLD_NOW | RTLD_LOCAL)) {}
  bool loaded() const { return handle_ != nullptr; }
  /// Returns nullptr if there is no such library or function.
  template <typename Function>
  Function* find(const char* name) const {
    return handle_ ? reinterpret_cast<Function*>(::dlsym(handle_, name)) : nullptr;
  }

 private:
  void* handle_;
};

}  // namespace plimsoll
