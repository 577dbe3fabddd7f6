// A library that may not be installed, loaded at run time.
#pragma once

#include <dlfcn.h>

namespace plimsoll {

/// It stays loaded: drivers do not like to be taken out.
class LoadedLibrary {
 public:
  explicit LoadedLibrary(const char* name) : handle_(::dlopen(name, RTLD_NOW | RTLD_LOCAL)) {}
  bool loaded() const { return handle_ != nullptr; }
  /// nullptr where there is no such library or function.
  template <typename Function>
  Function* find(const char* name) const {
    return handle_ ? reinterpret_cast<Function*>(::dlsym(handle_, name)) : nullptr;
  }

 private:
  void* handle_;
};

}  // namespace plimsoll
