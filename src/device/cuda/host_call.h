// Functions of the host among a stream's work.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

namespace plimsoll::cuda {

/// Has `function` called, by a thread of CUDA's, after what is on the stream so far and before what comes then. It must
/// neither throw nor call CUDA. Throws UserError (failure) where CUDA fails.
void call_on(cudaStream_t stream, std::function<void()> function);

}  // namespace plimsoll::cuda
