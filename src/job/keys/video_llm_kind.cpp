// Defines the keys of `model.type: video_llm`.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "job/keys/key_kinds.h"
#include "job/keys/kinds.h"
#include "job/keys/values.h"
#include "models/config_checks.h"
#include "weights/vision_families.h"

namespace plimsoll {

inline VideoLlmConfig& part(Job& job, VideoLlmConfig*) {
  return job.model.video_llm;
}

}  // namespace plimsoll

namespace plimsoll::job {
namespace {

constexpr IntegerRange kCells{1, int64_t{1} << 16};
constexpr IntegerRange kFrames{1, kMaxClipFrames};

DecoderConfig& llm_of(Job& job) {
  return job.model.video_llm.llm;
}

/// Returns a key for three numbers, one for each color.
Key colors(const std::string& key, std::array<double, 3> VisionConfig::*member, NumberRange range,
           const std::string& meaning) {
  const std::string type = fmt::format("list of 3 numbers, each a {}", range.text());
  return {{key, type, fmt::format("[{}]", fmt::join(VisionConfig{}.*member, ", ")), meaning},
          [=](const Value& value, Job& job) {
            if (value.node->kind != Node::Kind::list || value.node->items.size() != 3)
              value.refuse(fmt::format("{}: [0.5, 0.5, 0.5]", type));
            for (size_t i = 0; i < 3; ++i)
              (job.model.video_llm.vision.*member)[i] = read_number(value.with(value.node->items[i]), range);
          }};
}

std::vector<Key> video_llm_keys() {
  using M = VideoLlmConfig;
  using V = VisionConfig;
  const Place<V> vision = [](Job& job) -> V& { return job.model.video_llm.vision; };
  std::vector<Key> keys = {
      integer("model.image_size", &M::image_size, kPixels, "height and width that frames are scaled to"),
      integer("model.tokens_per_frame", &M::tokens_per_frame, kCells,
              "tokens of a frame that the language model reads: the patches are averaged over a square grid of this "
              "number of cells"),
      integer_at("model.vision.patch", vision, &V::patch, kPixels,
                 "height and width of a patch, which is a token of the encoder; must divide model.image_size"),
      integer_at("model.vision.width", vision, &V::width, kWidth, "width of the frames' encoder"),
      integer_at("model.vision.depth", vision, &V::depth, kDepth,
                 "transformer blocks of the frames' encoder; if they are trained, activations of every frame are kept"),
      integer_at("model.vision.num_heads", vision, &V::num_heads, {1, model::kMaxHeads},
                 "attention heads of the frames' encoder; must divide its width"),
      integer_at("model.vision.intermediate_size", vision, &V::intermediate_size, {0, model::kMaxFeedForward},
                 "width of the encoder's feed-forward; 0: 4 x model.vision.width"),
      word_at("model.vision.norm", vision, &V::norm, {"rmsnorm", "layernorm"}, "type of the norms in the encoder"),
      number_at("model.vision.norm_eps", vision, &V::norm_eps, {.min = 0, .min_open = true, .max = 1, .max_open = true},
                "value added to the variance in norms of the encoder"),
      word_at("model.vision.activation", vision, &V::activation, {"gelu", "gelu_tanh", "quick_gelu"},
              "activation of the encoder's feed-forward; quick_gelu: x sigmoid(1.702 x), as in CLIP, which keeps one "
              "more tensor"),
      boolean_at("model.vision.bias", vision, &V::bias, "biases on the encoder's projections"),
      boolean_at("model.vision.patch_bias", vision, &V::patch_bias, "a bias on the projection of patches"),
      boolean_at("model.vision.class_token", vision, &V::class_token,
                 "an additional token that is left out of the averages (ViT, CLIP)"),
      boolean_at("model.vision.pre_norm", vision, &V::pre_norm, "a norm before the first block (CLIP)"),
      boolean_at("model.vision.final_norm", vision, &V::final_norm,
                 "a norm after the last block; default with model.vision.weights: that of the model family, and false "
                 "if model.vision.depth is smaller than the number of blocks in the file"),
      colors("model.vision.image_mean", &V::image_mean, {.min = 0, .max = 1},
             "mean of red, green and blue in [0, 1], which is subtracted; default with model.vision.weights: that of "
             "preprocessor_config.json"),
      colors("model.vision.image_std", &V::image_std, {.min = 0, .min_open = true},
             "deviation of red, green and blue, by which colors are divided; default with model.vision.weights: that "
             "of preprocessor_config.json"),
      path("model.vision.weights", &ModelConfig::vision_weights, "(none)",
           "weights that the frames' encoder starts from: a folder with config.json and safetensors of a ViT, CLIP or "
           "SigLIP, which sets its other keys and model.image_size"),
      path("model.vision.config", &ModelConfig::vision_config, "(none)",
           "config.json of the frames' encoder, or its folder, which sets the other keys of the encoder; none: the one "
           "next to model.vision.weights, if any"),
  };
  for (Key& key : language_model_keys(llm_of)) keys.push_back(std::move(key));
  const std::vector<std::string> types = {"auto", "float32", "bfloat16", "float16"};
  keys.push_back({{"model.llm.dtype", joined(types, " | "), "auto",
                   "dtype of the language model's weights, as in model.dtype; auto: that of the other weights"},
                  [=](const Value& value, Job& job) {
                    const std::string word = read_word(value, types);
                    job.model.video_llm.llm_dtype.reset();
                    for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16})
                      if (name_of(dtype) == word) job.model.video_llm.llm_dtype = dtype;
                  }});
  keys.push_back(
      boolean("model.llm.use_gradient_checkpointing", &M::llm_checkpointing,
              "gradient_checkpointing for the language model's layers only; false: as gradient_checkpointing"));
  keys.push_back({{"data.max_frames", "none | " + kFrames.text(), "100",
                   "frames of a clip, evenly spaced; none: 30 per second. Activations grow with them"},
                  [=](const Value& value, Job& job) {
                    job.data.clips.max_frames =
                        value.is("none") ? std::nullopt : std::optional<int64_t>(read_integer(value, kFrames, "none"));
                  }});
  keys.push_back(integer("data.sequence_length", &DataConfig::sequence_length, {1, model::kMaxSequence},
                         "tokens of prompt and caption after the video"));
  return keys;
}

