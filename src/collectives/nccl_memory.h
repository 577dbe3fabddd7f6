// Estimates the memory of an NVIDIA device that NCCL allocates for itself.
#pragma once

#include <algorithm>
#include <cstdint>

namespace plimsoll {

/// Channels that a communicator may have, set by ncclConfig_t::maxCTAs. NCCL itself takes up to 32 on NVLink, with four
/// times the buffers.
constexpr int kNcclChannels = 8;

/// Bytes of a communicator before any two ranks have sent something to each other. A rank of two takes 544 MB for
/// all-reduce (A100; github.com/NVIDIA/nccl/issues/964); this is about as much, less the connection.
constexpr int64_t kNcclBaseBytes = int64_t{448} << 20;

/// Bytes of the buffers of one channel between this rank and another one of its machine: 3.28 GB for 7 peers with 32
/// channels each (H100; github.com/NVIDIA/nccl/issues/1685).
constexpr int64_t kNcclChannelBytes = int64_t{14} << 20;

/// Ranks of a machine to which a rank has buffers; ranks of other machines share one buffer
/// (github.com/NVIDIA/nccl/issues/1450).
constexpr int64_t kNcclPeers = 8;

/// Returns the bytes of the device that NCCL takes on one of `ranks` ranks, an upper estimate; 0 for one rank.
constexpr int64_t nccl_bytes(int64_t ranks) {
  if (ranks < 2) return 0;
  return kNcclBaseBytes + (std::min(ranks, kNcclPeers) - 1) * kNcclChannels * kNcclChannelBytes;
}

}  // namespace plimsoll
