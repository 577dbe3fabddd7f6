#include "ops/workspace/matmul_estimate.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "plimsoll/trace.h"

namespace plimsoll {
namespace {

using ops::LibraryMatmul;

// The sizes m, k, n: result [m, n] = left [m, k] x right [k, n].
using Sizes = std::array<int64_t, 3>;

Sizes sizes_of(const LibraryMatmul& product) {
  return {product.left.sizes[0], product.left.sizes[1], product.right.sizes[1]};
}

LibraryMatmul part_of(LibraryMatmul product, const Sizes& sizes) {
  product.left.sizes = {sizes[0], sizes[1]};
  product.right.sizes = {sizes[1], sizes[2]};
  product.result.sizes = {sizes[0], sizes[2]};
  return product;
}

int64_t view_bytes(const View& view) {
  return view.elements() * element_bytes(view.dtype);
}

// Returns the bytes of one row or column by which a copy grows with size `i`: the smallest of the matrices.
int64_t smallest_slice(const LibraryMatmul& product, size_t i) {
  const Sizes sizes = sizes_of(product);
  const int64_t left = element_bytes(product.left.dtype), right = element_bytes(product.right.dtype),
                result = element_bytes(product.result.dtype);
  if (i == 0) return std::min(sizes[1] * left, sizes[2] * result);
  if (i == 1) return std::min(sizes[0] * left, sizes[2] * right);
  return std::min(sizes[1] * right, sizes[0] * result);
}

// Remainders by this are kept, or by `size` if it is smaller.
constexpr int64_t kRemainder = 1024;

// The bytes to which each piece of scratch is rounded up.
constexpr int64_t kScratchAlignment = 64;

}  // namespace

int64_t product_bytes(const LibraryMatmul& product) {
  return view_bytes(product.left) + view_bytes(product.right) + view_bytes(product.result);
}

double product_flops(const LibraryMatmul& product) {
  const Sizes sizes = sizes_of(product);
  return 2.0 * static_cast<double>(sizes[0]) * static_cast<double>(sizes[1]) * static_cast<double>(sizes[2]);
}

int64_t matmul_scratch_bound(const LibraryMatmul& product) {
  int64_t bytes = 0;
  for (const View* view : {&product.left, &product.right, &product.result})
    bytes += (view->elements() * std::max<int64_t>(4, element_bytes(view->dtype)) + kScratchAlignment - 1) /
             kScratchAlignment * kScratchAlignment;
  return bytes;
}

LibraryMatmul product_part(const LibraryMatmul& product, int64_t size) {
  Sizes sizes = sizes_of(product);
  for (int64_t& each : sizes) each = std::min(each, size);
  return part_of(product, sizes);
}

std::optional<int64_t> estimated_matmul_scratch(
    const LibraryMatmul& product, int64_t size,
    const std::function<std::optional<int64_t>(const LibraryMatmul&)>& measure) {
  const Sizes whole = sizes_of(product);
  const int64_t remainder = std::min(kRemainder, size);
  Sizes kept = whole, round = whole, half = whole;
  std::array<bool, 3> is_cut{};
  for (size_t i = 0; i < whole.size(); ++i) {
    is_cut[i] = whole[i] >= size + remainder;
    if (!is_cut[i]) continue;
    kept[i] = size + whole[i] % remainder;
    round[i] = size;
    half[i] = size / 2;
  }
  if (kept == whole) return std::nullopt;
  const auto with_kept = measure(part_of(product, kept)), with_round = measure(part_of(product, round)),
             with_half = measure(part_of(product, half));
  if (!with_kept || !with_round || !with_half) return std::nullopt;
  const int64_t largest = std::max({*with_kept, *with_round, *with_half});
  if (*with_round <= *with_half) return largest;
  // The loop finds the sizes that the scratch grows with: it doubles each alone from half of `size`.
  double bytes = static_cast<double>(largest);
  for (size_t i = 0; i < whole.size(); ++i) {
    if (!is_cut[i]) continue;
    Sizes one = half;
    one[i] = round[i];
    const auto with_one = measure(part_of(product, one));
    if (!with_one) return std::nullopt;
    const int64_t growth = *with_one - *with_half, range = round[i] - half[i];
    if (growth <= 0 || growth < range * smallest_slice(part_of(product, half), i)) continue;
    const double steps = static_cast<double>(whole[i] - round[i]) / static_cast<double>(range);
    bytes *= 1 + static_cast<double>(growth) / static_cast<double>(*with_one) * steps;
  }
  return static_cast<int64_t>(std::min(std::ceil(bytes), static_cast<double>(matmul_scratch_bound(product))));
}

}  // namespace plimsoll
