#include "model/layers.h"

#include <ATen/ATen.h>
#include <torch/nn/init.h>
#include <torch/types.h>

#include "ops/rms_norm.h"

namespace plimsoll::model {

ProjectionImpl::ProjectionImpl(int64_t in, int64_t out, bool bias, double standard_deviation) {
  weight_ = register_parameter("weight", torch::empty({out, in}));
  torch::nn::init::normal_(weight_, 0.0, standard_deviation);
  if (bias) bias_ = register_parameter("bias", torch::zeros({out}));
}

at::Tensor ProjectionImpl::forward(const at::Tensor& x) const {
  return at::linear(x, weight_, bias_);
}

NormImpl::NormImpl(const std::string& kind, int64_t size, double eps) : eps_(eps) {
  weight_ = register_parameter("weight", torch::ones({size}));
  if (kind == "layernorm") bias_ = register_parameter("bias", torch::zeros({size}));
}

at::Tensor NormImpl::forward(const at::Tensor& x) const {
  if (bias_.defined()) return at::layer_norm(x, {x.size(-1)}, weight_, bias_, eps_);
  return ops::rms_norm(x, weight_, eps_);
}

}  // namespace plimsoll::model
