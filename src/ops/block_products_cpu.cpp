#include "ops/block_products_cpu.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "ops/cpu_capability.h"
#include "ops/lanes.h"
#include "ops/rows.h"
#include "ops/tile_product.h"
#include "plimsoll/error.h"

// If kernels are compiled for several instruction sets, those of AVX-512 have tiles of their own. Its 32 registers hold
// 24 vectors of sums, which hide the latency of two multiply-adds a cycle, four vectors of the right matrix and one of
// the left. The 16 registers of half the width hold only 6 vectors of sums.
#if PLIMSOLL_HAS_VARIANTS
#include <immintrin.h>
#define PLIMSOLL_AVX512 [[gnu::target("arch=x86-64-v4,prfchw")]]
#define PLIMSOLL_AVX512_BF16 [[gnu::target("arch=x86-64-v4,prfchw,avx512bf16")]]
#endif

namespace plimsoll::ops {

static_assert(kBlockLanes == lanes::kLanes);

void block_product(double* c, int64_t c_row, const BlockLeft<double>& a, const double* b, int64_t b_row, int64_t rows,
                   int64_t depth, int64_t columns, bool add) {
  tile_product(c, c_row, {a.data, a.row, a.column}, b, b_row, rows, depth, columns, add);
}

#if PLIMSOLL_HAS_VARIANTS
namespace {

// The code below computes one tile of rows by vectors, and then all tiles. `Each` is the element that a matmul
// multiplies and adds.

struct EachFloat {
  using Left = float;
  using Right = float;
  PLIMSOLL_AVX512 PLIMSOLL_INLINE static __m512 left(const float* at) { return _mm512_set1_ps(*at); }
  PLIMSOLL_AVX512 PLIMSOLL_INLINE static __m512 right(const float* at) { return _mm512_loadu_ps(at); }
  PLIMSOLL_AVX512 PLIMSOLL_INLINE static __m512 add(__m512 sum, __m512 a, __m512 b) {
    return _mm512_fmadd_ps(a, b, sum);
  }
};

struct EachPair {
  using Left = uint16_t;
  using Right = Pair;
  PLIMSOLL_AVX512_BF16 PLIMSOLL_INLINE static __m512i left(const uint16_t* at) {
    return _mm512_set1_epi32(lanes::read<int32_t>(at));
  }
  PLIMSOLL_AVX512_BF16 PLIMSOLL_INLINE static __m512i right(const Pair* at) { return _mm512_loadu_si512(at); }
  PLIMSOLL_AVX512_BF16 PLIMSOLL_INLINE static __m512 add(__m512 sum, __m512i a, __m512i b) {
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
  }
};

/// Cache lines that a tile requests, one at every second step of its depth.
struct PrefetchRun {
  const char* line;
  int64_t step, count;  ///< bytes from a line to the next; lines
  bool written;

  PLIMSOLL_INLINE void next() {
    if (written)
      __builtin_prefetch(line, 1);
    else
      __builtin_prefetch(line, 0, 2);
    if (--count > 0) line += step;  // a run that is over requests its last line again, which costs nothing
  }
};

/// Divides memory that is to be in the second-level cache into runs for the tiles of a matmul. If all lines were
/// requested together, they would occupy the buffers that the matmul's own loads need.
class Prefetcher {
 public:
  PLIMSOLL_INLINE explicit Prefetcher(std::span<const ReadAhead> parts) : parts_(parts) { skip_empty(); }

  /// Returns a run of at most `slots` lines; `other` is a valid address.
  PLIMSOLL_INLINE PrefetchRun run(int64_t slots, const void* other) {
    if (parts_.empty()) return {static_cast<const char*>(other), 0, 0, false};
    const ReadAhead& part = parts_.front();
    const int64_t lines = div_up(part.bytes, kLine);
    const bool along_rows = lines >= part.rows;
    const int64_t length = along_rows ? lines : part.rows, runs = along_rows ? part.rows : lines;
    const int64_t step = along_rows ? kLine : part.stride, across = along_rows ? part.stride : kLine;
    const PrefetchRun run{part.data + run_ * across + at_ * step, step, std::min(slots, length - at_), part.written};
    at_ += run.count;
    if (at_ == length) {
      at_ = 0;
      if (++run_ == runs) {
        run_ = 0;
        parts_ = parts_.subspan(1);
        skip_empty();
      }
    }
    return run;
  }

 private:
  static constexpr int64_t kLine = 64;

