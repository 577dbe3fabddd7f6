// What is trained: a torch::nn::Module, what a micro batch consists of, and the loss.
#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace plimsoll {

/// A tensor that every micro batch brings.
struct InputSpec {
  std::string name;
  std::vector<int64_t> sizes;  ///< of a micro batch
  c10::ScalarType dtype;
  int64_t values = 0;  ///< of whole numbers: what they are below, where that is known (classes, a vocabulary)
};

/// Input tensors by name. Throws UserError for a name that the step has not declared.
class StepInputs {
 public:
  /// Sets the tensor of an input.
  void set(const std::string& name, at::Tensor tensor) { tensors_[name] = std::move(tensor); }
  /// Returns the tensor of an input.
  const at::Tensor& operator[](const std::string& name) const;

 private:
  std::map<std::string, at::Tensor> tensors_;
};

/// What an evaluation gives for one micro batch.
struct Evaluation {
  at::Tensor loss;  ///< as Step::loss
  /// Tensors of floating type by name, to be summed over an evaluation's micro batches: counts, sums of products.
  std::vector<std::pair<std::string, at::Tensor>> sums;
};

/// What is trained: a model, what a micro batch consists of, and the loss.
struct Step {
  /// Makes the model. Called on the plan device: parameters and buffers take no memory, their initialisation is
  /// recorded.
  std::function<std::shared_ptr<torch::nn::Module>()> model;
  std::vector<InputSpec> inputs;
  /// The mean loss of a micro batch: a scalar of floating type, in float32 where precision is low.
  std::function<at::Tensor(torch::nn::Module& model, const StepInputs& inputs)> loss;
  /// What is computed for evaluation in place of the loss alone; empty: the loss.
  std::function<Evaluation(torch::nn::Module& model, const StepInputs& inputs)> evaluation = {};
  /// The metrics that the sums over all micro batches (float64) come to, by name, in the order they are to be shown.
  std::function<std::vector<std::pair<std::string, double>>(const std::map<std::string, at::Tensor>& sums)> metrics =
      {};
};

/// An input of this name, float32 [B], says which samples count: 1, or 0 for what only fills up the last micro batch of
/// an evaluation. Its step weighs loss and sums by it.
inline constexpr const char* kCounted = "counted";

}  // namespace plimsoll