// Checks the dtype of a part of the model by the rules of model.dtype.
void check_llm_dtype(const Job& job, const KeyLocations& locations) {
  if (!job.model.video_llm.llm_dtype) return;
  const DType dtype = *job.model.video_llm.llm_dtype;
  const auto no = [&](const std::string& why) {
    refuse(locations.of({"model.llm.dtype"}), fmt::format("model.llm.dtype is {}{}", name_of(dtype), why));
  };
  if (job.dtype && *job.dtype != dtype)
    no(fmt::format(", and model.dtype, of the whole model, {}; leave one of them out", name_of(*job.dtype)));
  if (job.precision == Precision::automatic)
    no(fmt::format(", and precision is auto, which chooses the weights' type too; set precision: {}",
                   dtype == DType::float32 ? "32-true" : "bf16-true"));
  if (dtype == DType::float16 && job.precision != Precision::fp16_mixed)
    no(", whose small gradients need loss scaling; set precision: 16-mixed, or model.llm.dtype: bfloat16");
  if (job.precision == Precision::bf16_true && dtype != DType::bfloat16)
    no("; with precision bf16-true weights are bfloat16: set model.llm.dtype: auto, or precision: bf16-mixed");
}

void check_video_llm(const Job& job, const KeyLocations& locations) {
  const VideoLlmConfig& config = job.model.video_llm;
  if (const auto problem = model::problem_of(config)) refuse(locations.of({problem->key}), problem->message);
  const int64_t at_a_time = job.micro_batch_size.value_or(*job.batch_size);
  const double frames = static_cast<double>(frames_of_clip(job.data.clips));
  const double side = static_cast<double>(config.image_size) / static_cast<double>(config.vision.patch);
  const double sequence =
      frames * static_cast<double>(config.tokens_per_frame) + static_cast<double>(job.data.sequence_length);
  if (sequence > static_cast<double>(model::kMaxSequence))
    refuse(locations.of({"data.max_frames", "model.tokens_per_frame", "data.sequence_length"}),
           fmt::format("data.max_frames {} x model.tokens_per_frame {} and data.sequence_length {} are {:.0f} tokens; "
                       "the language model reads at most {}",
                       frames_of_clip(job.data.clips), config.tokens_per_frame, job.data.sequence_length, sequence,
                       model::kMaxSequence));
  check_decoder(config.llm, "model.llm", static_cast<int64_t>(sequence), at_a_time, locations);
  constexpr double countable = 4.6e18;  // 2^62
  const double bytes = 4 * static_cast<double>(at_a_time) * frames * side * side * 64 *
                       static_cast<double>(config.vision.width) * static_cast<double>(config.vision.depth + 1);
  if (bytes > countable)
    refuse(
        locations.of({"data.max_frames", "model.image_size", "micro_batch_size", "batch_size"}),
        fmt::format("{} clips at a time of {:.0f} frames need about {:.0e} bytes, more than can be counted; make one "
                    "of them smaller",
                    at_a_time, frames, bytes));
  check_llm_dtype(job, locations);
  if (config.llm_checkpointing && job.gradient_checkpointing == Choice::off)
    refuse(locations.of({"model.llm.use_gradient_checkpointing", "gradient_checkpointing"}),
           "model.llm.use_gradient_checkpointing is true, and gradient_checkpointing false; leave one of them out");
}

