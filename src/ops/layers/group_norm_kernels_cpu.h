// Declares the kernels of group normalization on the CPU, on raw memory.
#pragma once

#include <cstdint>

#include "ops/layers/group_norm.h"
#include "ops/rows.h"
#include "plimsoll/trace.h"

namespace plimsoll::ops {

/// The sizes of x, and how it lies. A strip is a run of elements in memory: the places of a channel of a sample, or the
/// channels of a place.
struct Strips {
  int64_t samples, channels, places;
  bool last;

  int64_t width() const { return last ? channels : places; }
  int64_t per_sample() const { return last ? places : channels; }
  /// Strips of one partial sum, and partial sums of a sample.
  int64_t block() const { return last ? group_norm_block(places) : 1; }
  int64_t blocks() const { return last ? div_up(places, block()) : channels; }
};

inline Strips strips_of(Dims sizes, bool last) {
  const int64_t places = elements(sizes.subspan(2));
  return {sizes[0], sizes[1], places, last};
}

/// The arguments of the kernels. `centers`, `scales` and `shifts` have a number for each channel of each sample:
/// z = (x - center) * scale + shift.
struct GroupNormArguments {
  Strips strips;
  const void* x = nullptr;
  const void* grad = nullptr;
  void* out = nullptr;  ///< y, or dx
  void *centers = nullptr, *scales = nullptr, *shifts = nullptr;
  void *slopes = nullptr, *offsets = nullptr;  // of backward: dx = dz * scale - offset - (x - center) * slope
  void* sums = nullptr;  ///< partial sums: [samples, blocks, kinds, channels], or [samples, channels, kinds]
  Activation activation = Activation::none;
};

/// Sums x, or with `squares` (x - center)^2, over the strips of the blocks [begin, end).
void sum_group_moments(DType dtype, const GroupNormArguments& args, int64_t begin, int64_t end, bool squares);
/// Computes z, and the activation of z, of the strips [begin, end).
void normalize_groups(DType dtype, const GroupNormArguments& args, int64_t begin, int64_t end);
/// Sums dz, and dz (x - center), over the strips of the blocks [begin, end). Behind an activation dz is written to dx.
void sum_group_gradients(DType dtype, const GroupNormArguments& args, int64_t begin, int64_t end);
/// Computes dx of the strips [begin, end).
void differentiate_groups(DType dtype, const GroupNormArguments& args, int64_t begin, int64_t end);

}  // namespace plimsoll::ops
