// A CUDA runtime of our own for tests on machines without a device: memory is the host's, and what is put on a stream
// is done some time later, in an order that is drawn, within what streams and events allow. What waits for too little
// shows as wrong bytes.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>

namespace plimsoll::testing::fake_cuda {

/// Forgets everything; `seed` draws the order, `memory` is what the device has, bytes.
void reset(uint64_t seed, int64_t memory = int64_t{1} << 30);

/// Puts work of a test's own on a stream: a kernel.
void launch(cudaStream_t stream, std::function<void()> kernel);

/// A stream for ops.
cudaStream_t make_stream();

/// Bytes of the device that are mapped now; host ranges that are locked; streams, events and pinned buffers that are
/// alive; copies to or from memory that is neither the device's nor pinned, which CUDA makes the caller wait for.
int64_t mapped_bytes();
int64_t locked_ranges();
int64_t alive();
int64_t pageable_copies();

/// The next call of cudaHostRegister fails.
void refuse_to_lock();
/// The next mapping is made, and may not be used.
void refuse_access();

}  // namespace plimsoll::testing::fake_cuda
