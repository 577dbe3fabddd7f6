// What of a model is trained and how the rest is held: frozen parts, low-rank adapters, quantised weights.
//
// A pattern is a shell glob on dotted names, in which `*` stands for any characters, dots too: "layers.*.attention",
// "*.qkv", "layers.[0-3]". It matches a parameter by its name or by the name of a module that it lies in.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace plimsoll {

/// Low-rank adapters beside linear layers (Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language Models"):
/// y = W x + alpha / rank B A dropout(x), with A [rank, in] at random and B [out, rank] zeros at first.
struct LoraConfig {
  std::vector<std::string> modules;  ///< patterns; none: no adapters
  int64_t rank = 8;                  ///< rank x (in + out) numbers are learned a layer
  double alpha = 16;
  double dropout = 0;  ///< [0, 1): of the adapter's input
};

/// Weights of linear layers in blocks of few bits, each with its own scale, taken apart as they are used (Dettmers et
/// al. 2023, "QLoRA: Efficient Finetuning of Quantized LLMs"). They are frozen.
struct QuantizeConfig {
  std::vector<std::string> modules;  ///< patterns; none: nothing is quantised
  std::string format = "nf4";        ///< nf4: 4 bits a weight | int8: 8 bits; and a float32 scale for 64 weights
  bool double_scales = false;        ///< the scales in 8 bits too: 0.13 instead of 0.5 bits a weight
};

/// The trained part of a model, and how the rest is stored.
struct FineTuning {
  std::vector<std::string> freeze;  ///< patterns: no gradient, no optimizer state
  std::vector<std::string> train;   ///< patterns: trained although `freeze` or `lora` would leave it frozen
  LoraConfig lora;                  ///< with adapters everything but them, and what `train` names, is frozen
  QuantizeConfig quantize;

  /// Returns whether any of it is used.
  bool any() const { return !freeze.empty() || !lora.modules.empty() || !quantize.modules.empty() || !train.empty(); }
};

}  // namespace plimsoll
