// Loads a library at run time that may not be installed.
#pragma once

#include <dlfcn.h>

namespace plimsoll {

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
