// Pieces of our models beside plimsoll::Linear.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <string>

namespace plimsoll::model {

/// RMSNorm (Zhang and Sennrich 2019) or LayerNorm (Ba et al. 2016) over the last dimension.
class NormImpl : public torch::nn::Module {
 public:
  NormImpl(const std::string& kind, int64_t size, double eps);
  at::Tensor forward(const at::Tensor& x) const;
  const at::Tensor& weight() const { return weight_; }

 private:
  at::Tensor weight_, bias_;
  double eps_;
};
TORCH_MODULE(Norm);

}  // namespace plimsoll::model
