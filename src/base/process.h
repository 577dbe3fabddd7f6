// Reads when a process began, returns free memory to the system, and loads libraries at run time that may not be
// installed.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <optional>

namespace plimsoll {

/// Returns when the process began, in ticks of the kernel's clock since the machine's start (field 22 of
/// /proc/PID/stat, see proc(5)). Returns nullopt if there is no such process, or if it has ended.
std::optional<int64_t> process_start_of(int64_t pid);

/// Returns freed memory of malloc() to the system. Otherwise glibc keeps freed blocks below the end of the heap
/// resident. Has no effect with another C library.
void release_free_memory();

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
