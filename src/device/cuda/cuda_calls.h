// Turns errors of the CUDA runtime into UserError, and calls host functions in a stream. Declares functions of
// CUDA's driver that have no counterpart in the runtime.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <functional>

#include "plimsoll/trace.h"

namespace plimsoll::cuda {

/// Throws UserError (failure) "WHAT: the reason" unless `error` is cudaSuccess. Clears the error that CUDA remembers.
void require(cudaError_t error, const char* what);

/// Functions of CUDA's driver that have no counterpart in the runtime. They are looked up by name through the runtime.
/// Nothing is linked with the driver, because machines without a device do not have it.
struct Driver {
  decltype(&cuMemAddressReserve) address_reserve;
  decltype(&cuMemAddressFree) address_free;
  decltype(&cuMemGetAllocationGranularity) granularity;
  decltype(&cuMemCreate) create;
  decltype(&cuMemRelease) release;
  decltype(&cuMemMap) map;
  decltype(&cuMemUnmap) unmap;
  decltype(&cuMemSetAccess) set_access;
  decltype(&cuDeviceGetAttribute) attribute;
};

/// Returns the functions. Throws UserError (failure), naming the function, if the driver lacks one.
const Driver& driver();

/// Enqueues a call of `function` on `stream`, after the work enqueued so far and before later work. A thread of CUDA
/// calls it. It must neither throw nor call CUDA. Throws UserError (failure) if CUDA fails.
void call_on(cudaStream_t stream, std::function<void()> function);

/// Compiles and loads the kernel of `op`, which is_fused(), for the current device; does nothing if it is an operator
/// of its own. Throws UserError (failure) if there is no NVRTC or it does not know the device.
void prepare_fused(const Op& op);

}  // namespace plimsoll::cuda
