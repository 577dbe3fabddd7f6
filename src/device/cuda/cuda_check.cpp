#include "device/cuda/cuda_check.h"

#include <fmt/format.h>

#include "plimsoll/error.h"

namespace plimsoll::cuda {

void require(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  cudaGetLastError();
  throw UserError(fmt::format("{}: {} ({})", what, cudaGetErrorString(error), cudaGetErrorName(error)),
                  UserError::Kind::failure);
}

}  // namespace plimsoll::cuda
