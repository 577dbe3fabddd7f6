// Tests vision encoders from others' folders, against results of transformers, and language models as a part.
#include <gmock/gmock.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <functional>

#include "models/decoder.h"
#include "models/video_llm.h"
#include "plimsoll/train_job.h"
#include "train/tiny_job.h"
#include "weights/families.h"
#include "weights/family_files.h"
#include "weights/model_weights.h"
#include "weights/vision_families.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::vector<std::string> kEncoders = {"vit", "clip", "siglip"};

/// Pictures from an image processor, and the results of transformers for them.
struct ExpectedVision {
  explicit ExpectedVision(const fs::path& folder, const weights::VisionArchitecture& of) {
    const json read = read_json(folder / "expected.json");
    const int64_t size = of.image_size, tokens = read.at("tokens");
    const auto colors = [](const std::array<double, 3>& each) {
      return torch::tensor(std::vector<double>(each.begin(), each.end()), at::kDouble).view({3, 1, 1});
    };
    const at::Tensor pictures =
        torch::tensor(read.at("pictures").get<std::vector<int64_t>>()).view({-1, 3, size, size}).to(at::kDouble) / 255;
    frames = ((pictures - colors(of.config.image_mean)) / colors(of.config.image_std)).to(at::kFloat);
    hidden = torch::tensor(read.at("hidden").get<std::vector<double>>(), at::kDouble)
                 .view({frames.size(0), tokens, of.config.width});
  }
  /// Without the class token, if there is one.
  at::Tensor patches(bool class_token) const { return hidden.slice(1, class_token ? 1 : 0); }

  at::Tensor frames, hidden;
};

/// An encoder as the library builds it, eagerly on the CPU.
struct LoadedVision {
  explicit LoadedVision(const fs::path& folder, const std::function<void(VisionConfig&)>& change = {})
      : architecture(weights::read_vision_architecture(folder)) {
    VisionConfig config = architecture.config;
    if (change) change(config);
    encoder = std::make_shared<model::FrameEncoderImpl>(config, architecture.image_size, 1);
    load_vision_weights(folder, {}, config, parameters_of(*encoder));
  }
  at::Tensor patches(const at::Tensor& frames) const {
    const at::NoGradGuard no_grad;
    return encoder->patches(frames);
  }

  weights::VisionArchitecture architecture;
  std::shared_ptr<model::FrameEncoderImpl> encoder;
};

double error_of(const fs::path& folder, const fs::path& expected_in) {
  const LoadedVision loaded(folder);
  const ExpectedVision expected(expected_in, loaded.architecture);
  return relative_error(loaded.patches(expected.frames), expected.patches(loaded.architecture.config.class_token));
}

TEST(VisionWeights, EveryFamilyComputesWhatTransformersDoes) {
  for (const std::string& name : kEncoders) EXPECT_LE(error_of(kFamilies / name, kFamilies / name), 1e-5) << name;
}

TEST(VisionWeights, TheMeanOverAGridLeavesTheClassTokenOut) {
  const LoadedVision loaded(kFamilies / "vit");
  const ExpectedVision expected(kFamilies / "vit", loaded.architecture);
  const at::NoGradGuard no_grad;
  const at::Tensor mean = loaded.encoder->forward(expected.frames);
  EXPECT_LE(relative_error(mean, expected.patches(true).mean(1, /*keepdim=*/true)), 1e-5);
}

// If a setting were ignored, the comparison could not pass: each makes a difference.
TEST(VisionWeights, EverySettingCounts) {
  const auto changed = [](const std::string& name, const std::function<void(VisionConfig&)>& change) {
    const LoadedVision loaded(kFamilies / name);
    const ExpectedVision expected(kFamilies / name, loaded.architecture);
    VisionConfig other = loaded.architecture.config;
    change(other);
    model::FrameEncoderImpl encoder(other, loaded.architecture.image_size, 1);
    const at::NoGradGuard no_grad;
    auto to = encoder.named_parameters();
    for (const auto& [key, value] : parameters_of(*loaded.encoder))
      if (to.contains(key)) to[key].copy_(value);
    return relative_error(encoder.patches(expected.frames), expected.patches(other.class_token));
  };
  EXPECT_GT(changed("vit", [](VisionConfig& c) { c.activation = "gelu_tanh"; }), 2e-5);
  EXPECT_GT(changed("vit", [](VisionConfig& c) { c.norm_eps = 1e-3; }), 2e-5);
  EXPECT_GT(changed("vit", [](VisionConfig& c) { c.final_norm = false; }), 2e-5);
  EXPECT_GT(changed("vit", [](VisionConfig& c) { c.bias = false; }), 2e-5);
  EXPECT_GT(changed("vit", [](VisionConfig& c) { c.num_heads = 4; }), 2e-5);
  EXPECT_GT(changed("clip", [](VisionConfig& c) { c.activation = "gelu"; }), 2e-5);
  EXPECT_GT(changed("clip", [](VisionConfig& c) { c.pre_norm = false; }), 2e-5);
  EXPECT_GT(changed("siglip", [](VisionConfig& c) { c.activation = "gelu"; }), 2e-5);
  EXPECT_GT(changed("siglip", [](VisionConfig& c) { c.patch_bias = false; }), 2e-5);
}

