// Declares a linear layer that can be adapted and quantized.
//
// Use it in your own model instead of torch::nn::Linear: `lora` and `quantize` (plimsoll/options.h) find it by its
// name.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <optional>

#include "plimsoll/options.h"

namespace plimsoll {

/// A linear layer, y = x W^T + b. Parameters: "weight" [out, in] and "bias" [out]. An adapted layer also has "lora_a"
/// [rank, in] and "lora_b" [out, rank]. A quantized layer has the buffers "weight_codes" and "weight_scales" instead of
/// the weight.
class LinearImpl : public torch::nn::Module {
 public:
  /// Initializes the weight from N(0, standard_deviation) and the bias with zeros. Without a deviation both are uniform
  /// within 1 / sqrt(in), as in torch::nn::Linear.
  LinearImpl(int64_t in, int64_t out, bool bias = true, std::optional<double> standard_deviation = {});

  /// Returns y [..., out] for x [..., in], in the dtype of x (under autocast in its lower precision).
  at::Tensor forward(const at::Tensor& x);

  /// Adds an adapter of `dtype`. lora_a is uniform within 1 / sqrt(in) (Kaiming, He et al. 2015, as in the LoRA paper);
  /// lora_b is zero, so the output does not change at first. Throws UserError if the rank exceeds in or out.
  void add_adapter(const LoraConfig& config, c10::ScalarType dtype);

  /// Quantizes the weight in blocks and drops the full weight; the layer's weight is frozen from then on. Throws
  /// UserError for nf4 and an odd `in`.
  void quantize(const QuantizeConfig& config);

  /// Converts the frozen weight to `dtype`.
  void set_weight_dtype(c10::ScalarType dtype);

  /// Returns whether the layer has an adapter.
  bool adapted() const { return lora_a_.defined(); }
  /// Returns whether the weight is quantized.
  bool quantized() const { return codes_.defined(); }
  const at::Tensor& weight() const { return weight_; }  ///< undefined if it is quantized

 private:
  void release_weight();
  at::Tensor product(const at::Tensor& x) const;  ///< x W^T, without bias and adapter

  int64_t in_, out_;
  at::Tensor weight_, bias_;
  at::Tensor codes_, scales_, second_scales_;
  at::Tensor lora_a_, lora_b_;
  double lora_scale_ = 0, lora_dropout_ = 0;
};
/// A shared handle to a LinearImpl, as for libtorch's modules.
TORCH_MODULE(Linear);

}  // namespace plimsoll
