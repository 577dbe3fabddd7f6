// How fast this machine multiplies matrices of float32, bfloat16 and float16, as libtorch really dispatches them: what
// decides which kernels 16-bit products take, and what `precision: auto` and predictions go by. Measured, because the
// name of a type says nothing of the instructions that a processor has for it, nor do the processor's features of what
// libraries use.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "plimsoll/trace.h"

namespace plimsoll::ops {

/// Multiplications and additions a second of one thread.
struct ProductSpeed {
  double libtorch = 0;     ///< libtorch's own product
  double blocks = 0;       ///< the product in float32 blocks (ops/arithmetic/products_cpu.h); of float32 libtorch's own
  double convolution = 0;  ///< libtorch's convolution
};
/// By type: float32, bfloat16, float16.
struct ProductSpeeds {
  std::array<ProductSpeed, 3> types;

  ProductSpeed& of(DType dtype) { return types[dtype == DType::bfloat16 ? 1 : dtype == DType::float16 ? 2 : 0]; }
  const ProductSpeed& of(DType dtype) const { return const_cast<ProductSpeeds&>(*this).of(dtype); }
};

/// 16-bit products of less than this share of float32's speed go through float32 blocks. Where a processor has
/// instructions for them they are twice as fast (seen: 1.7), elsewhere less than half (seen: 0.03 to 0.45): which of
/// the two it is does not depend on a noisy measurement.
constexpr double kSlowProduct = 0.8;

/// Measured when first asked for, in at most about a second, and kept in the file `products.json` of the cache folder
/// (cache_folder()) for other processes: one for each processor, libtorch and set of instruction masks. If the tries
/// did not agree, the file holds for a day. Where there is no such folder each process measures its own.
const ProductSpeeds& product_speeds();

/// Whether products of `dtype` go through float32 blocks: of bfloat16 and float16 where libtorch's own were measured to
/// be slow, or as PLIMSOLL_16BIT_PRODUCTS says, "float32" or "libtorch". The same for the life of a process. Throws
/// UserError where the variable says anything else.
bool float32_products(DType dtype);

/// For tests: as if PLIMSOLL_16BIT_PRODUCTS had been set ("float32" or "libtorch") while this lives; not thread-safe.
class ProductsScope {
 public:
  explicit ProductsScope(bool through_float32);
  ~ProductsScope();
  ProductsScope(const ProductsScope&) = delete;
  ProductsScope& operator=(const ProductsScope&) = delete;

 private:
  std::optional<bool> before_;
};

/// How many times as fast as float32's the products of `dtype` are that this process uses, and convolutions: 1 for
/// float32. Rounded to powers of the fourth root of 2, so that predictions do not go by what is noise.
double relative_product_speed(DType dtype);
double relative_convolution_speed(DType dtype);

/// The file's text; for tests. `until`: Unix time in seconds from which on it is not read; 0: no end. Nothing is read
/// from a damaged one or from another machine's. `now`: Unix time.
std::string products_text(const ProductSpeeds& speeds, int64_t until = 0);
std::optional<ProductSpeeds> products_of(const std::string& text, int64_t now = 0);

}  // namespace plimsoll::ops
