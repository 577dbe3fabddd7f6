// Estimates the scratch of a matmul that is too large to be measured, from smaller matmuls of the same layout.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>

#include "ops/workspace/workspace.h"

namespace plimsoll {

/// Returns the bytes of memory that the operands and the result of `product` use; gaps between rows do not count.
int64_t product_bytes(const ops::LibraryMatmul& product);
/// Returns the multiplications and additions of `product`.
double product_flops(const ops::LibraryMatmul& product);
/// Returns an upper bound of the scratch: a copy of each operand and of the result, of 16-bit types in float32.
int64_t matmul_scratch_bound(const ops::LibraryMatmul& product);

/// Returns the part of `product` with sizes m, k and n of at most `size`, with its strides.
ops::LibraryMatmul product_part(const ops::LibraryMatmul& product, int64_t size);

/// The sizes of the smaller matmuls, the largest first.
constexpr std::array<int64_t, 5> kEstimateSizes{4096, 2048, 1024, 512, 256};
constexpr int64_t kMinEstimateSize = kEstimateSizes.back();

/// Returns the estimate with sizes m, k and n cut down to about `size`, one of kEstimateSizes; nullopt if no size is
/// larger. `measure` returns the scratch of a smaller matmul, or nullopt if it may not run; the estimate is then
/// nullopt.
///
/// The smaller matmuls are parts of the large one: they keep its strides. oneDNN chooses blocks by the alignment of the
/// strides and by the remainders of the sizes. Its scratch is that of the blocks, which stop growing below 4096. One
/// part therefore keeps the remainders of the sizes by 1024. A second part has the round sizes, with which its blocks
/// are largest; a third has half of them. The estimate is the largest of the three. If the scratch grows from half of
/// `size` to `size` by at least the rows or columns of a matrix, it is a copy. The estimate then grows linearly with
/// that size. Smaller growth is that of blocks.
std::optional<int64_t> estimated_matmul_scratch(
    const ops::LibraryMatmul& product, int64_t size,
    const std::function<std::optional<int64_t>(const ops::LibraryMatmul&)>& measure);

}  // namespace plimsoll
