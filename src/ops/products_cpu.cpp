#include "ops/products_cpu.h"

#include <ATen/CPUFunctions.h>
#include <ATen/ExpandUtils.h>
#include <ATen/Parallel.h>
#include <ATen/native/Resize.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <utility>

#include "ops/attention_rows_cpu.h"
#include "ops/matmul_throughput.h"
#include "ops/op_support.h"

namespace plimsoll::ops {
namespace {

using at::Scalar;
using at::Tensor;

/// Returns true if the elements of each column are contiguous and those of each row are not.
bool columns_first(const Tensor& matrix) {
  return matrix.size(1) > 1 && matrix.stride(1) != 1 && matrix.stride(0) == 1;
}

int64_t grain(int64_t width) {
  return std::max<int64_t>(1, 32768 / std::max<int64_t>(1, width));
}

/// A matrix of widened blocks in one piece of scratch.
class Block {
 public:
  Block(const Tensor& scratch, int64_t first, int64_t rows, int64_t columns)
      : place_(scratch.narrow(0, first, product_block(rows) * product_block(columns))) {}

  /// Returns float32 [rows, columns] with contiguous rows.
  Tensor matrix(int64_t rows, int64_t columns) const {
    const int64_t stride = product_block(columns);
    return place_.narrow(0, 0, rows * stride).view({rows, stride}).narrow(1, 0, columns);
  }

  /// Returns the part as float32, its elements in their order in memory.
  Tensor widened(const Tensor& part) const {
    if (columns_first(part)) return widened(part.t()).t();
    const int64_t rows = part.size(0), columns = part.size(1), stride = product_block(columns);
    Tensor to = matrix(rows, columns);
    if (part.stride(1) != 1 && columns > 1) return to.copy_(part);
    const auto* from = static_cast<const char*>(part.const_data_ptr());
    auto* data = to.mutable_data_ptr<float>();
    const DType dtype = dtype_of(part);
    at::parallel_for(0, rows, grain(columns), [&](int64_t begin, int64_t end) {
      widen_rows({from + begin * part.stride(0) * 2, dtype, part.stride(0), end - begin, columns}, stride,
                 data + begin * stride);
    });
    return to;
  }

