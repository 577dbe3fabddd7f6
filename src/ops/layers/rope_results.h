// Declares the check, the result and the frequencies of rope, for the kernels of every device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace plimsoll::ops {

/// Returns the result of rope, or of the inverse rotation (`inverse`), not filled yet. Throws UserError for arguments
/// that do not belong together. It is also the Meta kernel.
at::Tensor rope_result(const at::Tensor& x, int64_t position, double theta, bool inverse, at::ArrayRef<double> scaling);
/// Returns the radians per position of each of width / 2 pairs.
std::vector<double> rope_frequencies(int64_t width, double theta, at::ArrayRef<double> scaling);

}  // namespace plimsoll::ops
