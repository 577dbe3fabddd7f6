// A linear layer that can be adapted and quantised: use it in a model of your own in place of torch::nn::Linear, and
// `lora` and `quantize` (plimsoll/options.h) find it by its name.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <optional>

#include "plimsoll/options.h"

namespace plimsoll {

/// y = x W^T + b. Parameters "weight" [out, in] and "bias" [out]; adapted also "lora_a" [rank, in] and "lora_b" [out,
/// rank]; quantised buffers "weight_codes" and "weight_scales" in place of the weight.
class LinearImpl : public torch::nn::Module {
 public:
  /// The weight from N(0, standard_deviation) and zeros for the bias; without a deviation both uniform within
  /// 1 / sqrt(in), as torch::nn::Linear has them.
  LinearImpl(int64_t in, int64_t out, bool bias = true, std::optional<double> standard_deviation = {});

  /// x [..., in] -> [..., out], in the type of x (under autocast in its lower precision).
  at::Tensor forward(const at::Tensor& x);

  /// Adds an adapter of `dtype`: lora_a uniform within 1 / sqrt(in) (Kaiming, He et al. 2015, as the authors of LoRA
  /// have it), lora_b zeros, so that at first nothing changes. Throws UserError where rank exceeds in or out.
  void add_adapter(const LoraConfig& config, c10::ScalarType dtype);

  /// Puts the weight into blocks; it can be trained no more. The full weight is gone. Throws UserError for nf4 and an
  /// odd `in`.
  void quantize(const QuantizeConfig& config);

  /// The frozen weight in another type.
  void hold_weight_as(c10::ScalarType dtype);

  /// Returns whether the layer has an adapter.
  bool adapted() const { return lora_a_.defined(); }
  /// Returns whether the weight is quantized.
  bool quantized() const { return codes_.defined(); }
  const at::Tensor& weight() const { return weight_; }  ///< undefined where it is quantised

 private:
  void forget_weight();
  at::Tensor product(const at::Tensor& x) const;  ///< without bias and adapter

  int64_t in_, out_;
  at::Tensor weight_, bias_;
  at::Tensor codes_, scales_, second_scales_;
  at::Tensor lora_a_, lora_b_;
  double lora_scale_ = 0, lora_dropout_ = 0;
};
/// A shared handle to a LinearImpl, as libtorch's modules have one.
TORCH_MODULE(Linear);

}  // namespace plimsoll
