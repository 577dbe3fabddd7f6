// Declares the features that an image encoder returns.
#pragma once

#include <ATen/core/Tensor.h>

namespace plimsoll::model {

/// Features of images of S x S pixels at two resolutions.
struct ImageFeatures {
  at::Tensor fine;    ///< [B, S / 4, S / 4, widths[0]]: result of the first stage
  at::Tensor coarse;  ///< [B, S / 16, S / 16, out]: result of the neck
};

}  // namespace plimsoll::model
