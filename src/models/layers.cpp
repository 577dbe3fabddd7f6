#include "models/layers.h"

#include <ATen/ATen.h>
#include <torch/types.h>

#include "ops/layers/rms_norm.h"

namespace plimsoll::model {

NormImpl::NormImpl(const std::string& kind, int64_t size, double eps) : eps_(eps) {
  weight_ = register_parameter("weight", torch::ones({size}));
  if (kind == "layernorm") bias_ = register_parameter("bias", torch::zeros({size}));
}

at::Tensor NormImpl::forward(const at::Tensor& x) const {
  if (bias_.defined()) return at::layer_norm(x, {x.size(-1)}, weight_, bias_, eps_);
  return ops::rms_norm(x, weight_, eps_);
}

}  // namespace plimsoll::model
