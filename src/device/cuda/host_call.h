// Declares calls of host functions in a CUDA stream.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

namespace plimsoll::cuda {

/// Enqueues a call of `function` on `stream`, after the work enqueued so far and before later work. A thread of CUDA
/// calls it. It must neither throw nor call CUDA. Throws UserError (failure) if CUDA fails.
void call_on(cudaStream_t stream, std::function<void()> function);

}  // namespace plimsoll::cuda
