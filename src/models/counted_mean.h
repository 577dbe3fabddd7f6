// Declares the mean over the counted samples of a micro batch: the last micro batch of an epoch may have padding.
#pragma once

#include <ATen/ATen.h>

namespace plimsoll::model {

/// Returns the mean of `values` [B] over the samples whose `counted` [B] is 1; 0 if there are none.
inline at::Tensor counted_mean(const at::Tensor& values, const at::Tensor& counted) {
  return (values * counted).sum() / counted.sum().clamp_min(1);
}

}  // namespace plimsoll::model
