// Trains a user-defined model and loss inside a memory budget; usage: own_model [BUDGET, for example 6MiB]
#include <plimsoll/bytes.h>
#include <plimsoll/error.h>
#include <plimsoll/plan_training.h>
#include <plimsoll/training.h>
#include <torch/torch.h>

#include <cstdio>
#include <filesystem>

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

plimsoll::Step circle_step(int64_t samples) {
  plimsoll::Step step;
  step.model = [] { return std::make_shared<Net>(); };
  step.inputs = {{"points", {samples, 2}, torch::kFloat32}, {"side", {samples}, torch::kInt64}};
  step.loss = [](torch::nn::Module& net, const plimsoll::StepInputs& in) {
    return torch::nn::functional::cross_entropy(static_cast<Net&>(net).layers->forward(in["points"]), in["side"]);
  };
  return step;
}

using MicroBatches = std::vector<std::map<std::string, torch::Tensor>>;

// Tells whether each of 512 points is inside or outside a circle. The points are in micro batches of at most `samples`.
MicroBatches batch(int64_t samples) {
  MicroBatches parts;
  for (const torch::Tensor& points : (torch::rand({512, 2}) * 2 - 1).split(samples))
    parts.push_back({{"points", points}, {"side", (points.square().sum(1) < 0.6).to(torch::kInt64)}});
  return parts;
}

int train(const std::string& budget) {
  plimsoll::TrainingOptions options{.budget = {.device = plimsoll::parse_bytes(budget)}, .seed = 1};
  options.batch_size = 512;  // the micro batch stays open: the planner chooses the fastest size that fits
  const plimsoll::PlannedTraining planned = plimsoll::plan_training(circle_step, options);
  for (const auto& reason : planned.plan.reasons) std::printf("%s: %s\n", reason.decision.c_str(), reason.why.c_str());
  if (!planned.plan.fits) {
    std::printf("does not fit: %s is the least\n", plimsoll::format_bytes(planned.minimum_budget_bytes).c_str());
    return 3;
  }
  std::printf("micro batches: %s\n", plimsoll::describe_micro_batches(planned.settings).c_str());
  const int64_t samples = planned.settings.micro_batch();
  plimsoll::Training training(circle_step(samples), planned.settings, planned);
  training.start();
  for (int i = 0; i < 300; ++i) {
    const double loss = training.step(batch(samples), /*learning_rate=*/1e-3).loss;
    if (i % 50 == 0 || i == 299) std::printf("step %3d  loss %.4f\n", i + 1, loss);
  }
  std::printf("planned %lld bytes, used %lld bytes\n", static_cast<long long>(training.plan().peak_bytes),
              static_cast<long long>(training.used().measured_peak()));

  // A second training continues from a file at the step of the first one.
  const auto file = std::filesystem::temp_directory_path() / "own_model.safetensors";
  plimsoll::save_training(training, file);
  plimsoll::Training again(circle_step(samples), planned.settings, planned);
  again.start();
  plimsoll::load_training(again, file);
  std::filesystem::remove(file);
  for (int i = 0; i < 10; ++i) {
    const MicroBatches next = batch(samples);
    if (training.step(next, 1e-3).loss == again.step(next, 1e-3).loss) continue;
    std::printf("step %d of the loaded training is another one\n", i + 301);
    return 1;
  }
  std::printf("loaded, it goes on with the same bits\n");
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
