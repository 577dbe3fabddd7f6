#include "ops/layers/group_norm_kernels_cpu.h"

#include <algorithm>

#include "ops/kernel_dtypes.h"

namespace plimsoll::ops {
namespace {

using lanes::load_some;
using lanes::store_some;

// Returns sixteen numbers from `from` on, or one for all.
template <typename T, bool last>
PLIMSOLL_INLINE Vector<T> numbers(const void* from, int64_t at, int64_t i, int64_t partial) {
  const auto* values = static_cast<const Scalar<T>*>(from) + at;
  if constexpr (last) return load_some(values + i, partial);
  return lanes::splat<Vector<T>>(values[0]);
}

// Returns the index of a strip's numbers for channels and samples.
template <bool last>
PLIMSOLL_INLINE int64_t channel_of(const Strips& strips, int64_t strip) {
  return last ? strip / strips.places * strips.channels : strip;
}

// Elements that are summed in the type of the arithmetic before their sum is added in float64.
constexpr int64_t kSummed = 32 * lanes::kLanes;

// Sums x, or with `squares` (x - center)^2, over the strips of a block.
template <typename T, bool last>
PLIMSOLL_INLINE void moments_of(const GroupNormArguments& args, int64_t begin, int64_t end, bool squares) {
  using V = Vector<T>;
  const int64_t width = args.strips.width(), block = args.strips.block(), blocks = args.strips.blocks();
  for (int64_t b = begin; b < end; ++b) {
    auto* sums = static_cast<Scalar<T>*>(args.sums) + b * (last ? width : 1);
    const int64_t first = last ? b / blocks * args.strips.places + b % blocks * block : b;
    const int64_t behind = last ? std::min(first + block, (b / blocks + 1) * args.strips.places) : b + 1;
    const int64_t channel = channel_of<last>(args.strips, first);
    if constexpr (last) {
      PLIMSOLL_FOR_LANES(i, partial, width) {
        V total{};
        const V center = squares ? numbers<T, last>(args.centers, channel, i, partial) : V{};
        for (int64_t strip = first; strip < behind; ++strip) {
          const V x = load_some(static_cast<const T*>(args.x) + strip * width + i, partial) - center;
          total += squares ? x * x : x;
        }
        store_some(sums + i, total, partial);
      }
    } else {
      const V center = squares ? numbers<T, last>(args.centers, channel, 0, 0) : V{};
      const T* from = static_cast<const T*>(args.x) + first * width;
      double total = 0;
      for (int64_t part = 0; part < width; part += kSummed) {
        V some{};
        PLIMSOLL_FOR_LANES(i, partial, std::min(kSummed, width - part)) {
          V x = load_some(from + part + i, partial) - center;
          if (partial)
            for (int64_t j = partial; j < lanes::kLanes; ++j) x[j] = 0;
          some += squares ? x * x : x;
        }
        total += static_cast<double>(lanes::sum(some));
      }
      sums[0] = static_cast<Scalar<T>>(total);
    }
  }
}

template <typename T, bool last>
PLIMSOLL_INLINE void normalized(const GroupNormArguments& args, int64_t begin, int64_t end) {
  using V = Vector<T>;
  const int64_t width = args.strips.width();
  const bool silu = args.activation == Activation::silu, relu = args.activation == Activation::relu;
  for (int64_t strip = begin; strip < end; ++strip) {
    const int64_t channel = channel_of<last>(args.strips, strip);
    const T* from = static_cast<const T*>(args.x) + strip * width;
    T* to = static_cast<T*>(args.out) + strip * width;
    PLIMSOLL_FOR_LANES(i, partial, width) {
      const V z = (load_some(from + i, partial) - numbers<T, last>(args.centers, channel, i, partial)) *
                      numbers<T, last>(args.scales, channel, i, partial) +
                  numbers<T, last>(args.shifts, channel, i, partial);
      const V zero{};
      store_some(to + i, silu ? z / (lanes::exp(-z) + 1) : relu ? lanes::where_below(z, zero, zero, z) : z, partial);
    }
  }
}

// Returns dz, the gradient of z; behind an activation, it also writes it to dx.
template <typename T, bool last>
PLIMSOLL_INLINE Vector<T> gradient_of(const GroupNormArguments& args, int64_t strip, int64_t channel, int64_t i,
                                      int64_t partial, const Vector<T>& centered) {
  using V = Vector<T>;
  const int64_t at = strip * args.strips.width() + i;
  const V dy = load_some(static_cast<const T*>(args.grad) + at, partial);
  if (args.activation == Activation::none) return dy;
  const V z = centered * numbers<T, last>(args.scales, channel, i, partial) +
              numbers<T, last>(args.shifts, channel, i, partial);
  const V zero{};
  V dz = lanes::where_below(zero, z, dy, zero);
  if (args.activation == Activation::silu) {
    const V sigmoid = 1 / (lanes::exp(-z) + 1);
    dz = dy * sigmoid * (1 + z * (1 - sigmoid));
  }
  store_some(static_cast<T*>(args.out) + at, dz, partial);
  return dz;
}

// Sums dz, and dz (x - center), over the strips of a block.
template <typename T, bool last>
PLIMSOLL_INLINE void gradients_of(const GroupNormArguments& args, int64_t begin, int64_t end) {
  using V = Vector<T>;
  const int64_t width = args.strips.width(), block = args.strips.block(), blocks = args.strips.blocks();
  for (int64_t b = begin; b < end; ++b) {
    auto* sums = static_cast<Scalar<T>*>(args.sums) + 2 * b * (last ? width : 1);
    const int64_t first = last ? b / blocks * args.strips.places + b % blocks * block : b;
    const int64_t behind = last ? std::min(first + block, (b / blocks + 1) * args.strips.places) : b + 1;
    const int64_t channel = channel_of<last>(args.strips, first);
    if constexpr (last) {
      PLIMSOLL_FOR_LANES(i, partial, width) {
        V total{}, product{};
        const V center = numbers<T, last>(args.centers, channel, i, partial);
        for (int64_t strip = first; strip < behind; ++strip) {
          const V x = load_some(static_cast<const T*>(args.x) + strip * width + i, partial) - center;
          const V dz = gradient_of<T, last>(args, strip, channel, i, partial, x);
          total += dz;
          product += dz * x;
        }
        store_some(sums + i, total, partial);
        store_some(sums + width + i, product, partial);
      }
    } else {
      const V center = numbers<T, last>(args.centers, channel, 0, 0);
      const T* from = static_cast<const T*>(args.x) + first * width;
      double total = 0, product = 0;
      for (int64_t part = 0; part < width; part += kSummed) {
        V some{}, products{};
        PLIMSOLL_FOR_LANES(i, partial, std::min(kSummed, width - part)) {
          const V x = load_some(from + part + i, partial) - center;
          const V dz = gradient_of<T, last>(args, first, channel, part + i, partial, x);
          some += dz;
          products += dz * x;
        }
        total += static_cast<double>(lanes::sum(some));
        product += static_cast<double>(lanes::sum(products));
      }
      sums[0] = static_cast<Scalar<T>>(total);
      sums[1] = static_cast<Scalar<T>>(product);
    }
  }
}

template <typename T, bool last>
PLIMSOLL_INLINE void differentiated(const GroupNormArguments& args, int64_t begin, int64_t end) {
  using V = Vector<T>;
  const int64_t width = args.strips.width();
  for (int64_t strip = begin; strip < end; ++strip) {
    const int64_t channel = channel_of<last>(args.strips, strip);
    const T* from = static_cast<const T*>(args.x) + strip * width;
    T* to = static_cast<T*>(args.out) + strip * width;
    const T* gradient = args.activation != Activation::none ? to : static_cast<const T*>(args.grad) + strip * width;
    PLIMSOLL_FOR_LANES(i, partial, width) {
      const V x = load_some(from + i, partial) - numbers<T, last>(args.centers, channel, i, partial);
      store_some(to + i,
                 load_some(gradient + i, partial) * numbers<T, last>(args.scales, channel, i, partial) -
                     numbers<T, last>(args.offsets, channel, i, partial) -
                     x * numbers<T, last>(args.slopes, channel, i, partial),
                 partial);
    }
  }
}

template <typename T>
PLIMSOLL_INLINE void sum_moments(const GroupNormArguments& args, int64_t begin, int64_t end, bool squares) {
  args.strips.last ? moments_of<T, true>(args, begin, end, squares) : moments_of<T, false>(args, begin, end, squares);
}
template <typename T>
PLIMSOLL_INLINE void normalize(const GroupNormArguments& args, int64_t begin, int64_t end) {
  args.strips.last ? normalized<T, true>(args, begin, end) : normalized<T, false>(args, begin, end);
}
template <typename T>
PLIMSOLL_INLINE void sum_gradients(const GroupNormArguments& args, int64_t begin, int64_t end) {
  args.strips.last ? gradients_of<T, true>(args, begin, end) : gradients_of<T, false>(args, begin, end);
}
template <typename T>
PLIMSOLL_INLINE void differentiate(const GroupNormArguments& args, int64_t begin, int64_t end) {
  args.strips.last ? differentiated<T, true>(args, begin, end) : differentiated<T, false>(args, begin, end);
}

PLIMSOLL_KERNELS(sum_moments, (const GroupNormArguments& args, int64_t begin, int64_t end, bool squares),
                 (args, begin, end, squares))
PLIMSOLL_KERNELS(normalize, (const GroupNormArguments& args, int64_t begin, int64_t end), (args, begin, end))
PLIMSOLL_KERNELS(sum_gradients, (const GroupNormArguments& args, int64_t begin, int64_t end), (args, begin, end))
PLIMSOLL_KERNELS(differentiate, (const GroupNormArguments& args, int64_t begin, int64_t end), (args, begin, end))

}  // namespace

void sum_group_moments(DType dtype, const GroupNormArguments& args, int64_t begin, int64_t end, bool squares) {
  pick_sum_moments(dtype, args, begin, end, squares);
}
void normalize_groups(DType dtype, const GroupNormArguments& args, int64_t begin, int64_t end) {
  pick_normalize(dtype, args, begin, end);
}
void sum_group_gradients(DType dtype, const GroupNormArguments& args, int64_t begin, int64_t end) {
  pick_sum_gradients(dtype, args, begin, end);
}
void differentiate_groups(DType dtype, const GroupNormArguments& args, int64_t begin, int64_t end) {
  pick_differentiate(dtype, args, begin, end);
}

}  // namespace plimsoll::ops
