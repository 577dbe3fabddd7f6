// How linear_cross_entropy is cut into chunks of tokens: by the kernel and for the figures of its workspace. No
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

/// The most bytes that a chunk's logits take on the CPU.
constexpr int64_t kLossChunkBytes = 64 * MiB;

/// The same on a GPU. Every chunk reads and writes the weight's gradient whole; what that takes beside a chunk's
/// products depends on its tokens alone, and is little from a thousand on: as many where 16-bit logits of theirs take
/// 64 to 256 MiB.
constexpr int64_t cuda_loss_chunk_bytes(int64_t vocabulary) {
  return std::clamp<int64_t>(1024 * 2 * vocabulary, 64 * MiB, 256 * MiB);
}

/// Chunks whose logits take at most `most_bytes`, but 64 tokens or more, evenly split: in whole blocks of 64 tokens
/// where 256 and more fit, else in sixteens.
inline LossChunks loss_chunks(int64_t tokens, int64_t vocabulary, int64_t element_bytes, int64_t most_bytes) {
  const int64_t room = std::max<int64_t>(64, most_bytes / std::max<int64_t>(1, vocabulary * element_bytes));
  const int64_t whole = room >= 256 ? 64 : 16, most = room / whole * whole;
  const int64_t count = std::max<int64_t>(1, div_up(tokens, most));
  const int64_t rows = std::max<int64_t>(1, std::min(tokens, div_up(div_up(tokens, count), whole) * whole));
  return {rows, div_up(tokens, rows)};
}

/// Vocabulary rows of the weight gradient that are computed and added at a time when 16-bit chunks are summed: the
/// product of a block stays in the cache until it is added.
constexpr int64_t kLossGradientBlock = 4096;

}  // namespace plimsoll::ops