  PLIMSOLL_INLINE void skip_empty() {
    while (!parts_.empty() && (parts_.front().rows == 0 || parts_.front().bytes == 0)) parts_ = parts_.subspan(1);
  }

  std::span<const ReadAhead> parts_;
  int64_t run_ = 0, at_ = 0;
};

/// Returns the depth, 64 to 512, for which a strip of 64 columns of the right matrix takes at most two thirds of the
/// first-level cache.
int64_t depth_slice() {
  static const int64_t slice = [] {
    const long bytes = ::sysconf(_SC_LEVEL1_DCACHE_SIZE);
    return std::clamp<int64_t>(bytes / 3 * 2 / (4 * kBlockLanes * 4) / 16 * 16, 64, 512);
  }();
  return slice;
}

// The attribute that allows a function to use an instruction set cannot be a template argument. The tiles are therefore
// macros, one set of functions for each attribute.
#define PLIMSOLL_TILES(target, Each, name)                                                                      \
  template <int kRows, int kVectors>                                                                            \
  target PLIMSOLL_INLINE void name##_tile(float* c, int64_t c_row, const Each::Left* a, int64_t a_row,          \
                                          int64_t a_column, const Each::Right* b, int64_t b_row, int64_t depth, \
                                          bool add, PrefetchRun run) {                                          \
    __m512 sums[kRows][kVectors];                                                                               \
    _Pragma("GCC unroll 16") for (int r = 0; r < kRows; ++r)                                                    \
        _Pragma("GCC unroll 16") for (int v = 0; v < kVectors; ++v) sums[r][v] =                                \
            add ? _mm512_loadu_ps(c + r * c_row + v * kBlockLanes) : _mm512_setzero_ps();                       \
    for (int64_t k = 0; k < depth; ++k) {                                                                       \
      if (k % 2 == 0) run.next();                                                                               \
      decltype(Each::right(b)) right[kVectors];                                                                 \
      _Pragma("GCC unroll 16") for (int v = 0; v < kVectors; ++v) right[v] = Each::right(b + v * kBlockLanes);  \
      _Pragma("GCC unroll 16") for (int r = 0; r < kRows; ++r) {                                                \
        const auto left = Each::left(a + r * a_row);                                                            \
        _Pragma("GCC unroll 16") for (int v = 0; v < kVectors; ++v) sums[r][v] =                                \
            Each::add(sums[r][v], left, right[v]);                                                              \
      }                                                                                                         \
      a += a_column;                                                                                            \
      b += b_row;                                                                                               \
    }                                                                                                           \
    _Pragma("GCC unroll 16") for (int r = 0; r < kRows; ++r)                                                    \
        _Pragma("GCC unroll 16") for (int v = 0; v < kVectors; ++v)                                             \
            _mm512_storeu_ps(c + r * c_row + v * kBlockLanes, sums[r][v]);                                      \
  }                                                                                                             \
  template <int kMaxRows, int kVectors>                                                                         \
  target PLIMSOLL_INLINE void name##_columns(float* c, int64_t c_row, const BlockLeft<Each::Left>& a,           \
                                             const Each::Right* b, int64_t b_row, int64_t rows, int64_t depth,  \
                                             bool add, Prefetcher& ahead) {                                     \
    for (int64_t i = 0, tall = 0; i < rows; i += tall) {                                                        \
      tall = div_up(rows - i, div_up(rows - i, kMaxRows));                                                      \
      float* const to = c + i * c_row;                                                                          \
      const Each::Left* const left = a.data + i * a.row;                                                        \
      const PrefetchRun run = ahead.run(depth / 2, left);                                                       \
      switch (tall) {                                                                                           \
        case 1:                                                                                                 \
          name##_tile<1, kVectors>(to, c_row, left, a.row, a.column, b, b_row, depth, add, run);                \
          break;                                                                                                \
        case 2:                                                                                                 \
          name##_tile<2, kVectors>(to, c_row, left, a.row, a.column, b, b_row, depth, add, run);                \
          break;                                                                                                \
        case 3:                                                                                                 \
          name##_tile<3, kVectors>(to, c_row, left, a.row, a.column, b, b_row, depth, add, run);                \
          break;                                                                                                \
        case 4:                                                                                                 \
          name##_tile<4, kVectors>(to, c_row, left, a.row, a.column, b, b_row, depth, add, run);                \
          break;                                                                                                \
        case 5:                                                                                                 \
          name##_tile<5, kVectors>(to, c_row, left, a.row, a.column, b, b_row, depth, add, run);                \
          break;                                                                                                \
        default:                                                                                                \
          name##_tile<6, kVectors>(to, c_row, left, a.row, a.column, b, b_row, depth, add, run);                \
      }                                                                                                         \
    }                                                                                                           \
  }                                                                                                             \
  target static void name(float* c, int64_t c_row, const BlockLeft<Each::Left>& a, const Each::Right* b,        \
                          int64_t b_row, int64_t rows, int64_t depth, int64_t columns, bool add,                \
                          std::span<const ReadAhead> read_ahead) {                                              \
    const int64_t slice = depth_slice();                                                                        \
    Prefetcher ahead(read_ahead);                                                                               \
    for (int64_t k = 0; k < depth; k += slice) {                                                                \
      const BlockLeft<Each::Left> left{a.data + k * a.column, a.row, a.column};                                 \
      const Each::Right* const right = b + k * b_row;                                                           \
      const int64_t part = std::min(slice, depth - k);                                                          \
      const bool sum = add || k > 0;                                                                            \
      int64_t j = 0;                                                                                            \
      for (; columns - j >= 4 * kBlockLanes; j += 4 * kBlockLanes)                                              \
        name##_columns<6, 4>(c + j, c_row, left, right + j, b_row, rows, part, sum, ahead);                     \
      switch ((columns - j) / kBlockLanes) {                                                                    \
        case 3:                                                                                                 \
          name##_columns<6, 3>(c + j, c_row, left, right + j, b_row, rows, part, sum, ahead);                   \
          break;                                                                                                \
        case 2:                                                                                                 \
          name##_columns<6, 2>(c + j, c_row, left, right + j, b_row, rows, part, sum, ahead);                   \
          break;                                                                                                \
        case 1:                                                                                                 \
          name##_columns<6, 1>(c + j, c_row, left, right + j, b_row, rows, part, sum, ahead);                   \
          break;                                                                                                \
        default:                                                                                                \
          break;                                                                                                \
      }                                                                                                         \
    }                                                                                                           \
  }
