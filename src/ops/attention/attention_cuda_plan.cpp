#include "ops/attention/attention_cuda_plan.h"

#include <algorithm>
#include <cmath>

#include "plimsoll/bytes.h"

namespace plimsoll::ops {
namespace {

constexpr int kMaxMultiprocessors = 192;  // more than any GPU from sm_80 to sm_120 has (RTX PRO 6000: 188)

int64_t rounded(int64_t bytes, int64_t alignment) {
  return div_up(bytes, alignment) * alignment;
}

/// Returns the width to which the kernels round up a head's width.
int64_t rounded_width(int64_t width) {
  return rounded(width, width <= 128 ? 32 : 64);
}

/// Returns the first number of splits whose efficiency is at least 0.85 of the best. Efficiency is the busy share of a
/// wave of blocks.
int64_t splits_of(int64_t blocks, int64_t slots, int64_t key_blocks) {
  if (static_cast<double>(blocks) >= 0.8 * static_cast<double>(slots)) return 1;
  const int64_t most = std::min({int64_t{128}, slots, key_blocks});
  const auto efficiency = [&](int64_t splits) {
    if (splits > 1 && div_up(key_blocks, splits) == div_up(key_blocks, splits - 1)) return 0.0;  // the same division
    const double waves = static_cast<double>(blocks * splits) / static_cast<double>(slots);
    return waves / std::ceil(waves);
  };
  double best = 0;
  for (int64_t splits = 1; splits <= most; ++splits) best = std::max(best, efficiency(splits));
  for (int64_t splits = 1; splits <= most; ++splits)
    // libtorch computes these in float32: an efficiency slightly below 0.85 of the best may count there.
    if (const double is = efficiency(splits); is > 0 && is >= 0.85 * best) return splits;
  return 1;
}

}  // namespace

bool flash_takes(const AttentionShape& shape, DType dtype) {
  return element_bytes(dtype) == 2 && !shape.capped && shape.width % 8 == 0 && shape.width <= 256;
}

bool flash_reads(Dims sizes, Dims strides, int64_t offset) {
  if (strides[3] != 1 || offset % 8 != 0) return false;  // the kernel reads 16 bytes at a time
  int64_t inner = sizes[3];
  for (const size_t d : {2, 1, 0}) {
    if (sizes[d] == 1) continue;
    if (strides[d] % 8 != 0 || strides[d] < inner) return false;
    inner = strides[d] * sizes[d];
  }
  return true;
}

int64_t flash_forward_scratch(const AttentionShape& shape, int multiprocessors, int64_t alignment) {
  // The state of a random generator that is not used, and one more unused number.
  const int64_t always = 2 * rounded(16, alignment);
  const int64_t key_block = shape.width <= 64 ? 256 : shape.width <= 128 ? 128 : 64;
  const int64_t blocks = shape.batch * shape.query_heads * div_up(shape.queries, 64);
  const int64_t key_blocks = div_up(shape.keys, key_block);
  int64_t splits = 1;
  const int least = multiprocessors > 0 ? multiprocessors : 16;
  const int most = multiprocessors > 0 ? multiprocessors : kMaxMultiprocessors;
  for (int count = least; count <= most; ++count) splits = std::max(splits, splits_of(blocks, 2 * count, key_blocks));
  if (splits == 1) return always;
  const int64_t rows = splits * shape.batch * shape.query_heads * shape.queries;
  return always + rounded(rows * 4, alignment) + rounded(rows * rounded_width(shape.width) * 4, alignment);
}

int64_t flash_backward_scratch(const AttentionShape& shape, int multiprocessors, int64_t alignment) {
  const int64_t units = shape.batch * shape.query_heads, queries = rounded(shape.queries, 128);
  const int64_t shares = div_up(multiprocessors > 0 ? multiprocessors : kMaxMultiprocessors, units);
  int64_t total = rounded(units * queries * 4, alignment) +
                  rounded(shares * units * queries * rounded_width(shape.width) * 4, alignment);
  if (shape.group() > 1) total += 2 * rounded(units * shape.keys * shape.width * 2, alignment);
  return total;
}

ScoreBlocks score_blocks(const AttentionShape& shape) {
  constexpr int64_t kMaxNumbers = 64 * MiB / 4;
  ScoreBlocks cut{};
  for (cut.rows = std::min<int64_t>(256, shape.queries);; cut.rows = div_up(cut.rows, 2)) {
    cut.blocks = query_blocks(shape, cut.rows);
    cut.max_keys = max_keys(cut.blocks);
    const int64_t one_head = shape.group() * cut.rows * cut.max_keys;
    cut.kv_heads = std::clamp<int64_t>(kMaxNumbers / one_head, 1, shape.kv_heads);
    if (one_head <= kMaxNumbers || cut.rows <= 16) return cut;
  }
}

}  // namespace plimsoll::ops
