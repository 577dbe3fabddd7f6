#include "run/optimizer/gradient_hooks.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <utility>

namespace plimsoll {
namespace {

class Hook : public torch::autograd::PostAccumulateGradHook {
 public:
  Hook(const GradientHooks::Complete& complete, size_t index) : complete_(complete), index_(index) {}
  void operator()(const torch::autograd::Variable& parameter) override { complete_(index_, parameter); }

 private:
  const GradientHooks::Complete& complete_;
  size_t index_;
};

}  // namespace

GradientHooks::GradientHooks(std::vector<at::Tensor> parameters, Complete complete)
    : parameters_(std::move(parameters)), complete_(std::move(complete)) {
  for (size_t i = 0; i < parameters_.size(); ++i)
    torch::autograd::impl::set_post_acc_grad_hooks(parameters_[i], std::make_unique<Hook>(complete_, i));
}

GradientHooks::~GradientHooks() {
  for (const at::Tensor& parameter : parameters_) torch::autograd::impl::set_post_acc_grad_hooks(parameter, nullptr);
}

}  // namespace plimsoll
