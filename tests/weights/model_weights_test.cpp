// Tests weights of others' files: every family's results against those of transformers (tests/weights/families, made by
// scripts/make-weights-fixtures.py).
#include "weights/model_weights.h"

#include <gmock/gmock.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <map>
#include <nlohmann/json.hpp>

#include "models/decoder.h"
#include "ops/layers/quantized_linear.h"
#include "plimsoll/linear.h"
#include "plimsoll/train_job.h"
#include "plimsoll/training.h"
#include "train/tiny_job.h"
#include "weights/families.h"
#include "weights/family_files.h"
#include "weights/gguf_source.h"
#include "weights/huggingface_export.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::vector<std::string> kFolders = {"llama", "llama3", "mistral", "gemma2", "qwen2", "qwen3", "gpt2"};

/// A model of a folder or file, as the library builds it, eagerly on the CPU.
struct LoadedDecoder {
  explicit LoadedDecoder(const fs::path& weights, int64_t tokens, const fs::path& config = {},
                         at::ScalarType type = at::kFloat) {
    architecture = weights::is_gguf(weights) ? weights::read_gguf_architecture(weights)
                                             : weights::read_architecture(config.empty() ? weights : config);
    model = std::make_shared<model::DecoderImpl>(architecture.config, tokens);
    model->to(type);
    model->eval();
    load_decoder_weights(weights, config, parameters_of(*model));
  }

  at::Tensor logits(const at::Tensor& tokens) const {
    const at::NoGradGuard no_grad;
    at::Tensor logits = at::matmul(model->hidden(model->embed(tokens)), model->head().t());
    const double cap = architecture.config.logit_softcap;
    return cap > 0 ? cap * at::tanh(logits / cap) : logits;
  }

  weights::Architecture architecture;
  std::shared_ptr<model::DecoderImpl> model;
};

struct ExpectedDecoder {
  explicit ExpectedDecoder(const fs::path& folder) {
    const json read = read_json(folder / "expected.json");
    const auto rows = read.at("tokens").get<std::vector<std::vector<int64_t>>>();
    for (const auto& row : rows) {
      tokens.push_back(torch::tensor(std::vector<int64_t>(row.begin(), row.end() - 1)));
      targets.push_back(torch::tensor(std::vector<int64_t>(row.begin() + 1, row.end())));
    }
    logits = torch::tensor(read.at("logits").get<std::vector<double>>(), at::kDouble)
                 .view({static_cast<int64_t>(rows.size()), tokens[0].size(0), -1});
    for (const double loss : read.at("losses")) mean_loss += loss / static_cast<double>(read.at("losses").size());
    parameters = read.at("parameters");
  }
  at::Tensor all_tokens() const { return at::stack(tokens); }
  at::Tensor all_targets() const { return at::stack(targets); }

  std::vector<at::Tensor> tokens, targets;
  at::Tensor logits;
  double mean_loss = 0;
  int64_t parameters = 0;
};

TEST(ModelWeights, EveryFamilyComputesWhatTransformersDoes) {
  for (const std::string& name : kFolders) {
    SCOPED_TRACE(name);
    const ExpectedDecoder expected(kFamilies / name);
    const LoadedDecoder loaded(kFamilies / name, expected.all_tokens().size(1));
    EXPECT_LE(relative_error(loaded.logits(expected.all_tokens()), expected.logits), 1e-5);
    const at::NoGradGuard no_grad;
    EXPECT_NEAR(loaded.model->loss(expected.all_tokens(), expected.all_targets()).item<double>(), expected.mean_loss,
                1e-5 * expected.mean_loss);
    int64_t parameters = 0;
    for (const at::Tensor& each : loaded.model->parameters()) parameters += each.numel();
    EXPECT_EQ(parameters, expected.parameters);
  }
}