TEST(VisionWeights, ColorsComeFromThePreprocessorOrTheFamily) {
  const VisionConfig vit = weights::read_vision_architecture(kFamilies / "vit").config;
  EXPECT_THAT(vit.image_mean, ::testing::ElementsAre(0.5, 0.4, 0.3));
  EXPECT_THAT(vit.image_std, ::testing::ElementsAre(0.2, 0.25, 0.5));
  // It has none: those that CLIP was trained with.
  EXPECT_THAT(weights::read_vision_architecture(kFamilies / "clip").config.image_mean,
              ::testing::ElementsAre(0.48145466, 0.4578275, 0.40821073));
}

TEST(VisionWeights, EncodersAloneAreReadAsThoseBesideText) {
  const TempFolder folder;
  for (const std::string name : {"clip", "siglip"}) {
    const fs::path alone = single_file_copy(name, folder);
    json config = read_json(alone / "config.json").at("vision_config");
    config["model_type"] = name + "_vision_model";
    put_file(alone / "config.json", config.dump());
    // Newer versions of transformers leave out the prefix.
    std::map<std::string, at::Tensor> tensors;
    const std::string prefix = "vision_model.";
    for (const auto& [key, tensor] : tensors_in(alone / "model.safetensors"))
      if (key.starts_with(prefix)) tensors[key.substr(prefix.size())] = tensor;
    for (const bool left_out : {false, true}) {
      if (left_out) write_tensors(alone / "model.safetensors", tensors);
      EXPECT_LE(error_of(alone, kFamilies / name), 1e-5) << name << left_out;
    }
  }
}

TEST(VisionWeights, TheFirstBlocksAloneCanBeTaken) {
  // The input of the last of two blocks: transformers' hidden_states[-2].
  const auto first = [](VisionConfig& c) {
    c.depth = 1;
    c.final_norm = false;
  };
  const LoadedVision one(kFamilies / "clip", first), both(kFamilies / "clip");
  const ExpectedVision expected(kFamilies / "clip", both.architecture);
  auto there = both.encoder->named_parameters();
  for (const auto& [name, tensor] : parameters_of(*one.encoder)) EXPECT_TRUE(at::equal(tensor, there[name])) << name;
  EXPECT_GT(relative_error(one.patches(expected.frames), expected.patches(true)), 1e-2);
}

class VisionWeightsFolder : public ::testing::Test {
 protected:
  /// Returns the error of loading it; the encoder must be unchanged.
  std::string refusal(const fs::path& folder, const std::string& family) {
    const auto of = weights::read_vision_architecture(kFamilies / family);
    model::FrameEncoderImpl encoder(of.config, of.image_size, 1);
    std::map<std::string, at::Tensor> before;
    for (const auto& [name, tensor] : parameters_of(encoder)) before[name] = tensor.clone();
    const std::string message =
        user_error_of([&] { load_vision_weights(folder, {}, of.config, parameters_of(encoder)); });
    for (const auto& [name, tensor] : parameters_of(encoder)) EXPECT_TRUE(at::equal(tensor, before[name])) << name;
    return message;
  }
  std::string config_refusal(const std::string& family, const std::function<void(json&)>& change) {
    const fs::path folder = single_file_copy(family, folder_);
    json config = read_json(folder / "config.json");
    change(config);
    put_file(folder / "config.json", config.dump());
    return user_error_of([&] { weights::read_vision_architecture(folder); });
  }

  TempFolder folder_;
};

