// Measures how fast this machine multiplies matrices of float32, bfloat16 and float16 as libtorch dispatches them. The
// speeds decide which kernels 16-bit matmuls use; `precision: auto` and predictions depend on them. They are measured
// because neither a dtype nor a processor's features tell which instructions the libraries use.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "plimsoll/trace.h"

namespace plimsoll::ops {

/// The multiplications and additions per second of one thread.
struct MatmulThroughput {
  double libtorch = 0;     ///< libtorch's own matmul
  double blocks = 0;       ///< the matmul in float32 blocks (ops/products_cpu.h); for float32, libtorch's own
  double convolution = 0;  ///< libtorch's convolution
};
/// The speeds by type: float32, bfloat16, float16.
struct MatmulThroughputs {
  std::array<MatmulThroughput, 3> types;

  MatmulThroughput& of(DType dtype) { return types[dtype == DType::bfloat16 ? 1 : dtype == DType::float16 ? 2 : 0]; }
  const MatmulThroughput& of(DType dtype) const { return const_cast<MatmulThroughputs&>(*this).of(dtype); }
};

/// The fraction of float32's speed below which 16-bit matmuls go through float32 blocks. If a processor has
/// instructions for 16-bit matmuls, they are twice as fast as float32 (measured: 1.7). Otherwise they are less than
/// half as fast (measured: 0.03 to 0.45). The gap is wide, so a noisy measurement does not change the choice.
constexpr double kSlowMatmul = 0.8;

/// Returns the speeds. The first call measures them, in at most about a second. The file `products.json` of the cache
/// folder (cache_folder()) keeps them for other processes: one file for each processor, libtorch and set of instruction
/// masks. If the tries did not agree, the file is valid for a day. Without a cache folder each process measures its
/// own.
const MatmulThroughputs& matmul_throughputs();

/// Returns true if matmuls of `dtype` go through float32 blocks: bfloat16 and float16 if libtorch's own were measured
/// to be slower than the blocks and than kSlowMatmul of float32's speed. PLIMSOLL_16BIT_PRODUCTS overrides the
/// measurement: "float32" (true) or "libtorch" (false). The result is constant for the life of a process. Throws
/// UserError if the variable has any other value.
bool float32_products(DType dtype);

/// A scope, for tests, that acts as if PLIMSOLL_16BIT_PRODUCTS were set ("float32" or "libtorch"). Not thread-safe.
class ProductsScope {
 public:
  explicit ProductsScope(bool through_float32);
  ~ProductsScope();
  ProductsScope(const ProductsScope&) = delete;
  ProductsScope& operator=(const ProductsScope&) = delete;

 private:
  std::optional<bool> before_;
};

/// Return the speed, relative to float32's, of the matmuls and convolutions of `dtype` that this process uses; 1 for
/// float32. Rounded to powers of the fourth root of 2, so that noise does not change predictions.
double relative_matmul_speed(DType dtype);
double relative_convolution_speed(DType dtype);

/// Return the file's text and the speeds read from it; for tests. `until`: Unix time in seconds from which on the file
/// is not read; 0: no end. Nothing is read from a damaged file or from another machine's. `now`: Unix time in seconds.
std::string products_text(const MatmulThroughputs& speeds, int64_t until = 0);
std::optional<MatmulThroughputs> products_of(const std::string& text, int64_t now = 0);

}  // namespace plimsoll::ops
