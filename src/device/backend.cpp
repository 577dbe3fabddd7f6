#include "device/backend.h"

#include <fmt/format.h>

#include <map>
#include <mutex>

#include "device/backend_library.h"
#include "device/cpu_backend.h"
#include "device/generic_backend.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

struct Found {
  Backend* backend = nullptr;
  std::string missing;  ///< reason why there is none
};

std::mutex added_mutex;
std::map<std::string, Backend*>& added() {
  static auto* backends = new std::map<std::string, Backend*>;
  return *backends;
}

Found look_for(const std::string& device) {
  {
    const std::lock_guard lock(added_mutex);
    if (const auto found = added().find(device); found != added().end()) return {found->second, {}};
  }
  if (device == "cpu") return {&cpu_backend(), {}};
  if (device == "cuda") {
    Found found;
    found.backend = backend_library::open_cuda(found.missing);
    return found;
  }
  if (device == "rocm") {  // libtorch built for ROCm names its devices as CUDA's
    Found found;
    if (backend_library::load_hip(found.missing)) found.backend = generic_backend(c10::kCUDA);
    if (!found.backend && found.missing.empty()) found.missing = "the HIP runtime shows no device to this program";
    return found;
  }
  if (device == "mps") {
    if (Backend* backend = generic_backend(c10::kMPS)) return {backend, {}};
    return {nullptr, "this build of libtorch has no Metal device here"};
  }
  return {nullptr, "there is no such device; allowed are cpu, cuda, rocm, mps"};
}

// Alignment of addresses from cudaMalloc: cuBLASLt chooses a kernel by its operands' alignment, up to this many bytes.
constexpr int64_t kCudaAlignment = 256;

}  // namespace

int64_t place_alignment(const std::string& device) {
  return device == "cuda" || device == "rocm" ? kCudaAlignment : kArenaAlignment;
}

void add_backend(const std::string& device, Backend& backend) {
  const std::lock_guard lock(added_mutex);
  added()[device] = &backend;
}

Backend* find_backend(const std::string& device) {
  return look_for(device).backend;
}

Backend& backend_for(const std::string& device) {
  const Found found = look_for(device);
  if (found.backend) return *found.backend;
  throw UserError(
      fmt::format("device '{}' cannot be used: {}; a plan needs no device: 'plimsoll plan JOB.yaml --gpu NAME'", device,
                  found.missing),
      UserError::Kind::failure);
}

}  // namespace plimsoll