TEST_F(VisionWeightsFolder, TensorsThatAreNotTheEncodersAreListedTogether) {
  const fs::path from = single_file_copy("siglip", folder_);
  auto tensors = tensors_in(from / "model.safetensors");
  const std::string block = "vision_model.encoder.layers.1.";
  tensors.erase(block + "self_attn.k_proj.bias");
  tensors[block + "mlp.fc1.weight"] = torch::zeros({24, 15});
  tensors[block + "layer_norm1.weight"] = torch::zeros({16}, at::kChar);
  tensors["vision_model.encoder.layers.2.mlp.fc1.bias"] = torch::zeros({24});
  tensors["vision_model.adapter.weight"] = torch::zeros({2, 2});
  write_tensors(from / "model.safetensors", tensors);
  EXPECT_THAT(refusal(from, "siglip"),
              AllOf(HasSubstr("model.weights: " + from.string()), HasSubstr("nothing was loaded"),
                    HasSubstr("'" + block + "self_attn.k_proj.bias' [16] is missing"),
                    HasSubstr("'" + block + "mlp.fc1.weight' is float32 [24, 15] in the file"),
                    HasSubstr("'" + block + "layer_norm1.weight' is int8"),
                    HasSubstr("'vision_model.encoder.layers.2.mlp.fc1.bias' [24] is in the file only"),
                    HasSubstr("'vision_model.adapter.weight' [2, 2] is in the file only"), Not(HasSubstr("text_model")),
                    Not(HasSubstr("logit_scale")), Not(HasSubstr("head"))));
}

TEST_F(VisionWeightsFolder, DoublePrecisionIsCast) {
  const fs::path from = single_file_copy("vit", folder_);
  auto tensors = tensors_in(from / "model.safetensors");
  for (auto& [name, tensor] : tensors) tensor = tensor.to(at::kDouble);
  write_tensors(from / "model.safetensors", tensors);
  EXPECT_LE(error_of(from, kFamilies / "vit"), 1e-5);
}

TEST_F(VisionWeightsFolder, ConfigurationsThatCannotBeAreRefused) {
  EXPECT_THAT(config_refusal("vit", [](json& c) { c["model_type"] = "swin"; }),
              AllOf(HasSubstr("config.json"), HasSubstr("swin"),
                    HasSubstr("known are clip, clip_vision_model, siglip, siglip_vision_model, vit")));
  EXPECT_THAT(config_refusal("vit", [](json& c) { c.erase("model_type"); }), HasSubstr("model_type is missing"));
  EXPECT_THAT(config_refusal("vit", [](json& c) { c["qkv_bias"] = false; }), HasSubstr("qkv_bias"));
  EXPECT_THAT(config_refusal("vit", [](json& c) { c["num_channels"] = 1; }), HasSubstr("num_channels"));
  EXPECT_THAT(config_refusal("vit", [](json& c) { c["patch_size"] = 0; }), HasSubstr("patch_size"));
  EXPECT_THAT(config_refusal("vit", [](json& c) { c["patch_size"] = 17; }), HasSubstr("must not exceed image_size 16"));
  EXPECT_THAT(config_refusal("vit", [](json& c) { c["num_attention_heads"] = 3; }), HasSubstr("must divide"));
  EXPECT_THAT(config_refusal("vit", [](json& c) { c["hidden_size"] = 1e30; }), HasSubstr("hidden_size"));
  EXPECT_THAT(config_refusal("clip", [](json& c) { c["vision_config"]["hidden_act"] = "relu"; }),
              AllOf(HasSubstr("relu"), HasSubstr("quick_gelu")));
  EXPECT_THAT(config_refusal("clip", [](json& c) { c["vision_config"] = 3; }), HasSubstr("must be an object"));
  EXPECT_THAT(config_refusal("siglip",
                             [](json& c) {
                               c["quantization_config"] = {{"bits", 4}};
                             }),
              HasSubstr("quantized weights of other programs are not read"));
  const auto colors = [&](const json& processor) {
    const fs::path folder = single_file_copy("vit", folder_);
    put_file(folder / "preprocessor_config.json", processor.dump());
    return user_error_of([&] { weights::read_vision_architecture(folder); });
  };
  EXPECT_THAT(colors({{"image_mean", {0.5, 0.5}}}),
              AllOf(HasSubstr("preprocessor_config.json"), HasSubstr("image_mean"), HasSubstr("3 numbers")));
  EXPECT_THAT(colors({{"image_std", {0.5, 0, 0.5}}}), HasSubstr("above 0"));
  EXPECT_THAT(colors({{"rescale_factor", 1}}), HasSubstr("divided by 255"));
  EXPECT_THAT(colors({{"do_rescale", false}}), HasSubstr("divided by 255"));
  EXPECT_THAT(colors({{"do_flip_channel_order", true}}), HasSubstr("do_flip_channel_order is true"));
  EXPECT_THAT(colors({{"offset", true}}), HasSubstr("offset is true"));
  EXPECT_THAT(colors({{"color_scale", 2}}), HasSubstr("color_scale is 2; image_processor has no such setting here"));
}

