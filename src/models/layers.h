// Declares the layers of our models that are not in plimsoll/ headers: norms, and initial weights for plimsoll::Linear.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <string>

namespace plimsoll::model {

/// Standard deviation of initial weights (GPT-2).
inline constexpr double kInitialDeviation = 0.02;

/// A norm over the last dimension: RMSNorm (Zhang and Sennrich 2019) or LayerNorm (Ba et al. 2016).
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

/// Epsilon of norms that no configuration sets.
inline constexpr double kNormEps = 1e-5;

/// Returns an RMSNorm with this epsilon.
inline Norm rms_norm_of(int64_t width) {
  return Norm("rmsnorm", width, kNormEps);
}

}  // namespace plimsoll::model
