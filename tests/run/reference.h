// Declares a reference that computes training steps in double precision, without the project's code: libtorch's
// clipping and optimizers, or the formulas of docs/optimizers.md for rules that libtorch's C++ optimizers do not have.
//
// eager.h is another kind of reference: it runs the project's own update, and planned training must equal it bit for
// bit.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <numbers>
#include <string>
#include <vector>

#include "plimsoll/training.h"
#include "run/training_runs.h"

namespace plimsoll::testing {

/// A copy of a model that trains in float64. The step's micro batches are one batch here. The step's loss must be a
/// mean over samples, and the first size of every input the number of samples.
class ReferenceTraining {
 public:
  ReferenceTraining(const Step& step, const OptimizerConfig& config, double max_grad_norm)
      : step_(step), config_(config), max_grad_norm_(max_grad_norm), model_(step.model()) {
    model_->to(torch::kDouble);
    for (const auto& entry : model_->named_parameters()) {
      parameters_.push_back(entry.value());
      (entry.value().dim() >= 2 ? decayed_ : plain_).push_back(entry.value());
      means_.push_back(torch::zeros_like(entry.value()));
    }
    if (config.name == "adamw") {
      const auto options = [&](double decay) {
        return std::make_unique<torch::optim::AdamWOptions>(torch::optim::AdamWOptions(config.learning_rate)
                                                                .betas({config.beta1, config.beta2})
                                                                .eps(config.eps)
                                                                .weight_decay(decay));
      };
      std::vector<torch::optim::OptimizerParamGroup> groups;
      groups.emplace_back(decayed_, options(config.weight_decay));
      groups.emplace_back(plain_, options(0));
      optimizer_ = std::make_unique<torch::optim::AdamW>(groups);
    } else if (config.name == "sgd") {
      optimizer_ = std::make_unique<torch::optim::SGD>(
          parameters_, torch::optim::SGDOptions(config.learning_rate).momentum(config.momentum));
    }
  }

  /// Copies the parameters of a training that has started.
  void copy_from(Training& training) {
    torch::NoGradGuard no_grad;
    std::map<std::string, torch::Tensor> expected;
    for (const auto& [name, tensor] : training.state()) expected[name] = tensor;
    for (const auto& entry : model_->named_parameters()) entry.value().copy_(expected.at(entry.key()));
  }

  struct Result {
    double loss, gradient_norm;  ///< the norm before clipping
  };

  Result step(const std::vector<Batch>& micro_batches, double learning_rate) {
    StepInputs inputs;
    for (const auto& entry : micro_batches.front()) {
      std::vector<torch::Tensor> parts;
      for (const Batch& batch : micro_batches) parts.push_back(batch.at(entry.first));
      const torch::Tensor whole = torch::cat(parts);
      inputs.set(entry.first, whole.is_floating_point() ? whole.to(torch::kDouble) : whole);
    }
    for (torch::Tensor& parameter : parameters_) parameter.mutable_grad() = torch::Tensor();
    const torch::Tensor loss = step_.loss(*model_, inputs);
    loss.backward();
    // Without clipping the largest norm is infinite.
    const double norm = torch::nn::utils::clip_grad_norm_(
        parameters_, max_grad_norm_ > 0 ? max_grad_norm_ : std::numeric_limits<double>::infinity());
    torch::NoGradGuard no_grad;
    if (config_.name == "lion") {
      lion_step(learning_rate);
    } else {
      if (config_.name == "sgd")  // libtorch's decay is not decoupled
        for (torch::Tensor& parameter : decayed_) parameter.mul_(1 - learning_rate * config_.weight_decay);
      for (auto& group : optimizer_->param_groups()) group.options().set_lr(learning_rate);
      optimizer_->step();
    }
    return {loss.item<double>(), norm};
  }

  std::map<std::string, torch::Tensor> parameters() const {
    std::map<std::string, torch::Tensor> all;
    for (const auto& entry : model_->named_parameters()) all[entry.key()] = entry.value().detach();
    return all;
  }

 private:
  /// Computes p <- (1 - lr decay) p - lr sign(beta1 mean + (1 - beta1) g), mean <- beta2 mean + (1 - beta2) g (Chen et
  /// al. 2023, Symbolic discovery of optimization algorithms, algorithm 2).
  void lion_step(double learning_rate) {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const torch::Tensor gradient = parameters_[i].grad();
      const torch::Tensor direction = config_.beta1 * means_[i] + (1 - config_.beta1) * gradient;
      if (parameters_[i].dim() >= 2) parameters_[i].mul_(1 - learning_rate * config_.weight_decay);
      parameters_[i].sub_(learning_rate * direction.sign());
      means_[i] = config_.beta2 * means_[i] + (1 - config_.beta2) * gradient;
    }
  }

  Step step_;
  OptimizerConfig config_;
  double max_grad_norm_;
  std::shared_ptr<torch::nn::Module> model_;
  std::vector<torch::Tensor> parameters_, decayed_, plain_, means_;  // decayed: of two dimensions or more
  std::unique_ptr<torch::optim::Optimizer> optimizer_;               // none for lion
};

/// Returns the cosine schedule with a linear warm-up, steps counted from 1 (Loshchilov and Hutter 2017, SGDR, formula
/// 5).
inline double reference_cosine_rate(double peak, double least_ratio, int64_t warmup, int64_t step, int64_t max_steps) {
  if (step <= warmup) return peak * static_cast<double>(step) / static_cast<double>(warmup);
  const double done = static_cast<double>(step - warmup) / static_cast<double>(max_steps - warmup);
  const double least = peak * least_ratio;
  return least + (peak - least) * (1 + std::cos(std::numbers::pi * done)) / 2;
}

}  // namespace plimsoll::testing