// If a setting of a family were ignored, the test above could not pass: each makes a difference.
TEST(ModelWeights, EverySettingOfAFamilyCounts) {
  const auto changed = [](const std::string& name, const auto& change) {
    const ExpectedDecoder expected(kFamilies / name);
    const LoadedDecoder loaded(kFamilies / name, 12);
    DecoderConfig other = loaded.architecture.config;
    change(other);
    model::DecoderImpl model(other, 12);
    const at::NoGradGuard no_grad;
    auto to = model.named_parameters();
    for (const auto& [key, value] : parameters_of(*loaded.model))
      if (to.contains(key)) to[key].copy_(value);
    model.eval();
    return std::abs(model.loss(expected.all_tokens(), expected.all_targets()).item<double>() - expected.mean_loss);
  };
  const std::vector<std::pair<std::string, std::function<void(DecoderConfig&)>>> changes = {
      {"llama3", [](DecoderConfig& c) { c.rope_scaling = {}; }},
      {"llama3", [](DecoderConfig& c) { c.rope_scaling.original_length = 32; }},
      {"llama", [](DecoderConfig& c) { c.norm_eps = 1e-2; }},
      {"mistral", [](DecoderConfig& c) { c.sliding_window = 4; }},
      {"gemma2", [](DecoderConfig& c) { c.sliding_window_every = 1; }},
      {"gemma2", [](DecoderConfig& c) { c.attention_softcap = 0; }},
      {"gemma2", [](DecoderConfig& c) { c.logit_softcap = 0; }},
      {"gemma2", [](DecoderConfig& c) { c.query_scale = 8; }},
      {"gemma2", [](DecoderConfig& c) { c.embedding_scale = false; }},
      {"gemma2", [](DecoderConfig& c) { c.activation = "swiglu"; }},
      {"gemma2", [](DecoderConfig& c) { c.post_norms = false; }},
      {"qwen2", [](DecoderConfig& c) { c.qkv_bias = false; }},
      {"qwen2", [](DecoderConfig& c) { c.rope_theta = 10000; }},
      {"qwen3", [](DecoderConfig& c) { c.qk_norm = false; }},
      {"gpt2", [](DecoderConfig& c) { c.activation = "gelu"; }},
  };
  for (size_t i = 0; i < changes.size(); ++i)
    EXPECT_GT(changed(changes[i].first, changes[i].second), 2e-5) << i << ", " << changes[i].first;
}

ExportReport export_folder(const Job& job, const fs::path& checkpoint, const fs::path& out,
                           const ExportOptions& options, int64_t shard_bytes = kShardBytes) {
  return export_huggingface(job.model, job.data.sequence_length, checkpoint, out, options, shard_bytes);
}

Job job_of(const std::string& yaml, const fs::path& folder = "") {
  return parse_job(yaml, "job.yaml", folder);
}

// Settings that a config.json leaves out have the defaults of transformers' configuration classes; null is explicit.
TEST(ModelWeights, WhatAConfigurationLeavesOutIsAsItsFamilyHasIt) {
  const TempFolder folder;
  const auto config_of = [&](const std::string& type, const std::string& more) {
    put_file(folder / "config.json",
             R"({"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 64, "num_hidden_layers": 2,
                 "vocab_size": 40, "model_type": ")" +
                 type + "\"" + more + "}");
    return weights::read_architecture(folder.path()).config;
  };
  const std::vector<std::tuple<std::string, int64_t, int64_t>> families = {
      {"llama", 64, 0}, {"mistral", 8, 4096}, {"gemma2", 4, 4096}, {"qwen2", 32, 0}, {"qwen3", 32, 0}};
  for (const auto& [type, kv_heads, window] : families) {
    const DecoderConfig config = config_of(type, "");
    EXPECT_EQ(config.num_kv_heads, kv_heads) << type;
    EXPECT_EQ(config.sliding_window, window) << type;
    const DecoderConfig message = config_of(type, R"(, "num_key_value_heads": null, "sliding_window": null)");
    EXPECT_EQ(message.num_kv_heads, 64) << type;
    EXPECT_EQ(message.sliding_window, 0) << type;
  }
}

