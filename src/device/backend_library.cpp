#include "device/backend_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <mutex>

namespace plimsoll::backend_library {
namespace {

constexpr const char* kLibrary = "libplimsoll_cuda.so.0";
constexpr const char* kSymbol = "plimsoll_open_backend";

bool loads(const char* library) {
  void* const handle = ::dlopen(library, RTLD_LAZY | RTLD_LOCAL);
  if (handle != nullptr) ::dlclose(handle);
  return handle != nullptr;
}

Backend* load(const std::string& device, std::string& missing) {
  // Asked first: without a driver, loading gigabytes of kernels comes to nothing, and its message says less.
  if (device == "cuda" && !loads("libcuda.so.1")) {
    missing = "there is no NVIDIA driver on this machine (libcuda.so.1)";
    return nullptr;
  }
  if (device == "rocm" && !loads("libamdhip64.so") && !loads("libamdhip64.so.6") && !loads("libamdhip64.so.7")) {
    missing = "there is no HIP runtime on this machine (libamdhip64.so)";
    return nullptr;
  }
  Dl_info self{};
  std::string beside = kLibrary;  // the library that this function is in, or where the system looks
  if (::dladdr(reinterpret_cast<void*>(&load), &self) != 0 && self.dli_fname != nullptr)
    if (const auto path = std::filesystem::path(self.dli_fname).parent_path() / kLibrary; std::filesystem::exists(path))
      beside = path.string();
  void* const library = ::dlopen(beside.c_str(), RTLD_NOW | RTLD_LOCAL);  // stays: kernels are registered by it
  if (library == nullptr) {
    const char* const said = ::dlerror();
    missing = fmt::format(
        "{} cannot be loaded ({}); it needs torch's CUDA libraries beside libtorch, "
        "which 'make setup' installs where there is an NVIDIA device",
        kLibrary, said ? said : "no reason given");
    return nullptr;
  }
  const auto open_backend = reinterpret_cast<OpenBackend>(::dlsym(library, kSymbol));
  if (open_backend == nullptr) {
    missing = fmt::format("{} is of another build of Plimsoll", kLibrary);
    return nullptr;
  }
  return open_backend(device.c_str(), missing);
}

}  // namespace

Backend* open(const std::string& device, std::string& missing) {
  struct Opened {
    Backend* backend;
    std::string missing;
  };
  static std::mutex mutex;
  static auto* opened = new std::map<std::string, Opened>;
  const std::lock_guard lock(mutex);
  const auto [entry, first] = opened->try_emplace(device);
  if (first) entry->second.backend = load(device, entry->second.missing);
  missing = entry->second.missing;
  return entry->second.backend;
}

}  // namespace plimsoll::backend_library
