#include "python/recorded_module.h"

#include <string_view>
#include <utility>

#include "plimsoll/error.h"

namespace plimsoll::python {
namespace {

class RecordedModule : public torch::nn::Module {
 public:
  explicit RecordedModule(Callback callback) : callback_(callback) {}

  void add(const Tensors::Member& member) {
    const size_t dot = member.name.rfind('.');
    torch::nn::Module& owner = dot == std::string::npos ? *this : at(std::string_view(member.name).substr(0, dot));
    const std::string leaf = dot == std::string::npos ? member.name : member.name.substr(dot + 1);
    if (member.is_parameter)
      owner.register_parameter(leaf, member.tensor, member.tensor.requires_grad());
    else
      owner.register_buffer(leaf, member.tensor);
  }

  void train(bool on) override {
    call(callback_, on ? Request::training_mode : Request::evaluation_mode);
    torch::nn::Module::train(on);
  }

 private:
  // Returns the submodule of a dotted path, and makes it if there is none.
  torch::nn::Module& at(std::string_view path) {
    torch::nn::Module* module = this;
    while (!path.empty()) {
      const size_t dot = path.find('.');
      const std::string name(path.substr(0, dot));
      path = dot == std::string_view::npos ? std::string_view() : path.substr(dot + 1);
      const auto children = module->named_children();
      module = children.contains(name) ? children[name].get()
                                       : module->register_module(name, std::make_shared<torch::nn::Module>()).get();
    }
    return *module;
  }

  const Callback callback_;
};

}  // namespace

void call(Callback callback, Request request) {
  if (callback(static_cast<int64_t>(request)) != 0) throw CallbackFailed();
}

Step recorded_step(Callback callback, Tensors& tensors, const std::vector<Input>& inputs, int64_t samples,
                   const Replacements& replacements) {
  Step step;
  for (const Input& input : inputs) {
    std::vector<int64_t> sizes = input.sizes;
    if (!sizes.empty() && sizes.front() < 0) sizes.front() = samples;
    step.inputs.push_back({input.name, std::move(sizes), input.dtype});
  }
  step.replace = replacements;
  step.model = [callback, &tensors] {
    tensors.members.clear();
    call(callback, Request::make_model);
    auto module = std::make_shared<RecordedModule>(callback);
    for (const Tensors::Member& member : tensors.members) module->add(member);
    tensors.members.clear();
    return module;
  };
  step.loss = [callback, &tensors, &inputs](torch::nn::Module&, const StepInputs& given) {
    for (const Input& input : inputs) tensors.inputs[input.name] = given[input.name];
    call(callback, Request::compute_loss);
    tensors.inputs.clear();
    return std::exchange(tensors.loss, {});
  };
  return step;
}

}  // namespace plimsoll::python