// The published configurations.
TEST(ModelWeights, ParametersOfPublishedModelsAreCountedToTheLast) {
  const TempFolder folder;
  const std::vector<std::pair<std::string, int64_t>> models = {
      {R"({"model_type": "gemma2", "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0, "head_dim": 256,
           "hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 2304,
           "intermediate_size": 9216, "num_attention_heads": 8, "num_hidden_layers": 26, "num_key_value_heads": 4,
           "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06, "rope_theta": 10000.0, "sliding_window": 4096,
           "vocab_size": 256000})",
       2'614'341'888},
      {R"({"model_type": "mistral", "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 14336,
           "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "rms_norm_eps": 1e-05,
           "rope_theta": 10000.0, "sliding_window": 4096, "tie_word_embeddings": false, "vocab_size": 32000})",
       7'241'732'096},
      {R"({"model_type": "llama", "attention_bias": false, "head_dim": 64, "hidden_act": "silu", "hidden_size": 2048,
           "intermediate_size": 8192, "mlp_bias": false, "num_attention_heads": 32, "num_hidden_layers": 16,
           "num_key_value_heads": 8, "rms_norm_eps": 1e-05, "rope_theta": 500000.0, "tie_word_embeddings": true,
           "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                            "original_max_position_embeddings": 8192, "rope_type": "llama3"},
           "vocab_size": 128256})",
       1'235'814'400},
      {R"({"model_type": "qwen2", "hidden_act": "silu", "hidden_size": 896, "intermediate_size": 4864,
           "max_window_layers": 21, "num_attention_heads": 14, "num_hidden_layers": 24, "num_key_value_heads": 2,
           "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "sliding_window": 32768, "tie_word_embeddings": true,
           "use_sliding_window": false, "vocab_size": 151936})",
       494'032'768},
      {R"({"model_type": "llama", "hidden_act": "silu", "hidden_size": 576, "intermediate_size": 1536,
           "num_attention_heads": 9, "num_hidden_layers": 30, "num_key_value_heads": 3, "rms_norm_eps": 1e-05,
           "rope_theta": 100000, "rope_scaling": null, "tie_word_embeddings": true, "vocab_size": 49152})",
       134'515'008},
      {R"({"model_type": "gpt2", "activation_function": "gelu_new", "n_ctx": 1024, "n_embd": 768, "n_head": 12,
           "n_layer": 12, "n_positions": 1024, "vocab_size": 50257})",
       124'439'808},
  };
  for (const auto& [config, parameters] : models) {
    put_file(folder / "config.json", config);
    const Job job = job_of(
        "model: {config: config.json}\ndata: {type: synthetic, sequence_length: 64}\nbatch_size: 1\n"
        "micro_batch_size: 1\nprecision: bf16-true\n",
        folder.path());
    const Trace trace = record_step(step_of(job, 1), options_of(job));
    int64_t counted = 0;
    for (const NamedView& entry : trace.state)
      if (trace.buffers[entry.view.buffer].role == Role::parameter) counted += entry.view.elements();
    EXPECT_EQ(counted, parameters) << config.substr(0, 30);
  }
}

class ModelWeightsFolder : public ::testing::Test {
 protected:
  /// A copy of a family's folder, to be changed.
  fs::path copy_of(const std::string& name) {
    const fs::path to = folder_ / name;
    fs::remove_all(to);
    fs::copy(kFamilies / name, to);
    fs::permissions(to, fs::perms::owner_all);
    return to;
  }

  /// Returns the error of loading it; the model must be unchanged.
  std::string refusal(const fs::path& weights, const std::string& architecture) {
    const DecoderConfig config = weights::read_architecture(kFamilies / architecture).config;
    model::DecoderImpl model(config, 12);
    std::map<std::string, at::Tensor> before;
    for (const auto& [name, tensor] : parameters_of(model)) before[name] = tensor.clone();
    const std::string message = user_error_of([&] { load_decoder_weights(weights, {}, parameters_of(model)); });
    for (const auto& [name, tensor] : parameters_of(model)) EXPECT_TRUE(at::equal(tensor, before[name])) << name;
    return message;
  }

  /// Starts from `weights`, and stops after a step that changes nothing.
  Job still_job(const fs::path& weights) {
    Job job = parse_job(
        "model: {weights: " + weights.string() +
            "}\ndata: {type: synthetic, samples: 4, sequence_length: 12, validation_fraction: 0}\nbatch_size: 2\n"
            "micro_batch_size: 1\nmax_steps: 1\nthreads: 1\nmemory_budget: 1GiB\nmax_grad_norm: 0\n"
            "optimizer: {name: sgd, momentum: 0, learning_rate: 1e-30, weight_decay: 0}\n",
        "job.yaml", "");
    job.checkpoint.directory = folder_ / "run";
    fs::remove_all(job.checkpoint.directory);
    return job;
  }

  fs::path checkpoint_of(const Job& job) { return checkpoints_in(job.checkpoint.directory).rbegin()->second; }

  TempFolder folder_;
};

