// Turns errors of the CUDA runtime into UserError.
#pragma once

#include <cuda_runtime_api.h>

namespace plimsoll::cuda {

/// Throws UserError (failure) "WHAT: the reason" unless `error` is cudaSuccess. Clears the error that CUDA remembers.
void require(cudaError_t error, const char* what);

}  // namespace plimsoll::cuda