PLIMSOLL_TILES(PLIMSOLL_AVX512, EachFloat, wide_f32)
PLIMSOLL_TILES(PLIMSOLL_AVX512_BF16, EachPair, wide_pairs)

}  // namespace

bool has_wide_tiles() {
  return cpu_capability() == CpuCapability::avx512;
}
bool has_pair_products() {
  return has_wide_tiles() && __builtin_cpu_supports("avx512bf16");
}
bool has_tile_products() {
  // oneDNN's own mask also keeps libtorch from using them.
  static const bool masked = [] {
    for (const char* name : {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"})
      if (const char* value = std::getenv(name); value && *value)
        return std::string_view(value).find("AMX") == std::string_view::npos && std::string_view(value) != "DEFAULT";
    return false;
  }();
  return !masked && __builtin_cpu_supports("amx-bf16");
}

void block_product(float* c, int64_t c_row, const BlockLeft<float>& a, const float* b, int64_t b_row, int64_t rows,
                   int64_t depth, int64_t columns, bool add, std::span<const ReadAhead> ahead) {
  if (has_wide_tiles()) return wide_f32(c, c_row, a, b, b_row, rows, depth, columns, add, ahead);
  tile_product(c, c_row, {a.data, a.row, a.column}, b, b_row, rows, depth, columns, add);
}
void block_product(float* c, int64_t c_row, const BlockLeft<uint16_t>& a, const Pair* b, int64_t b_row, int64_t rows,
                   int64_t depth, int64_t columns, bool add, std::span<const ReadAhead> ahead) {
  check(has_pair_products(), "block_product: this machine has no products of bfloat16 pairs");
  wide_pairs(c, c_row, a, b, b_row, rows, depth, columns, add, ahead);
}
#else
bool has_wide_tiles() {
  return false;
}
bool has_pair_products() {
  return false;
}
bool has_tile_products() {
  return false;
}

void block_product(float* c, int64_t c_row, const BlockLeft<float>& a, const float* b, int64_t b_row, int64_t rows,
                   int64_t depth, int64_t columns, bool add, std::span<const ReadAhead>) {
  tile_product(c, c_row, {a.data, a.row, a.column}, b, b_row, rows, depth, columns, add);
}
void block_product(float*, int64_t, const BlockLeft<uint16_t>&, const Pair*, int64_t, int64_t, int64_t, int64_t, bool,
                   std::span<const ReadAhead>) {
  throw InternalError("block_product: this machine has no products of bfloat16 pairs");
}
#endif

}  // namespace plimsoll::ops
