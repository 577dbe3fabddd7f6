// Pieces of our models beside plimsoll::Linear.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <string>

namespace plimsoll::model {

/// Standard deviation of initial weights (GPT-2).
inline constexpr double kInitialDeviation = 0.02;

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

/// The epsilon of norms that no config sets.
inline constexpr double kNormEps = 1e-5;

/// RMSNorm with that epsilon.
inline Norm rms_norm_of(int64_t width) {
  return Norm("rmsnorm", width, kNormEps);
}

}  // namespace plimsoll::model
