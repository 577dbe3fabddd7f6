// The configuration of `model.type: gesture_ssm`: a classifier of point sequences by state-space layers.
#pragma once

#include <cstdint>

namespace plimsoll {

struct GestureSsmConfig {
  int64_t hidden_dim = 256;
  double dropout = 0;  ///< [0, 1)
  double norm_eps = 1e-5;
};

}  // namespace plimsoll