 private:
  Tensor place_;
};

void store(const Tensor& from, const Tensor& to) {
  if (to.stride(1) != 1 && to.size(1) > 1) {
    to.copy_(from);
    return;
  }
  const int64_t columns = to.size(1);
  auto* data = static_cast<char*>(to.data_ptr());
  const auto* sums = from.const_data_ptr<float>();
  const DType dtype = dtype_of(to);
  at::parallel_for(0, to.size(0), grain(columns), [&](int64_t begin, int64_t end) {
    store_rows(sums + begin * from.stride(0), from.stride(0),
               {data + begin * to.stride(0) * 2, dtype, to.stride(0), end - begin, columns});
  });
}

}  // namespace

void product_in_blocks(const Tensor& out, const Tensor& self, const Tensor& a, const Tensor& b, double beta,
                       double alpha) {
  if (columns_first(out))  // the transposed result has contiguous rows
    return product_in_blocks(out.t(), self.defined() ? self.t() : self, b.t(), a.t(), beta, alpha);
  const int64_t rows = a.size(0), depth = a.size(1), columns = b.size(1);
  const int64_t left_size = product_block(rows) * product_block(depth),
                right_size = product_block(depth) * product_block(columns);
  const Tensor scratch = at::empty({matmul_scratch(rows, depth, columns) / 4}, a.options().dtype(at::kFloat));
  const Block left(scratch, 0, rows, depth), right(scratch, left_size, depth, columns),
      result(scratch, left_size + right_size, rows, columns);
  Tensor x, y;  // widened parts of a and b, and their positions: a part that is still there is not widened again
  std::pair<int64_t, int64_t> x_of{-1, -1}, y_of{-1, -1};
  for (int64_t column = 0; column < columns; column += kProductBlock) {
    const int64_t width = std::min(kProductBlock, columns - column);
    for (int64_t row = 0; row < rows; row += kProductBlock) {
      const int64_t height = std::min(kProductBlock, rows - row);
      Tensor sums = result.matrix(height, width);
      if (beta != 0) {
        const Tensor part = self.narrow(0, row, height).narrow(1, column, width);
        // widened() keeps the order in memory and may store the block transposed; the matmul's result must not be
        // transposed.
        if (part.stride(1) == 1 || width == 1)
          result.widened(part);
        else
          sums.copy_(part);
      }
      for (int64_t from = 0; from < depth; from += kProductBlock) {
        const int64_t size = std::min(kProductBlock, depth - from);
        if (std::exchange(x_of, {row, from}) != std::pair{row, from})
          x = left.widened(a.narrow(0, row, height).narrow(1, from, size));
        if (std::exchange(y_of, {from, column}) != std::pair{from, column})
          y = right.widened(b.narrow(0, from, size).narrow(1, column, width));
        at::cpu::addmm_out(sums, sums, x, y, from == 0 ? beta : 1, alpha);
      }
      store(sums, out.narrow(0, row, height).narrow(1, column, width));
    }
  }
}

namespace {

/// Returns true if a matmul, of batches of matrices with `dims` 3, goes through float32.
bool through_float32(const Tensor& a, const Tensor& b, int64_t dims) {
  if (a.scalar_type() != at::kBFloat16 && a.scalar_type() != at::kHalf) return false;
  const bool plain = a.dim() == dims && b.dim() == dims && b.scalar_type() == a.scalar_type() &&
                     a.layout() == at::kStrided && b.layout() == at::kStrided && b.device() == a.device() &&
                     a.numel() > 0 && b.numel() > 0 && a.size(-1) == b.size(-2) &&
                     (dims == 2 || a.size(0) == b.size(0));
  return plain && float32_products(dtype_of(a));
}

/// Checks the added tensor `self` too.
bool through_float32(const Tensor& self, const Tensor& a, const Tensor& b, int64_t dims) {
  if (!through_float32(a, b, dims) || self.scalar_type() != a.scalar_type() || self.layout() != at::kStrided ||
      self.device() != a.device())
    return false;
  std::vector<int64_t> sizes = a.sizes().vec();
  sizes.back() = b.size(-1);
  return at::is_expandable_to(self.sizes(), sizes);
}

std::vector<int64_t> result_sizes(const Tensor& a, const Tensor& b) {
  std::vector<int64_t> sizes = a.sizes().vec();
  sizes.back() = b.size(-1);
  return sizes;
}

bool takes_result(const Tensor& out, const Tensor& a) {
  return out.scalar_type() == a.scalar_type() && out.layout() == at::kStrided && out.device() == a.device();
}

/// Computes a matmul of matrices, or of batches of matrices.
void products(const Tensor& out, const Tensor& self, const Tensor& a, const Tensor& b, double beta, double alpha) {
  const Tensor added = beta != 0 ? self.expand(out.sizes()) : Tensor();
  if (a.dim() == 2) return product_in_blocks(out, added, a, b, beta, alpha);
  for (int64_t i = 0; i < a.size(0); ++i)
    product_in_blocks(out.select(0, i), added.defined() ? added.select(0, i) : added, a.select(0, i), b.select(0, i),
                      beta, alpha);
}

Tensor mm(const Tensor& a, const Tensor& b) {
  if (!through_float32(a, b, 2)) return at::cpu::mm(a, b);
  const Tensor out = at::empty(result_sizes(a, b), a.options());
  products(out, {}, a, b, 0, 1);
  return out;
}
Tensor& mm_out(const Tensor& a, const Tensor& b, Tensor& out) {
  if (!through_float32(a, b, 2) || !takes_result(out, a)) return at::cpu::mm_out(out, a, b);
  at::native::resize_output(out, result_sizes(a, b));
  products(out, {}, a, b, 0, 1);
  return out;
}
Tensor bmm(const Tensor& a, const Tensor& b) {
  if (!through_float32(a, b, 3)) return at::cpu::bmm(a, b);
  const Tensor out = at::empty(result_sizes(a, b), a.options());
  products(out, {}, a, b, 0, 1);
  return out;
}
Tensor& bmm_out(const Tensor& a, const Tensor& b, Tensor& out) {
  if (!through_float32(a, b, 3) || !takes_result(out, a)) return at::cpu::bmm_out(out, a, b);
  at::native::resize_output(out, result_sizes(a, b));
  products(out, {}, a, b, 0, 1);
  return out;
}

// Defines matmuls with an added tensor: of matrices (addmm), and of batches (baddbmm).
#define PLIMSOLL_ADDED_PRODUCT(name, dims)                                                                          \
  Tensor name(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) {      \
    if (!through_float32(self, a, b, dims)) return at::cpu::name(self, a, b, beta, alpha);                          \
    const Tensor out = at::empty(result_sizes(a, b), a.options());                                                  \
    products(out, self, a, b, beta.toDouble(), alpha.toDouble());                                                   \
    return out;                                                                                                     \
  }                                                                                                                 \
  Tensor& name##_out(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha, \
                     Tensor& out) {                                                                                 \
    if (!through_float32(self, a, b, dims) || !takes_result(out, a))                                                \
      return at::cpu::name##_out(out, self, a, b, beta, alpha);                                                     \
    at::native::resize_output(out, result_sizes(a, b));                                                             \
    products(out, self, a, b, beta.toDouble(), alpha.toDouble());                                                   \
    return out;                                                                                                     \
  }                                                                                                                 \
  Tensor& name##_(Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha) {        \
    if (!through_float32(self, a, b, dims) || self.sizes() != at::IntArrayRef(result_sizes(a, b)))                  \
      return at::cpu::name##_(self, a, b, beta, alpha);                                                             \
    products(self, self, a, b, beta.toDouble(), alpha.toDouble());                                                  \
    return self;                                                                                                    \
  }
PLIMSOLL_ADDED_PRODUCT(addmm, 2)
PLIMSOLL_ADDED_PRODUCT(baddbmm, 3)
#undef PLIMSOLL_ADDED_PRODUCT

struct NoWarnings : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

}  // namespace

TORCH_LIBRARY_IMPL(aten, CPU, m) {
  // libtorch warns of every kernel that replaces another one.
  NoWarnings none;
  const c10::WarningUtils::WarningHandlerGuard quiet(&none);
  m.impl("mm", mm);
  m.impl("mm.out", mm_out);
  m.impl("bmm", bmm);
  m.impl("bmm.out", bmm_out);
  m.impl("addmm", addmm);
  m.impl("addmm.out", addmm_out);
  m.impl("addmm_", addmm_);
  m.impl("baddbmm", baddbmm);
  m.impl("baddbmm.out", baddbmm_out);
  m.impl("baddbmm_", baddbmm_);
}

}  // namespace plimsoll::ops
