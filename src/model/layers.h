// The pieces of a decoder: projections, norms. Parameters are made without a first initialisation that a second would
// overwrite.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <string>

namespace plimsoll::model {

/// y = x W^T + b; weight [out, in] from N(0, standard_deviation), bias zeros or absent.
class ProjectionImpl : public torch::nn::Module {
 public:
  ProjectionImpl(int64_t in, int64_t out, bool bias, double standard_deviation);
  at::Tensor forward(const at::Tensor& x) const;

 private:
  at::Tensor weight_, bias_;
};
TORCH_MODULE(Projection);

/// RMSNorm (Zhang and Sennrich 2019) or LayerNorm (Ba et al. 2016) over the last dimension.
class NormImpl : public torch::nn::Module {
 public:
  NormImpl(const std::string& kind, int64_t size, double eps);
  at::Tensor forward(const at::Tensor& x) const;

 private:
  at::Tensor weight_, bias_;
  double eps_;
};
TORCH_MODULE(Norm);

}  // namespace plimsoll::model