void apply_vision_file(const std::filesystem::path& file, const KeyLocations& locations, VideoLlmConfig& config,
                       std::vector<std::string>& notes) {
  weights::VisionArchitecture found = weights::read_vision_architecture(file);
  notes.insert(notes.end(), found.notes.begin(), found.notes.end());
  const VisionConfig stated = config.vision;
  must_agree(
      file, "model.vision", locations, [](auto&& visit) { weights::for_each_vision_field(visit); }, stated,
      found.config);
  if (locations.given("model.image_size") && config.image_size != found.image_size)
    refuse(locations.of({"model.image_size"}),
           fmt::format("model.image_size is {}; the positions of {} are learned for {}: leave it out",
                       config.image_size, file.string(), found.image_size));
  // Fewer blocks than the weights have: features of an earlier layer, before the last norm.
  if (locations.given("model.vision.depth")) {
    if (stated.depth > found.config.depth)
      refuse(locations.of({"model.vision.depth"}),
             fmt::format("model.vision.depth is {}; allowed: 1 to {}, the number of blocks in {}", stated.depth,
                         found.config.depth, file.string()));
    if (stated.depth < found.config.depth) found.config.final_norm = false;
    found.config.depth = stated.depth;
  }
  if (locations.given("model.vision.final_norm")) found.config.final_norm = stated.final_norm;
  if (locations.given("model.vision.image_mean")) found.config.image_mean = stated.image_mean;
  if (locations.given("model.vision.image_std")) found.config.image_std = stated.image_std;
  config.vision = found.config;
  config.image_size = found.image_size;
}

void apply_files(Job& job, const KeyLocations& locations, const std::filesystem::path& directory) {
  ModelConfig& model = job.model;
  apply_language_model_file(model, model.video_llm.llm, locations, directory, job.notes);
  const auto file = architecture_file(model.vision_weights, model.vision_config, "model.vision", locations, directory);
  if (!file.empty()) {
    apply_vision_file(file, locations, model.video_llm, job.notes);
  } else if (!model.vision_weights.empty()) {
    refuse(locations.of({"model.vision.weights"}),
           fmt::format("model.vision.weights is {}; it must be a folder with a config.json and safetensors, or "
                       "model.vision.config must name the config.json of the file",
                       (directory / model.vision_weights).string()));
  }
}

}  // namespace

ModelKind video_llm_kind() {
  return {
      .type = "video_llm",
      .meaning = "video frames into a language model",
      .keys = video_llm_keys(),
      .check = check_video_llm,
      .data_types = {"clips"},
      .origin =
          [](const Job& job) {
            const VideoLlmConfig& model = job.model.video_llm;
            const VisionConfig &vision = model.vision, defaults;
            std::vector<Setting> settings = decoder_origin(model.llm, "model.llm");
            settings.insert(settings.end(), {{"model.image_size", model.image_size},
                                             {"model.tokens_per_frame", model.tokens_per_frame},
                                             {"model.vision.patch", vision.patch},
                                             {"model.vision.num_heads", vision.num_heads},
                                             {"data.max_frames", frames_of_clip(job.data.clips)},
                                             {"data.sequence_length", job.data.sequence_length},
                                             {"model.vision.norm", vision.norm, defaults.norm},
                                             {"model.vision.norm_eps", vision.norm_eps, defaults.norm_eps},
                                             {"model.vision.activation", vision.activation, defaults.activation},
                                             {"model.vision.image_mean", vision.image_mean, defaults.image_mean},
                                             {"model.vision.image_std", vision.image_std, defaults.image_std}});
            return settings;
          },
      .reducible_keys =
          {
              {"data.max_frames", "fewer frames", [](const Job& job) { return frames_of_clip(job.data.clips); }, 1, 1},
              {"model.image_size", "smaller frames", [](const Job& job) { return job.model.video_llm.image_size; }, 16,
               2},
              {"data.sequence_length", "a shorter text", [](const Job& job) { return job.data.sequence_length; }, 8, 1},
              {"model.llm.num_layers", "fewer layers of the language model",
               [](const Job& job) { return job.model.video_llm.llm.num_layers; }},
          },
      .vocabulary = VocabularyKey{"model.llm.vocab_size",
                                  [](Job& job) -> int64_t& { return job.model.video_llm.llm.vocab_size; }},
      .decoder_layers = "llm.layers",
      .apply_architecture = apply_files,
      .part_dtype = PartDtype{"model.llm.dtype", "the language model's weights",
                              [](const Job& job) { return job.model.video_llm.llm_dtype; }},
      .checkpointed_module = CheckpointedModule{"model.llm.use_gradient_checkpointing", "llm",
                                                [](const Job& job) { return job.model.video_llm.llm_checkpointing; }}};
}

}  // namespace plimsoll::job
