// Means over the samples of a micro batch that count: the last one of an epoch may be filled up.
#pragma once

#include <ATen/ATen.h>

namespace plimsoll::model {

/// The mean of `values` [B] over the samples that `counted` [B] has 1 for; 0 where there are none.
inline at::Tensor counted_mean(const at::Tensor& values, const at::Tensor& counted) {
  return (values * counted).sum() / counted.sum().clamp_min(1);
}

}  // namespace plimsoll::model