// Pixels stay in [0, 1], whatever mean and deviation the file has next to it.
TEST_F(VisionWeightsFolder, ColorsThatAreNotNormalizedHaveNoMean) {
  const fs::path folder = single_file_copy("vit", folder_);
  put_file(folder / "preprocessor_config.json",
           R"({"do_normalize": false, "image_mean": [0.1, 0.2, 0.3], "image_std": [0.4, 0.5, 0.6]})");
  const VisionConfig config = weights::read_vision_architecture(folder).config;
  EXPECT_THAT(config.image_mean, ::testing::ElementsAre(0, 0, 0));
  EXPECT_THAT(config.image_std, ::testing::ElementsAre(1, 1, 1));
}

Job video_job(const std::string& model) {
  return parse_job(
      "model: {type: video_llm, tokens_per_frame: 4, " + model +
          "}\n"
          "data: {type: synthetic, samples: 4, max_frames: 2, sequence_length: 5, validation_fraction: 0}\n"
          "batch_size: 2\nmicro_batch_size: 1\nmax_steps: 1\nthreads: 1\nmemory_budget: 1GiB\n"
          "optimizer: {name: sgd, momentum: 0, learning_rate: 1e-30, weight_decay: 0}\nmax_grad_norm: 0\n",
      "job.yaml", "");
}

std::string text(const fs::path& path) {
  return path.string();
}

// A whole job from two folders: everything that it has not trained is unchanged, bit for bit.
TEST_F(VisionWeightsFolder, AVideoLanguageModelStartsFromTheFoldersOfItsParts) {
  Job job = video_job("vision: {weights: " + text(kFamilies / "siglip") +
                      "}, llm: {weights: " + text(kFamilies / "gemma2") + "}");
  EXPECT_EQ(job.model.video_llm.image_size, 18);
  EXPECT_EQ(job.model.video_llm.vision.activation, "gelu_tanh");
  EXPECT_EQ(job.model.video_llm.llm.vocab_size, 64);
  EXPECT_TRUE(job.model.video_llm.llm.post_norms);
  job.checkpoint.directory = folder_ / "run";
  EXPECT_EQ(train(job).steps, 1);
  const auto trained = tensors_in(checkpoints_in(job.checkpoint.directory).rbegin()->second);
  const auto siglip = tensors_in_folder(kFamilies / "siglip"), gemma = tensors_in_folder(kFamilies / "gemma2");
  const std::string layer = "vision_model.encoder.layers.0.self_attn.";
  EXPECT_TRUE(at::equal(trained.at("vision.blocks.0.qkv.weight"),
                        at::cat({siglip.at(layer + "q_proj.weight"), siglip.at(layer + "k_proj.weight"),
                                 siglip.at(layer + "v_proj.weight")})));
  EXPECT_TRUE(at::equal(trained.at("vision.embed.weight"),
                        siglip.at("vision_model.embeddings.patch_embedding.weight").view({16, 48})));
  EXPECT_TRUE(at::equal(trained.at("llm.embedding"), gemma.at("model.embed_tokens.weight")));
  EXPECT_TRUE(trained.contains("projector.up.weight"));
}

// Two bytes a weight, and companions in addition: each part's companions are its own too.
TEST_F(VisionWeightsFolder, PartsHeldInSixteenBitsAreRoundedOnce) {
  Job job = video_job("dtype: bfloat16, vision: {weights: " + text(kFamilies / "vit") +
                      "}, llm: {weights: " + text(kFamilies / "llama") + "}");
  job.optimizer.weight_update = WeightUpdate::split;
  job.checkpoint.directory = folder_ / "run";
  train(job);
  const auto trained = tensors_in(checkpoints_in(job.checkpoint.directory).rbegin()->second);
  const at::Tensor stored = tensors_in_folder(kFamilies / "llama").at("model.embed_tokens.weight");
  EXPECT_LE((trained.at("llm.embedding").to(at::kFloat) - stored).abs().max().item<float>(), 0.01f);
  ASSERT_TRUE(trained.contains("optimizer.remainder.llm.embedding"));
  // Both halves together are the file's numbers.
  const at::Tensor upper = trained.at("llm.embedding").view(at::kShort).to(at::kInt);
  const at::Tensor bits =
      at::bitwise_left_shift(upper, 16) + trained.at("optimizer.remainder.llm.embedding").to(at::kInt);
  EXPECT_TRUE(at::equal(bits.view(at::kFloat), stored));
}