TEST_F(ModelWeightsFolder, AJobTakesItsArchitectureFromTheFolder) {
  const Job job = still_job(kFamilies / "gemma2");
  EXPECT_EQ(job.model.decoder.hidden_size, 16);
  EXPECT_EQ(job.model.decoder.head_dim, 8);
  EXPECT_EQ(job.model.decoder.activation, "geglu");
  EXPECT_EQ(job.model.decoder.vocab_size, 64);
  EXPECT_EQ(job.model.decoder.sliding_window_every, 2);
  const std::string weights = "model: {weights: " + (kFamilies / "gemma2").string();
  EXPECT_EQ(job_of(weights + ", hidden_size: 16, dropout: 0.5}\ndata: {type: synthetic}").model.decoder.dropout, 0.5);
  EXPECT_THAT(user_error_of([&] {
                job_of("data: {type: synthetic}\n" + weights + ", hidden_size: 32, post_norms: false, num_heads: 4}");
              }),
              AllOf(HasSubstr("job.yaml:2"), HasSubstr("model.hidden_size is 32 in the job, 16 in the file"),
                    HasSubstr("model.post_norms is false in the job, true in the file"), Not(HasSubstr("num_heads"))));
}

TEST_F(ModelWeightsFolder, ConfigurationsThatCannotBeAreRefused) {
  const auto message = [&](const std::string& config) {
    put_file(folder_ / "config.json", config);
    return user_error_of([&] { job_of("model: {config: config.json}\ndata: {type: synthetic}", folder_.path()); });
  };
  const std::string sizes =
      R"("vocab_size": 64, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
         "num_attention_heads": 4)";
  EXPECT_THAT(message(R"({"model_type": "bert"})"),
              AllOf(HasSubstr("config.json"), HasSubstr("bert"), HasSubstr("known are llama, mistral, qwen2")));
  EXPECT_THAT(message("{}"), HasSubstr("model_type is missing"));
  EXPECT_THAT(message("[1]"), HasSubstr("no JSON object"));
  EXPECT_THAT(message("{\"model_type\": "), HasSubstr("not valid JSON"));
  EXPECT_THAT(message(std::string(100, '[')), HasSubstr("nested deeper"));
  EXPECT_THAT(message(R"({"model_type": "llama", "model_type": "gpt2"})"), HasSubstr("'model_type' twice"));
  EXPECT_THAT(message(R"({"model_type": "llama"})"), HasSubstr("vocab_size is missing"));
  EXPECT_THAT(message(R"({"model_type": "llama", "num_hidden_layers": 1e30, )" +
                      sizes.substr(0, sizes.find(", \"num_hidden_layers\"")) + "}"),
              HasSubstr("num_hidden_layers is 1e+30"));
  EXPECT_THAT(message(R"({"model_type": "llama", )" + sizes + R"(, "num_key_value_heads": 3})"),
              HasSubstr("do not divide"));
  EXPECT_THAT(message(R"({"model_type": "llama", )" + sizes + R"(, "num_key_value_heads": -9223372036854775808})"),
              HasSubstr("num_key_value_heads"));
  EXPECT_THAT(message(R"({"model_type": "llama", )" + sizes + R"(, "hidden_act": "relu"})"), HasSubstr("hidden_act"));
  EXPECT_THAT(message(R"({"model_type": "llama", )" + sizes + R"(, "rope_scaling": {"type": "yarn", "factor": 4}})"),
              AllOf(HasSubstr("yarn"), HasSubstr("known are default, llama3")));
  EXPECT_THAT(message(R"({"model_type": "llama", )" + sizes + R"(, "quantization_config": {"bits": 4}})"),
              HasSubstr("quantization_config is {\"bits\":4}; it is not computed here: quantized weights"));
  EXPECT_THAT(message(R"({"model_type": "qwen2", )" + sizes +
                      R"(, "sliding_window": 4, "use_sliding_window": true,
                      "layer_types": ["full_attention", "sliding_attention"]})"),
              HasSubstr("sliding window"));
  EXPECT_THAT(message(std::string((size_t{4} << 20) + 1, ' ')), HasSubstr("more than"));
  fs::create_directory(folder_ / "empty");
  EXPECT_THAT(user_error_of([&] { job_of("model: {weights: empty}\ndata: {type: synthetic}", folder_.path()); }),
              AllOf(HasSubstr("no config.json"), HasSubstr("model.config")));
}

