// A model and a loss of your own, trained inside a memory budget: usage: own_model [BUDGET, for example 6MiB]
#include <plimsoll/plimsoll.h>
#include <torch/torch.h>

#include <cstdio>

namespace {

struct Net : torch::nn::Module {
  torch::nn::Sequential layers;
  Net() {
    layers->push_back(torch::nn::Linear(2, 256));
    for (int i = 0; i < 4; ++i) {
      layers->push_back(torch::nn::LayerNorm(torch::nn::LayerNormOptions({256})));
      layers->push_back(torch::nn::GELU());
      layers->push_back(torch::nn::Linear(256, 256));
    }
    layers->push_back(torch::nn::Linear(256, 2));
    register_module("layers", layers);
  }
};

int train(const std::string& budget) {
  plimsoll::Step step;
  step.model = [] { return std::make_shared<Net>(); };
  step.inputs = {{"points", {512, 2}, torch::kFloat32}, {"side", {512}, torch::kInt64}};
  step.loss = [](torch::nn::Module& net, const plimsoll::StepInputs& in) {
    return torch::nn::functional::cross_entropy(static_cast<Net&>(net).layers->forward(in["points"]), in["side"]);
  };
  plimsoll::Training training(step, {.budget = {.device = plimsoll::parse_bytes(budget)}, .seed = 1});
  const plimsoll::Plan& plan = training.plan();
  for (const auto& reason : plan.reasons) std::printf("%s: %s\n", reason.decision.c_str(), reason.why.c_str());
  if (!plan.fits) {
    std::printf("does not fit: %s is the least\n", plimsoll::format_bytes(plan.minimum_budget_bytes).c_str());
    return 3;
  }
  training.start();
  for (int i = 0; i < 300; ++i) {  // is a point inside or outside a circle?
    const torch::Tensor points = torch::rand({512, 2}) * 2 - 1;
    const torch::Tensor side = (points.square().sum(1) < 0.6).to(torch::kInt64);
    const double loss = training.step({{{"points", points}, {"side", side}}}, /*learning_rate=*/1e-3).loss;
    if (i % 50 == 0 || i == 299) std::printf("step %3d  loss %.4f\n", i + 1, loss);
  }
  std::printf("planned %lld bytes, used %lld bytes\n", static_cast<long long>(plan.peak_bytes),
              static_cast<long long>(training.used().measured_peak()));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return train(argc > 1 ? argv[1] : "64MiB");
  } catch (const plimsoll::UserError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.kind() == plimsoll::UserError::Kind::does_not_fit ? 3 : 2;
  }
}
