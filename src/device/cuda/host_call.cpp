#include "device/cuda/host_call.h"

#include <memory>
#include <utility>

#include "device/cuda/cuda_check.h"

namespace plimsoll::cuda {
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
