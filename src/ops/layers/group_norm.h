// Declares group normalization (Y. Wu, K. He), with SiLU or ReLU of its result, and the size of its scratch.
#pragma once

#include <cstdint>
#include <tuple>

#include "ops/rows.h"

namespace at {
class Tensor;
}

namespace plimsoll::ops {

/// The function of a norm's result z that group_normalize computes too: z, z / (1 + exp(-z)), or max(z, 0).
enum class Activation : uint8_t { none, silu, relu };

/// Computes z = (x - mean) / sqrt(variance + eps) * weight + bias for x [N, C, ...], with the moments of each group of
/// C / groups channels of a sample; weight and bias [C]. Arithmetic is float32 (float64 for float64). Results are z,
/// and mean and variance [N, groups]. z has x's dtype, and x's layout if that is contiguous or channels last. With
/// `batch`, x is [N, C, H, W] with channels last and the moments are those of all samples, [1, C]: a batch norm, which
/// is a group norm of [1, C, N H W] with C groups.
///
/// The operator has gradients, and is recorded as two: plimsoll::group_moments computes mean, rstd and variance, and
/// plimsoll::group_normalize computes z, and a function of z, from x and the moments. Both and
/// plimsoll::group_norm_backward run on the CPU. Backward keeps x, mean and rstd: z is computed again. Throws UserError
/// if the shapes do not agree.
std::tuple<at::Tensor, at::Tensor, at::Tensor> group_norm(const at::Tensor& x, const at::Tensor& weight,
                                                          const at::Tensor& bias, int64_t groups, double eps,
                                                          bool batch = false);

/// Returns true if the numbers of one place of [N, C, ...] are adjacent in memory, and the places follow one another.
/// False for tensors that are contiguous too.
bool is_channels_last(Dims sizes, Dims strides);

/// Returns the rows of channels that one partial sum has, if the channels are last. It does not depend on the number of
/// threads, so neither do the sums.
inline int64_t group_norm_block(int64_t places) {
  return norm_block_rows(places);
}

/// Return the numbers of scratch of each operator, in the accumulator's type, for x [N, C, ...].
int64_t group_moments_scratch(Dims sizes, bool channels_last);
int64_t group_normalize_scratch(Dims sizes);
int64_t group_norm_backward_scratch(Dims sizes, bool channels_last);

}  // namespace plimsoll::ops