TEST_F(VisionWeightsFolder, JobsThatDisagreeWithTheFoldersAreRefused) {
  const std::string vit = "vision: {weights: " + text(kFamilies / "vit");
  const auto message = [](const std::string& model) { return user_error_of([&] { video_job(model); }); };
  EXPECT_THAT(message(vit + ", width: 32, norm: rmsnorm, class_token: true}"),
              AllOf(HasSubstr("model.vision.width is 32 in the job, 16 in the file"),
                    HasSubstr("model.vision.norm is rmsnorm in the job, layernorm in the file"),
                    Not(HasSubstr("class_token"))));
  EXPECT_THAT(message("image_size: 32, " + vit + "}"), HasSubstr("learned for 16"));
  EXPECT_THAT(message(vit + ", depth: 3}"), HasSubstr("allowed: 1 to 2, the number of blocks"));
  EXPECT_FALSE(video_job(vit + ", depth: 1}").model.video_llm.vision.final_norm);
  EXPECT_TRUE(video_job(vit + ", depth: 1, final_norm: true}").model.video_llm.vision.final_norm);
  EXPECT_EQ(video_job(vit + ", image_mean: [0, 0, 0]}").model.video_llm.vision.image_mean[1], 0);
  EXPECT_EQ(video_job(vit + ", image_mean: [0, 0, 0]}").model.video_llm.vision.image_std[1], 0.25);
  EXPECT_THAT(message("llm: {weights: " + text(kFamilies / "llama") + ", hidden_size: 32}"),
              HasSubstr("model.llm.hidden_size is 32 in the job, 16 in the file"));
  EXPECT_THAT(message("weights: all.safetensors, llm: {weights: " + text(kFamilies / "llama") + "}"),
              HasSubstr("leave one of them out"));
  EXPECT_THAT(message("llm: {weights: " + text(kFamilies / "vit") + "}"),
              AllOf(HasSubstr("vit"), HasSubstr("known are llama")));
  fs::create_directory(folder_ / "empty");
  EXPECT_THAT(message("vision: {weights: " + text(folder_ / "empty") + "}"),
              AllOf(HasSubstr("no config.json"), HasSubstr("model.vision.config")));
  EXPECT_THAT(message("vision: {weights: " + text(kFamilies / "vit" / "model.safetensors") + "}"),
              HasSubstr("must be a folder"));
  EXPECT_EQ(
      video_job("vision: {config: " + text(kFamilies / "clip" / "config.json") + "}").model.video_llm.vision.width, 16);
}

TEST_F(VisionWeightsFolder, APromptSegmentationStartsFromALanguageModelsFolder) {
  Job job = parse_job(
      "model:\n"
      "  {type: prompt_segmentation, image_size: 32, prompt_length: 6, encoder: {widths: [8, 8, 8, 8], depths: [1, 1, "
      "1, "
      "1], num_heads: [1, 1, 1], windows: [4, 2, 2]}, decoder: {width: 8, depth: 1, num_heads: 1, intermediate_size: "
      "8}, llm: {weights: " +
          text(kFamilies / "llama") +
          "}}\n"
          "data: {type: synthetic, samples: 2, validation_fraction: 0}\nbatch_size: 1\nmax_steps: 1\nthreads: 1\n"
          "optimizer: {name: sgd, momentum: 0, learning_rate: 1e-30, weight_decay: 0}\nmax_grad_norm: 0\n"
          "memory_budget: 1GiB\nmicro_batch_size: 1\n",
      "job.yaml", "");
  EXPECT_EQ(job.model.segmentation.llm.num_kv_heads, 2);
  job.checkpoint.directory = folder_ / "run";
  train(job);
  const auto trained = tensors_in(checkpoints_in(job.checkpoint.directory).rbegin()->second);
  EXPECT_TRUE(
      at::equal(trained.at("llm.embedding"), tensors_in_folder(kFamilies / "llama").at("model.embed_tokens.weight")));
}

}  // namespace
}  // namespace plimsoll
