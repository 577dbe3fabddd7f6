// Tests Mamba2 language models from others' folders and back, against results of transformers.
#include <gmock/gmock.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <functional>

#include "models/mamba.h"
#include "plimsoll/train_job.h"
#include "plimsoll/training.h"
#include "thresholds.h"
#include "train/tiny_job.h"
#include "weights/families.h"
#include "weights/family_files.h"
#include "weights/huggingface_export.h"
#include "weights/mamba_family.h"
#include "weights/model_weights.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

struct ExpectedMamba {
  ExpectedMamba() {
    const json read = read_json(kFamilies / "mamba2" / "expected.json");
    const auto rows = read.at("tokens").get<std::vector<std::vector<int64_t>>>();
    std::vector<at::Tensor> before, after;
    for (const auto& row : rows) {
      before.push_back(torch::tensor(std::vector<int64_t>(row.begin(), row.end() - 1)));
      after.push_back(torch::tensor(std::vector<int64_t>(row.begin() + 1, row.end())));
    }
    tokens = at::stack(before);
    targets = at::stack(after);
    logits = torch::tensor(read.at("logits").get<std::vector<double>>(), at::kDouble)
                 .view({tokens.size(0), tokens.size(1), -1});
    for (const double loss : read.at("losses")) mean_loss += loss / static_cast<double>(tokens.numel());
    parameters = read.at("parameters");
  }
  at::Tensor tokens, targets, logits;
  double mean_loss = 0;
  int64_t parameters = 0;
};

std::shared_ptr<model::MambaLmImpl> loaded(const fs::path& folder) {
  auto model = std::make_shared<model::MambaLmImpl>(weights::read_mamba_config(folder));
  load_mamba_weights(folder, {}, parameters_of(*model));
  return model;
}

at::Tensor logits_of(model::MambaLmImpl& model, const at::Tensor& tokens) {
  const at::NoGradGuard no_grad;
  return at::matmul(model.hidden(tokens), model.head().t());
}

TEST(MambaWeights, LogitsAreThoseOfTransformers) {
  const ExpectedMamba expected;
  const auto model = loaded(kFamilies / "mamba2");
  EXPECT_LE(relative_error(logits_of(*model, expected.tokens), expected.logits), 1e-5);
  const at::NoGradGuard no_grad;
  EXPECT_NEAR(model->loss(expected.tokens, expected.targets).item<double>(), expected.mean_loss,
              1e-5 * expected.mean_loss);
  int64_t parameters = 0;
  for (const at::Tensor& each : model->parameters()) parameters += each.numel();
  EXPECT_EQ(parameters, expected.parameters);
}

TEST(MambaWeights, EverySettingCounts) {
  const ExpectedMamba expected;
  const auto changed = [&](const std::function<void(MambaConfig&)>& change) {
    MambaConfig other = weights::read_mamba_config(kFamilies / "mamba2");
    change(other);
    model::MambaLmImpl model(other);
    const at::NoGradGuard no_grad;
    auto to = model.named_parameters();
    for (const auto& [key, value] : parameters_of(*loaded(kFamilies / "mamba2")))
      if (to.contains(key)) to[key].copy_(value);
    return relative_error(logits_of(model, expected.tokens), expected.logits);
  };
  EXPECT_LE(changed([](MambaConfig& c) { c.chunk_size = 128; }), 1e-5);
  EXPECT_GT(changed([](MambaConfig& c) { c.min_step = 0; }), 2e-5);
  EXPECT_GT(changed([](MambaConfig& c) { c.max_step = 0.5; }), 2e-5);
  EXPECT_GT(changed([](MambaConfig& c) { c.norm_eps = 1e-2; }), 2e-5);
  EXPECT_GT(changed([](MambaConfig& c) { c.conv_bias = false; }), 2e-5);
  EXPECT_GT(changed([](MambaConfig& c) { c.projection_bias = false; }), 2e-5);
  EXPECT_GT(changed([](MambaConfig& c) { c.tie_embeddings = true; }), 2e-5);
}