// Both ways, with a training between: every bit of every tensor.
TEST_F(ModelWeightsFolder, WhatIsReadIsWrittenAgain) {
  for (const std::string& name : kFolders) {
    SCOPED_TRACE(name);
    const Job job = still_job(kFamilies / name);
    train(job);
    const fs::path out = folder_ / ("out-" + name);
    const ExportReport report = export_folder(job, checkpoint_of(job), out, {});
    EXPECT_EQ(report.step, 1);
    std::map<std::string, at::Tensor> written = tensors_in(out / "model.safetensors"), read;
    for (const auto& entry : fs::directory_iterator(kFamilies / name))
      if (entry.path().extension() == ".safetensors") read.merge(tensors_in(entry.path()));
    ASSERT_EQ(written.size(), read.size());
    for (const auto& [key, tensor] : read) {
      ASSERT_TRUE(written.contains(key)) << key;
      // Gemma's norms are held as 1 + w, which float32 rounds.
      if (name == "gemma2" && key.find("norm") != std::string::npos)
        EXPECT_LE((written[key] - tensor).abs().max().item<float>(), 1.2e-7f) << key;
      else
        EXPECT_TRUE(at::equal(written[key], tensor)) << key;
    }
    EXPECT_EQ(read_json(out / "config.json"), read_json(kFamilies / name / "config.json"));
    EXPECT_THAT(user_error_of([&] { export_folder(job, checkpoint_of(job), out, {}); }), HasSubstr("not empty"));
  }
}

TEST_F(ModelWeightsFolder, SixteenBitsComeBackBitForBit) {
  const fs::path from = copy_of("gemma2");
  auto tensors = tensors_in(from / "model.safetensors");
  for (auto& [name, tensor] : tensors) tensor = tensor.to(at::kBFloat16);
  write_tensors(from / "model.safetensors", tensors);
  const Job job = still_job(from);
  train(job);
  const fs::path out = folder_ / "out";
  export_folder(job, checkpoint_of(job), out, {.dtype = DType::bfloat16}, /*shard_bytes=*/4000);
  std::map<std::string, at::Tensor> written;
  int shards = 0;
  const json index = read_json(out / "model.safetensors.index.json");
  for (const auto& entry : fs::directory_iterator(out)) {
    if (entry.path().extension() != ".safetensors") continue;
    ++shards;
    for (auto& [name, tensor] : tensors_in(entry.path())) {
      EXPECT_EQ(index.at("weight_map").at(name), entry.path().filename().string());
      written[name] = tensor;
    }
  }
  EXPECT_GE(shards, 3);
  ASSERT_EQ(written.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) EXPECT_TRUE(at::equal(written[name], tensor)) << name;
  EXPECT_EQ(read_json(out / "config.json").at("dtype"), "bfloat16");
  // And they are read again, shard by shard.
  const ExpectedDecoder expected(kFamilies / "gemma2");
  EXPECT_LE(relative_error(LoadedDecoder(out, 12).logits(expected.all_tokens()), expected.logits), 2e-2);
}

// A folder that is not whole is not left behind.
TEST_F(ModelWeightsFolder, ACheckpointOfAnotherModelIsNotWritten) {
  const Job biased = still_job(kFamilies / "qwen2");
  train(biased);
  const fs::path out = folder_ / "out";
  Job other = biased;
  other.model.config.clear();
  other.model.weights.clear();
  other.model.decoder.qkv_bias = false;
  EXPECT_THAT(user_error_of([&] { export_folder(other, checkpoint_of(biased), out, {}); }),
              AllOf(HasSubstr("the checkpoint has 'layers.0."), HasSubstr("bias'")));
  EXPECT_FALSE(fs::exists(out));
  other = biased;
  other.model.config.clear();
  other.model.weights.clear();
  other.model.decoder.intermediate_size += 8;
  EXPECT_THAT(user_error_of([&] { export_folder(other, checkpoint_of(biased), out, {}, /*shard_bytes=*/4000); }),
              HasSubstr("not of the size"));
  EXPECT_FALSE(fs::exists(out));
}

TEST_F(ModelWeightsFolder, AFamilyIsFoundForAJobOfItsOwn) {
  for (const std::string& name : kFolders) {
    const weights::Architecture read = weights::read_architecture(kFamilies / name);
    const weights::Architecture found = weights::family_of(read.config);
    EXPECT_EQ(found.family, name == "llama3" ? "llama" : name);
    const json written = weights::config_json_of(found, "float32", 64);
    EXPECT_THAT(weights::differences(weights::architecture_of(written, "written").config, read.config),
                ::testing::IsEmpty());
  }
  DecoderConfig odd = weights::read_architecture(kFamilies / "llama").config;
  odd.norm = "layernorm";
  EXPECT_THAT(user_error_of([&] { weights::family_of(odd); }),
              AllOf(HasSubstr("llama has norm: rmsnorm, not layernorm")));
}

