#include "device/backend_library.h"

#include <c10/core/Device.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <torch/version.h>

#include <filesystem>
#include <mutex>

namespace plimsoll::backend_library {
namespace {

constexpr const char* kLibrary = "libplimsoll_cuda.so.0";
constexpr const char* kSymbol = "plimsoll_open_backend";

// Loads a library, which stays loaded because its kernels are registered. Returns nullptr and sets `reason` to the
// loader's if that fails.
void* load(const std::string& library, std::string& reason) {
  void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const message = ::dlerror();
    reason = message ? message : "no reason given";
  }
  return handle;
}

// Returns the path of a file next to the library that contains `function`, or only its name, for the system's search
// path.
std::string beside(const void* function, const std::string& name) {
  Dl_info library{};
  if (::dladdr(const_cast<void*>(function), &library) == 0 || library.dli_fname == nullptr) return name;
  const auto path = std::filesystem::path(library.dli_fname).parent_path() / name;
  return std::filesystem::exists(path) ? path.string() : name;
}

Backend* open(std::string& missing) {
  std::string reason;
  // Checked first: without a driver, loading gigabytes of kernels is useless, and its error message says less.
  if (load("libcuda.so.1", reason) == nullptr) {
    missing = "there is no NVIDIA driver on this machine (libcuda.so.1)";
    return nullptr;
  }
  void* const library = load(beside(reinterpret_cast<const void*>(&open_cuda), kLibrary), reason);
  if (library == nullptr) {
    missing = fmt::format(
        "{} cannot be loaded ({}); it needs torch's CUDA libraries beside libtorch: 'make setup' installs them where "
        "there is an NVIDIA device, and for a program that pip installed 'pip install torch=={}' does",
        kLibrary, reason, TORCH_VERSION);
    return nullptr;
  }
  const auto open_backend = reinterpret_cast<OpenBackend>(::dlsym(library, kSymbol));
  if (open_backend == nullptr) {
    missing = fmt::format("{} is of another build of Plimsoll", kLibrary);
    return nullptr;
  }
  return open_backend(missing);
}

}  // namespace

Backend* open_cuda(std::string& missing) {
  static std::string reason;
  static Backend* const backend = open(reason);
  missing = reason;
  return backend;
}

bool load_hip(std::string& missing) {
  static std::string reason;
  static void* const library =
      load(beside(reinterpret_cast<const void*>(&c10::isValidDeviceType), "libtorch_hip.so"), reason);
  if (library == nullptr)
    missing = fmt::format("this libtorch is not one for ROCm, or its kernels cannot be loaded ({})", reason);
  return library != nullptr;
}

}  // namespace plimsoll::backend_library
