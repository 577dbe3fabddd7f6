// Declares linear_cross_entropy chunk by chunk of tokens, and how it is cut into chunks. The matmuls and the sums
// over chunks are libtorch's on every device.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>

#include "ops/kernel_arguments.h"
#include "ops/rows.h"
#include "plimsoll/bytes.h"

namespace plimsoll::ops {

/// The kernels of a device; each call processes `rows` rows.
struct LossKernels {
  std::function<void(const CrossEntropy&, int64_t rows)> cross_entropy;
  std::function<void(const SplitAdd&, int64_t rows)> split_add;
  /// Computes sum += a b, or sum = a b if `first`. `sum` is float32; a and b have 16 bits. Null if no chunks have
  /// float32 sums.
  std::function<void(const at::Tensor& sum, const at::Tensor& a, const at::Tensor& b, bool first)> add_product = {};
};

/// Vocabulary rows of the weight gradient that are computed and added at a time when 16-bit chunks are summed. The
/// matmul of a block stays in the cache until it is added.
constexpr int64_t kLossGradientBlock = 4096;

/// The division of the tokens into chunks, for the kernel and for estimates of its workspace.
struct LossChunks {
  int64_t rows;  ///< tokens of a chunk; the last may have fewer
  int64_t count;
  /// Shares of 16-bit weight gradients are added in a float32 buffer by the matmuls themselves, else in two 16-bit
  /// values by a kernel of their own.
  bool float32_sums = false;
  int64_t gradient_block = kLossGradientBlock;  ///< rows of the weight gradient that are computed and added at a time
};

/// Returns one loss a token ([tokens], of the accumulator's type). If `grad_x` and `grad_weight` have elements, it also
/// writes the gradients of the sum of the losses. Its scratch: `losses`, a chunk's logits, copies of x and weight that
/// are no matrices of rows, and the scratch of sums of 16-bit gradients.
at::Tensor linear_cross_entropy_chunks(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& targets,
                                       int64_t ignore_index, double softcap, const at::Tensor& grad_x,
                                       const at::Tensor& grad_weight, const LossChunks& chunks,
                                       const LossKernels& kernels);

/// Maximum bytes of a chunk's logits on the CPU.
constexpr int64_t kLossChunkBytes = 64 * MiB;

/// Returns the maximum bytes of a chunk's logits on a GPU if memory is short. Every chunk reads and writes the weight's
/// whole gradient. The cost of that relative to a chunk's matmuls depends only on the chunk's tokens, and is small from
/// a thousand tokens on. The result is the size of 16-bit logits of 1024 tokens, clamped to 64 to 256 MiB.
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

/// The value of `chunk_tokens` for the chunks of short memory with large blocks of the weight gradient.
constexpr int64_t kLargeGradientBlocks = 0;
/// Bytes of a large block of the weight gradient: the second cache of a large GPU holds them.
constexpr int64_t kLargeGradientBlockBytes = 32 * MiB;

/// Returns the chunks of a GPU: those of memory that is short (cuda_loss_chunk_bytes) if `chunk_tokens` is empty or
/// kLargeGradientBlocks, else `chunk_tokens` tokens at a time, evenly split, with float32 sums. `width`: elements of a
/// row of the weight.
inline LossChunks cuda_loss_chunks(int64_t tokens, int64_t vocabulary, int64_t width, int64_t element_bytes,
                                   std::optional<int64_t> chunk_tokens) {
  if (chunk_tokens.value_or(0) <= 0) {
    LossChunks chunks = loss_chunks(tokens, vocabulary, element_bytes, cuda_loss_chunk_bytes(vocabulary));
    if (chunk_tokens)
      chunks.gradient_block =
          std::max(kLossGradientBlock, kLargeGradientBlockBytes / std::max<int64_t>(1, width * element_bytes));
    return chunks;
  }
  LossChunks chunks = loss_chunks(tokens, vocabulary, element_bytes, *chunk_tokens * vocabulary * element_bytes);
  chunks.float32_sums = true;
  return chunks;
}

/// Tokens of a chunk that a GPU works on if memory remains, best first. A matmul of 8192 tokens takes milliseconds, so
/// launches and the traffic of the gradient's sum are below a tenth of it.
constexpr int64_t kLargeLossChunks[] = {8192, 4096, 2048};

}  // namespace plimsoll::ops