TEST_F(ModelWeightsFolder, QuantizedAndAdaptedJobsStartFromThem) {
  Job job = still_job(kFamilies / "llama");
  job.fine_tuning.lora.modules = {"*.qkv"};
  job.fine_tuning.lora.rank = 2;
  job.fine_tuning.quantize.modules = {"layers"};
  job.fine_tuning.quantize.format = "int8";
  train(job);
  EXPECT_THAT(user_error_of([&] { export_folder(job, checkpoint_of(job), folder_ / "no", {}); }),
              HasSubstr("add --merge"));
  export_folder(job, checkpoint_of(job), folder_ / "merged", {.merge = true, .dtype = DType::float32});
  const ExpectedDecoder expected(kFamilies / "llama");
  const at::Tensor merged = LoadedDecoder(folder_ / "merged", 12).logits(expected.all_tokens());
  EXPECT_GT(relative_error(merged, expected.logits), 1e-4);  // eight bits
  // The folder's own weights, each quantized in blocks and dequantized.
  const LoadedDecoder rounded(kFamilies / "llama", 12);
  for (const auto& module : rounded.model->modules())
    if (const auto* linear = module->as<LinearImpl>()) {
      const at::NoGradGuard no_grad;
      at::Tensor weight = linear->weight();
      const auto blocks = ops::quantize_weight(weight, "int8", job.fine_tuning.quantize.double_scales);
      weight.copy_(ops::dequantize_weight(blocks, weight.size(1), at::kFloat));
    }
  EXPECT_LE(relative_error(merged, rounded.logits(expected.all_tokens()).to(at::kDouble)), 1e-4);
}

TEST_F(ModelWeightsFolder, NamesWithoutTheirPrefixAndBuffersAreTaken) {
  const fs::path from = copy_of("gpt2");
  std::map<std::string, at::Tensor> tensors;
  for (const auto& [name, tensor] : tensors_in(from / "model.safetensors"))
    tensors[name.substr(std::string("transformer.").size())] = tensor;
  tensors["h.0.attn.bias"] = torch::ones({20, 20}).tril().view({1, 1, 20, 20}).to(at::kByte);
  tensors["h.1.attn.masked_bias"] = torch::tensor(-1e4f);
  tensors["lm_head.weight"] = tensors.at("wte.weight");
  write_tensors(from / "model.safetensors", tensors);
  const ExpectedDecoder expected(kFamilies / "gpt2");
  EXPECT_LE(relative_error(LoadedDecoder(from, 12).logits(expected.all_tokens()), expected.logits), 1e-5);
}

// The format does not require padding: a number may begin at any byte.
TEST_F(ModelWeightsFolder, DataBehindAHeaderOfOddLengthIsRead) {
  const fs::path from = copy_of("llama");
  std::string file = get_file(from / "model.safetensors");
  uint64_t header = 0;
  std::memcpy(&header, file.data(), sizeof header);
  file.insert(sizeof header + header++, " ");
  std::memcpy(file.data(), &header, sizeof header);
  put_file(from / "model.safetensors", file);
  const ExpectedDecoder expected(kFamilies / "llama");
  EXPECT_LE(relative_error(LoadedDecoder(from, 12).logits(expected.all_tokens()), expected.logits), 1e-5);
}

TEST_F(ModelWeightsFolder, TensorsThatAreNotTheModelsAreListedTogether) {
  const fs::path from = copy_of("llama");
  auto tensors = tensors_in(from / "model.safetensors");
  tensors.erase("model.layers.1.self_attn.k_proj.weight");
  tensors["model.layers.0.mlp.up_proj.weight"] = torch::zeros({24, 15});
  tensors["model.norm.weight"] = torch::zeros({16}, at::kInt);
  tensors["model.layers.2.mlp.up_proj.weight"] = torch::zeros({24, 16});
  write_tensors(from / "model.safetensors", tensors);
  EXPECT_THAT(
      refusal(from, "llama"),
      AllOf(HasSubstr("nothing was loaded"), HasSubstr("'model.layers.1.self_attn.k_proj.weight' [8, 16] is missing"),
            HasSubstr("'model.layers.0.mlp.up_proj.weight' is float32 [24, 15] in the file"),
            HasSubstr("'model.norm.weight' is int32"),
            HasSubstr("'model.layers.2.mlp.up_proj.weight' [24, 16] is in the file only")));
}

