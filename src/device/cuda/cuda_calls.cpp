#include "device/cuda/cuda_calls.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <memory>
#include <utility>

#include "plimsoll/error.h"

namespace plimsoll::cuda {

void require(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  cudaGetLastError();
  throw UserError(fmt::format("{}: {} ({})", what, cudaGetErrorString(error), cudaGetErrorName(error)),
                  UserError::Kind::failure);
}

namespace {

constexpr unsigned kVersion = 12000;  // all functions that are looked up are older than this

template <typename Function>
void find(const char* name, Function& function) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  const cudaError_t error = cudaGetDriverEntryPointByVersion(name, &found, kVersion, cudaEnableDefault, &result);
  if (error != cudaSuccess || result != cudaDriverEntryPointSuccess || found == nullptr)
    throw UserError(fmt::format("the NVIDIA driver has no {}; a driver for CUDA 13 is needed (580 or later)", name),
                    UserError::Kind::failure);
  function = reinterpret_cast<Function>(found);
}

Driver find_all() {
  Driver driver{};
  find("cuMemAddressReserve", driver.address_reserve);
  find("cuMemAddressFree", driver.address_free);
  find("cuMemGetAllocationGranularity", driver.granularity);
  find("cuMemCreate", driver.create);
  find("cuMemRelease", driver.release);
  find("cuMemMap", driver.map);
  find("cuMemUnmap", driver.unmap);
  find("cuMemSetAccess", driver.set_access);
  find("cuDeviceGetAttribute", driver.attribute);
  return driver;
}

}  // namespace

const Driver& driver() {
  static const Driver all = find_all();  // tried again after an exception
  return all;
}

namespace {

void CUDART_CB call(void* function) {
  const std::unique_ptr<std::function<void()>> owned(static_cast<std::function<void()>*>(function));
  (*owned)();
}

}  // namespace

void call_on(cudaStream_t stream, std::function<void()> function) {
  auto owned = std::make_unique<std::function<void()>>(std::move(function));
  require(cudaLaunchHostFunc(stream, call, owned.get()), "calling back at a copy");
  owned.release();  // call() owns it
}

}  // namespace plimsoll::cuda
