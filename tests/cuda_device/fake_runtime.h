// Declares a fake CUDA runtime for tests on machines without a device. Its memory is host memory. Work on a stream is
// done later, in a random order within the rules of streams and events. A missing wait shows as wrong bytes.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>

namespace plimsoll::testing::fake_cuda {

/// Resets everything; `seed` determines the order, `memory` is the device's memory in bytes.
void reset(uint64_t seed, int64_t memory = int64_t{1} << 30);

/// Puts a test's own work, in the role of a kernel, on a stream.
void launch(cudaStream_t stream, std::function<void()> kernel);

/// Returns a stream for ops.
cudaStream_t make_stream();

/// Return counts: bytes of the device that are mapped now; host ranges that are locked; streams, events and pinned
/// buffers that are alive; copies to or from memory that is neither the device's nor pinned, for which CUDA makes the
/// caller wait.
int64_t mapped_bytes();
int64_t locked_ranges();
int64_t alive();
int64_t pageable_copies();

/// Makes the next call of cudaHostRegister fail.
void refuse_to_lock();
/// Makes the next mapping succeed, and access to it fail.
void refuse_access(CUresult with = CUDA_ERROR_OUT_OF_MEMORY);

}  // namespace plimsoll::testing::fake_cuda