TEST_F(ModelWeightsFolder, AnotherModelThanTheFilesIsRefused) {
  EXPECT_THAT(refusal(kFamilies / "llama", "llama3"),
              HasSubstr("'head' [64, 16] is in the model that is trained only"));
}

TEST_F(ModelWeightsFolder, DamagedShardsAndIndexesAreRefused) {
  fs::path from = copy_of("llama3");
  const fs::path shard = from / "model-00003-of-00005.safetensors";
  fs::resize_file(shard, fs::file_size(shard) - 4);
  EXPECT_THAT(refusal(from, "llama3"), AllOf(HasSubstr("model-00003-of-00005"), HasSubstr("truncated")));
  fs::remove(shard);
  EXPECT_THAT(refusal(from, "llama3"), AllOf(HasSubstr("model-00003-of-00005"), HasSubstr("not in its folder")));

  from = copy_of("llama3");
  const fs::path index = from / "model.safetensors.index.json";
  const json good = read_json(index);
  const auto with = [&](const std::string& tensor, const json& file) {
    json changed = good;
    changed["weight_map"][tensor] = file;
    put_file(index, changed.dump());
    return refusal(from, "llama3");
  };
  for (const char* path : {"../llama3/model-00001-of-00005.safetensors", "/etc/passwd", "sub/model.safetensors", "..",
                           "", ".safetensors/..", "a\\b.safetensors"})
    EXPECT_THAT(with("model.norm.weight", path), HasSubstr("must be a .safetensors file of the same folder")) << path;
  EXPECT_THAT(with("model.norm.weight", 3), HasSubstr("does not name a file"));
  EXPECT_THAT(with("model.other.weight", "model-00001-of-00005.safetensors"), HasSubstr("does not hold it"));
  EXPECT_THAT(with("model.norm.weight", "model-00001-of-00005.safetensors"), HasSubstr("model.norm.weight"));
  put_file(index, "{}");
  EXPECT_THAT(refusal(from, "llama3"), HasSubstr("weight_map"));
  put_file(index, good.dump().substr(0, 500));
  EXPECT_THAT(refusal(from, "llama3"), HasSubstr("not valid JSON"));
  fs::remove(index);
  EXPECT_THAT(refusal(from, "llama3"), HasSubstr("neither model.safetensors nor"));
  put_file(from / "pytorch_model.bin", "x");
  EXPECT_THAT(refusal(from, "llama3"), HasSubstr("pickle"));
}

TEST_F(ModelWeightsFolder, GgufFilesHoldTheSameModel) {
  const fs::path file = put_file(folder_ / "llama.gguf", llama_gguf().text());
  const ExpectedDecoder expected(kFamilies / "llama");
  EXPECT_LE(relative_error(LoadedDecoder(file, 12).logits(expected.all_tokens()), expected.logits), 1e-5);
  const Job job = still_job(file);
  EXPECT_EQ(job.model.decoder.num_kv_heads, 2);
  train(job);
  // Exported as a folder, which has the very tensors from which the file was made.
  export_folder(job, checkpoint_of(job), folder_ / "out", {});
  const auto written = tensors_in(folder_ / "out" / "model.safetensors");
  for (const auto& [name, tensor] : tensors_in(kFamilies / "llama" / "model.safetensors"))
    EXPECT_TRUE(at::equal(written.at(name), tensor)) << name;
  EXPECT_EQ(read_json(folder_ / "out" / "config.json").at("model_type"), "llama");
}

TEST_F(ModelWeightsFolder, GgufFilesOfOtherModelsAreRefused) {
  const auto message = [&](GgufText text) {
    put_file(folder_ / "other.gguf", text.text());
    return user_error_of([&] { still_job(folder_ / "other.gguf"); });
  };
  EXPECT_THAT(message(GgufText().word("general.architecture", "mamba")), HasSubstr("'mamba'; known is llama"));
  EXPECT_THAT(message(llama_gguf().tensor("rope_freqs.weight", {2}, 0, std::string(8, 'x'))), HasSubstr("rotary"));
  EXPECT_THAT(message(GgufText()
                          .word("general.architecture", "llama")
                          .tensor("token_embd.weight", {4, 4}, 0, std::string(64, '\0'))),
              HasSubstr("lack llama.embedding_length"));
}

}  // namespace
}  // namespace plimsoll