// The published configurations.
TEST(MambaWeights, ParametersOfPublishedModelsAreCountedToTheLast) {
  const TempFolder folder;
  const std::vector<std::pair<std::string, int64_t>> models = {
      // state-spaces/mamba2-130m in transformers' names, with the bare Infinity that older versions of it write.
      {R"({"model_type": "mamba2", "hidden_size": 768, "num_hidden_layers": 24, "num_heads": 24, "head_dim": 64,
           "n_groups": 1, "state_size": 128, "vocab_size": 50288, "tie_word_embeddings": true,
           "time_step_limit": [0.0, Infinity]})",
       128'989'632},
      // mistralai/Mamba-Codestral-7B-v0.1
      {R"({"model_type": "mamba2", "hidden_size": 4096, "num_hidden_layers": 64, "num_heads": 128, "head_dim": 64,
           "n_groups": 8, "state_size": 128, "vocab_size": 32768, "tie_word_embeddings": false,
           "time_step_limit": [0.0, {"__float__": "Infinity"}]})",
       7'285'403'648}};
  for (const auto& [config, count] : models) {
    put_file(folder / "config.json", config);
    const Job job = parse_job(
        "model: {type: mamba, config: config.json}\ndata: {type: synthetic, sequence_length: 64}\nbatch_size: 1\n"
        "micro_batch_size: 1\nprecision: bf16-true\n",
        "job.yaml", folder.path());
    const Trace trace = record_step(step_of(job, 1), options_of(job));
    int64_t counted = 0;
    for (const NamedView& entry : trace.state)
      if (trace.buffers[entry.view.buffer].role == Role::parameter) counted += entry.view.elements();
    EXPECT_EQ(counted, count);
  }
}

Job still_job(const fs::path& weights, const fs::path& run) {
  Job job = parse_job(
      "model: {type: mamba, weights: " + weights.string() +
          "}\ndata: {type: synthetic, samples: 4, sequence_length: 12, validation_fraction: 0}\nbatch_size: 2\n"
          "micro_batch_size: 1\nmax_steps: 1\nthreads: 1\nmemory_budget: 1GiB\nmax_grad_norm: 0\n"
          "optimizer: {name: sgd, momentum: 0, learning_rate: 1e-30, weight_decay: 0}\n",
      "job.yaml", "");
  job.checkpoint.directory = run;
  return job;
}

TEST(MambaWeights, WhatIsReadIsWrittenAgain) {
  const TempFolder folder;
  const Job job = still_job(kFamilies / "mamba2", folder / "run");
  train(job);
  const fs::path checkpoint = checkpoints_in(job.checkpoint.directory).rbegin()->second;
  const ExportReport report = export_huggingface(job.model, job.data.sequence_length, checkpoint, folder / "out", {});
  EXPECT_EQ(report.step, 1);
  const auto written = tensors_in(folder / "out" / "model.safetensors"), read = tensors_in_folder(kFamilies / "mamba2");
  ASSERT_EQ(written.size(), read.size());
  for (const auto& [name, tensor] : read) EXPECT_TRUE(at::equal(written.at(name), tensor)) << name;
  EXPECT_EQ(read_json(folder / "out" / "config.json"), read_json(kFamilies / "mamba2" / "config.json"));
  // The config.json of a job without weights is written from its settings, and read back unchanged.
  Job own = job;
  own.model.weights.clear();
  export_huggingface(own.model, own.data.sequence_length, checkpoint, folder / "own", {});
  EXPECT_THAT(weights::differences(weights::read_mamba_config(folder / "own"),
                                   weights::read_mamba_config(kFamilies / "mamba2")),
              ::testing::IsEmpty());
  const ExpectedMamba expected;
  EXPECT_LE(relative_error(logits_of(*loaded(folder / "own"), expected.tokens), expected.logits), 1e-5);
}

TEST(MambaWeights, NamesWithoutTheirPrefixAreTaken) {
  const TempFolder folder;
  const fs::path from = single_file_copy("mamba2", folder);
  const std::string prefix = "backbone.";
  std::map<std::string, at::Tensor> tensors;
  for (const auto& [name, tensor] : tensors_in(from / "model.safetensors"))
    tensors[name.starts_with(prefix) ? name.substr(prefix.size()) : name] = tensor;
  write_tensors(from / "model.safetensors", tensors);
  const ExpectedMamba expected;
  EXPECT_LE(relative_error(logits_of(*loaded(from), expected.tokens), expected.logits), 1e-5);
}

