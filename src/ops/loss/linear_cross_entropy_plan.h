// Declares how linear_cross_entropy is cut into chunks of tokens, for the kernel and for estimates of its workspace. No
// libtorch.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/rows.h"
#include "plimsoll/bytes.h"

namespace plimsoll::ops {

struct LossChunks {
  int64_t rows;  ///< tokens of a chunk; the last may have fewer
  int64_t count;
};

/// Maximum bytes of a chunk's logits on the CPU.
constexpr int64_t kLossChunkBytes = 64 * MiB;

/// Returns the maximum bytes of a chunk's logits on a GPU. Every chunk reads and writes the weight's whole gradient.
/// The cost of that relative to a chunk's matmuls depends only on the chunk's tokens, and is small from a thousand
/// tokens on. The result is the size of 16-bit logits of 1024 tokens, clamped to 64 to 256 MiB.
constexpr int64_t cuda_loss_chunk_bytes(int64_t vocabulary) {
  return std::clamp<int64_t>(1024 * 2 * vocabulary, 64 * MiB, 256 * MiB);
}

/// Returns chunks whose logits take at most `max_bytes`, but have at least 64 tokens, evenly split. They are whole
/// blocks of 64 tokens if 256 or more fit, else multiples of sixteen tokens.
inline LossChunks loss_chunks(int64_t tokens, int64_t vocabulary, int64_t element_bytes, int64_t max_bytes) {
  const int64_t room = std::max<int64_t>(64, max_bytes / std::max<int64_t>(1, vocabulary * element_bytes));
  const int64_t whole = room >= 256 ? 64 : 16, most = room / whole * whole;
  const int64_t count = std::max<int64_t>(1, div_up(tokens, most));
  const int64_t rows = std::max<int64_t>(1, std::min(tokens, div_up(div_up(tokens, count), whole) * whole));
  return {rows, div_up(tokens, rows)};
}

/// Vocabulary rows of the weight gradient that are computed and added at a time when 16-bit chunks are summed. The
/// matmul of a block stays in the cache until it is added.
constexpr int64_t kLossGradientBlock = 4096;

}  // namespace plimsoll::ops
