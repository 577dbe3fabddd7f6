// Declares the eager reference: the same step on ordinary CPU tensors, through libtorch's autograd.
#pragma once

#include <ATen/autocast_mode.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <map>
#include <string>
#include <vector>

#include "fine_tuning/fine_tune.h"
#include "plimsoll/training.h"
#include "run/optimizer/optimizer.h"
#include "run/training_runs.h"

namespace plimsoll::testing {

/// Runs a step's micro batches and its update eagerly, with the optimizer's tensor code on CPU tensors.
class EagerStep {
 public:
  EagerStep(const Step& step, const TrainingOptions& options)
      : step_(step),
        options_(options),
        optimizer_(options.optimizer, options.seed),
        update_(optimizer_, options.max_grad_norm) {
    const auto previous = c10::get_default_dtype();
    c10::set_default_dtype(c10::scalarTypeToTypeMeta(weight_type(options)));
    model_ = step.model();
    c10::set_default_dtype(previous);
    model::fine_tune(*model_, options.fine_tuning, fine_tune_types(options));
    for (const auto& entry : model_->named_parameters())
      if (entry.value().requires_grad()) parameters_.push_back({entry.key(), entry.value(), {}});
    torch::NoGradGuard no_grad;
    states_ = optimizer_.make_state(parameters_);
    update_.make_scalars(parameters_);
  }

  /// Copies parameters, buffers and state from a training that has started.
  void copy_from(Training& training) {
    torch::NoGradGuard no_grad;
    std::map<std::string, torch::Tensor> mine;
    for (const auto& entry : model_->named_parameters()) mine[entry.key()] = entry.value();
    for (const auto& entry : model_->named_buffers()) mine[entry.key()] = entry.value();
    for (const auto& state : states_) mine[state.name] = state.tensor;
    for (const auto& [name, tensor] : training.state()) mine.at(name).copy_(tensor);
  }

  /// Each micro batch counts by its samples, the first size of its inputs.
  double step(const std::vector<Batch>& micro_batches, double learning_rate, double loss_scale = 1.0) {
    double mean = 0, total = 0;
    const bool alike = samples_of(micro_batches.back()) == samples_of(micro_batches.front());
    const auto share = [&](const Batch& batch) { return alike ? 1.0 : static_cast<double>(samples_of(batch)); };
    for (const Batch& batch : micro_batches) total += share(batch);
    for (auto& parameter : parameters_) parameter.value.mutable_grad() = torch::Tensor();
    for (const Batch& batch : micro_batches) {
      const torch::Tensor loss = this->loss(batch);
      mean += loss.item<double>() * share(batch) / total;
      (loss * torch::scalar_tensor(loss_scale * share(batch) / total)).backward();
    }
    for (auto& parameter : parameters_) parameter.gradient = parameter.value.grad();
    torch::NoGradGuard no_grad;
    update_.run(parameters_, {torch::scalar_tensor(learning_rate, torch::kDouble), torch::scalar_tensor(loss_scale)});
    return mean;
  }

  std::map<std::string, torch::Tensor> state() const {
    std::map<std::string, torch::Tensor> all;
    for (const auto& entry : model_->named_parameters()) all[entry.key()] = entry.value().detach();
    for (const auto& entry : model_->named_buffers()) all[entry.key()] = entry.value();
    for (const auto& state : states_) all[state.name] = state.tensor;
    return all;
  }

 private:
  static int64_t samples_of(const Batch& batch) {
    const torch::Tensor& first = batch.begin()->second;
    return first.dim() > 0 ? first.size(0) : 1;
  }

  torch::Tensor loss(const Batch& batch) {
    StepInputs inputs;
    const bool lower = !is_mixed(options_.precision) && weight_type(options_) != at::kFloat;
    for (const auto& [name, tensor] : batch)
      inputs.set(name, lower && tensor.is_floating_point() ? tensor.to(weight_type(options_)) : tensor);
    model_->train();
    const bool mixed = is_mixed(options_.precision);
    if (mixed) {
      at::autocast::set_autocast_dtype(at::kCPU,
                                       options_.precision == Precision::fp16_mixed ? at::kHalf : at::kBFloat16);
      at::autocast::set_autocast_enabled(at::kCPU, true);
    }
    torch::Tensor loss = step_.loss(*model_, inputs);
    if (mixed) {
      at::autocast::clear_cache();
      at::autocast::set_autocast_enabled(at::kCPU, false);
    }
    return loss.reshape({}).to(at::kFloat);
  }

  Step step_;
  TrainingOptions options_;
  Optimizer optimizer_;
  UpdateStep update_;
  std::shared_ptr<torch::nn::Module> model_;
  std::vector<OptimizedParameter> parameters_;
  std::vector<NamedState> states_;
};

}  // namespace plimsoll::testing