TEST(MambaWeights, TensorsThatAreNotTheModelsAreListedTogether) {
  const TempFolder folder;
  const fs::path from = single_file_copy("mamba2", folder);
  auto tensors = tensors_in(from / "model.safetensors");
  tensors.erase("backbone.layers.1.mixer.D");
  tensors["backbone.layers.0.mixer.conv1d.weight"] = torch::zeros({56, 3});
  tensors["backbone.layers.0.mixer.A_log"] = torch::zeros({4}, at::kLong);
  tensors["backbone.layers.2.norm.weight"] = torch::zeros({16});
  write_tensors(from / "model.safetensors", tensors);
  EXPECT_THAT(
      user_error_of([&] { loaded(from); }),
      AllOf(HasSubstr(from.string()), HasSubstr("'backbone.layers.1.mixer.D' [4] is missing"),
            HasSubstr("'backbone.layers.0.mixer.conv1d.weight' is float32 [56, 3] in the file, floating [56, 1, 3]"),
            HasSubstr("'backbone.layers.0.mixer.A_log' is int64"),
            HasSubstr("'backbone.layers.2.norm.weight' [16] is in the file only")));
}

TEST(MambaWeights, ConfigurationsThatCannotBeAreRefused) {
  const TempFolder folder;
  const auto message = [&](const std::function<void(json&)>& change) {
    json config = read_json(kFamilies / "mamba2" / "config.json");
    change(config);
    put_file(folder / "config.json", config.dump());
    return user_error_of([&] { weights::read_mamba_config(folder / "config.json"); });
  };
  EXPECT_THAT(message([](json& c) { c["model_type"] = "mamba"; }),
              AllOf(HasSubstr("config.json"), HasSubstr("known is mamba2"), HasSubstr("model.type: decoder")));
  EXPECT_THAT(message([](json& c) { c["num_heads"] = 5; }), HasSubstr("num_heads x head_dim"));
  EXPECT_THAT(message([](json& c) { c["n_groups"] = 3; }), HasSubstr("model.num_groups is 3"));
  EXPECT_THAT(message([](json& c) { c["conv_kernel"] = 5; }), HasSubstr("from 1 to 4"));
  EXPECT_THAT(message([](json& c) { c["hidden_act"] = "gelu"; }), HasSubstr("known are silu"));
  EXPECT_THAT(message([](json& c) { c["time_step_limit"] = {0.1}; }), HasSubstr("list of 2 numbers"));
  EXPECT_THAT(message([](json& c) { c["time_step_limit"] = {0.1, 0.05}; }), HasSubstr("must rise"));
  EXPECT_THAT(message([](json& c) { c["expand"] = 1e9; }), HasSubstr("expand"));
  // The other way round each says what to do.
  EXPECT_THAT(user_error_of([&] { weights::read_architecture(kFamilies / "mamba2"); }), HasSubstr("model.type: mamba"));
}

TEST(MambaLm, LearnsAndDoesNotDependOnTheBudget) {
  const TempFolder folder;
  Job job = tiny_job(folder);
  job.model.type = "mamba";
  job.model.mamba = {.hidden_size = 16, .num_layers = 2, .state_size = 8, .head_dim = 8, .num_groups = 2};
  job.model.mamba.min_step = 0.001;
  job.model.mamba.max_step = 0.1;
  job.optimizer.learning_rate = 1e-2;
  job.max_steps = 20;
  job.seed = test_seed();
  const TrainReport roomy = train(job);
  expect_below("loss, last of first", roomy.losses.back() / roomy.losses.front(), 0.9);
  Job tight = job;
  tight.budget.device = roomy.job.minimum_budget_bytes;
  const TrainReport same = train(tight);
  EXPECT_EQ(same.losses, roomy.losses);
}

}  // namespace
}  // namespace plimsoll
