// Defines the keys of `model.type: prompt_segmentation`.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>

#include "job/keys/key_kinds.h"
#include "job/keys/kinds.h"
#include "job/keys/values.h"
#include "models/config_checks.h"

namespace plimsoll {

inline PromptSegmentationConfig& part(Job& job, PromptSegmentationConfig*) {
  return job.model.segmentation;
}

}  // namespace plimsoll

namespace plimsoll::job {
namespace {

using E = ImageEncoderConfig;

/// Number of the model's revision, which is raised when the tensors or the arithmetic of the model change. Checkpoints
/// store the number alone; the explanation is for messages. A checkpoint without a number is of revision 1.
constexpr const char* kRevision =
    "2 (biases and no norm in the stem of the compact encoder; mask decoder with features at 1/4)";

constexpr IntegerRange kBlocks{1, 1024};
constexpr IntegerRange kWindow{1, 1024};
constexpr IntegerRange kImageSize{model::kFeatureStride, int64_t{1} << 14};

std::string listed(const auto& numbers) {
  return fmt::format("[{}]", fmt::join(numbers, ", "));
}

/// Returns a key for one whole number for each of the encoder's stages of this kind.
template <size_t Count>
Key stages(const std::string& key, std::array<int64_t, Count> E::*member, const IntegerRange& range,
           const std::string& meaning) {
  const std::string type = fmt::format("list of {} numbers, each an {}", Count, range.text());
  return {{key, type, listed(E{}.*member), meaning}, [=](const Value& value, Job& job) {
            if (value.node->kind != Node::Kind::list || value.node->items.size() != Count)
              value.refuse(fmt::format("{}: {}", type, listed(E{}.*member)));
            for (size_t i = 0; i < Count; ++i)
              (job.model.segmentation.encoder.*member)[i] = read_integer(value.with(value.node->items[i]), range);
          }};
}

Key loss_weight(const std::string& name, double SegmentationLossConfig::*member, const std::string& meaning) {
  return {{"model.loss." + name, kWeight.text(), fmt::format("{}", SegmentationLossConfig{}.*member),
           meaning + "; 0: not computed, which saves its activations"},
          [=](const Value& value, Job& job) { job.model.segmentation.loss.*member = read_number(value, kWeight); }};
}

std::vector<Key> segmentation_keys() {
  std::vector<Key> keys = {
      integer("model.image_size", &PromptSegmentationConfig::image_size, kImageSize,
              "height and width of image and mask, a multiple of 16; activations grow with its square"),
      integer("model.channels", &PromptSegmentationConfig::channels, {1, 64},
              "channels of the image; slices: a slice and its neighbors, an odd number; pictures: 1 (gray) or 3"),
      integer("model.prompt_length", &PromptSegmentationConfig::prompt_length, {1, model::kMaxSequence},
              "tokens that the language model reads, the answer's included"),
      integer("model.image_tokens", &PromptSegmentationConfig::image_tokens, {0, int64_t{1} << 20, /*none=*/true},
              "image features that the language model reads before the prompt: the square of a divisor of image_size / "
              "16; its layers then need a backward pass even if they are frozen; 0: none"),
      word_at("model.encoder.type", Place<E>([](Job& job) -> E& { return job.model.segmentation.encoder; }), &E::type,
              {"compact", "tiny_vit"},
              "type of the image encoder; compact: RMSNorm, linear layers without biases; tiny_vit: as published, for "
              "the weights of "
              "TinySAM, MobileSAM or TinyViT; keeps the attention scores of every window"),
      path("model.encoder.weights", &ModelConfig::vision_weights, "(none)",
           "tiny_vit: weights that the encoder starts from: a safetensors file with the published names "
           "(scripts/convert-pth.py makes one from a .pth)"),
      stages("model.encoder.widths", &E::widths, kWidth,
             "widths of the stages at 1/4, 1/8, 1/16 and 1/16 of the image"),
      stages("model.encoder.depths", &E::depths, kBlocks, "blocks of each stage"),
      stages("model.encoder.num_heads", &E::num_heads, kHeads,
             "attention heads of the last three stages; each divides the stage's width"),
      stages("model.encoder.windows", &E::windows, kWindow,
             "height and width of the attention windows of the last three stages; maps are padded to a multiple"),
  };
  const Place<E> encoder = [](Job& job) -> E& { return job.model.segmentation.encoder; };
  keys.push_back(integer_at("model.encoder.expansion", encoder, &E::expansion, {1, 64},
                            "width inside a block, in widths of its stage"));
  const Place<MaskDecoderConfig> decoder = [](Job& job) -> MaskDecoderConfig& {
    return job.model.segmentation.decoder;
  };
  keys.push_back(integer_at("model.decoder.width", decoder, &MaskDecoderConfig::width, kWidth,
                            "width of image features and prompt tokens, a multiple of 8"));
  keys.push_back(integer_at("model.decoder.depth", decoder, &MaskDecoderConfig::depth, kBlocks,
                            "blocks of attention from prompt to image and back"));
  keys.push_back(integer_at("model.decoder.num_heads", decoder, &MaskDecoderConfig::num_heads, kHeads,
                            "attention heads; must divide half of its width"));
  keys.push_back(integer_at("model.decoder.intermediate_size", decoder, &MaskDecoderConfig::intermediate_size,
                            {1, model::kMaxFeedForward}, "width of the prompt tokens' feed-forward"));
  keys.push_back(loss_weight("bce", &SegmentationLossConfig::bce, "weight of the mask's binary cross entropy"));
  keys.push_back(loss_weight("dice", &SegmentationLossConfig::dice, "weight of the mask's loss 1 - Dice"));
  keys.push_back(loss_weight("text", &SegmentationLossConfig::text,
                             "weight of the language model's loss over the answer, in nats per answer"));
  std::ranges::move(language_model_keys([](Job& job) -> DecoderConfig& { return job.model.segmentation.llm; }),
                    std::back_inserter(keys));
  return keys;
}

// Checks products that are later computed in int64_t, in floating point, which cannot overflow.
void check_bytes(const PromptSegmentationConfig& config, int64_t at_a_time, const KeyLocations& locations) {
  const double pixels = static_cast<double>(config.image_size) * static_cast<double>(config.image_size);
  double numbers = pixels * static_cast<double>(16 + config.channels);
  for (size_t i = 0; i < 4; ++i)
    numbers += pixels / 16 * static_cast<double>(config.encoder.widths[i]) *
               static_cast<double>(config.encoder.depths[i]) * static_cast<double>(16 + 4 * config.encoder.expansion);
  numbers += pixels / 16 * static_cast<double>(config.decoder.width) * static_cast<double>(4 + config.decoder.depth);
  const double bytes = 4 * numbers * static_cast<double>(at_a_time);
  if (bytes > kCountable)
    refuse(locations.of({"model.image_size", "micro_batch_size", "batch_size"}),
           fmt::format("{} images of {} x {} pixels at a time need about {:.0e} bytes, more than can be counted; make "
                       "one of them smaller",
                       at_a_time, config.image_size, config.image_size, bytes));
}

void check_segmentation(const Job& job, const KeyLocations& locations) {
  const PromptSegmentationConfig& config = job.model.segmentation;
  if (const auto problem = model::problem_of(config)) refuse(locations.of({problem->key}), problem->message);
  const int64_t at_a_time = job.micro_batch_size.value_or(*job.batch_size);
  check_decoder(config.llm, "model.llm", config.prompt_length + config.image_tokens, at_a_time, locations);
  check_bytes(config, at_a_time, locations);
  if (!job.model.vision_weights.empty() && config.encoder.type != "tiny_vit")
    refuse(locations.of({"model.encoder.weights"}),
           "model.encoder.weights is given, and model.encoder.type is compact, which no published weights are of; set "
           "model.encoder.type: tiny_vit");
  if (job.data.type == "slices" && config.channels % 2 == 0)
    refuse(locations.of({"model.channels"}),
           fmt::format("model.channels is {}; with data.type: slices it must be odd: a slice between as many neighbors "
                       "on either side",
                       config.channels));
  if (job.data.type == "pictures" && config.channels != 1 && config.channels != 3)
    refuse(locations.of({"model.channels"}),
           fmt::format("model.channels is {}; with data.type: pictures it is 1 (gray) or 3 (red, green, blue)",
                       config.channels));
}

}  // namespace

ModelKind prompt_segmentation_kind() {
  return {.type = "prompt_segmentation",
          .meaning = "an image and a prompt to a mask",
          .keys = segmentation_keys(),
          .check = check_segmentation,
          .data_types = {"slices", "pictures"},
          .origin =
              [](const Job& job) {
                const PromptSegmentationConfig& config = job.model.segmentation;
                std::vector<Setting> settings = decoder_origin(config.llm, "model.llm");
                settings.insert(settings.end(), {{"model.revision", kRevision},
                                                 {"model.encoder.type", config.encoder.type, std::string("compact")},
                                                 {"model.image_size", config.image_size},
                                                 {"model.prompt_length", config.prompt_length},
                                                 {"model.image_tokens", config.image_tokens},
                                                 {"model.encoder.num_heads", config.encoder.num_heads},
                                                 {"model.encoder.windows", config.encoder.windows},
                                                 {"model.decoder.num_heads", config.decoder.num_heads},
                                                 {"model.loss.bce", config.loss.bce},
                                                 {"model.loss.dice", config.loss.dice},
                                                 {"model.loss.text", config.loss.text}});
                return settings;
              },
          .reducible_keys =
              {
                  {"model.image_size", "a smaller image",
                   [](const Job& job) { return job.model.segmentation.image_size; }, 16, 2},
                  {"model.prompt_length", "a shorter prompt",
                   [](const Job& job) { return job.model.segmentation.prompt_length; }, 1, 1},
                  {"model.llm.num_layers", "fewer layers of the language model",
                   [](const Job& job) { return job.model.segmentation.llm.num_layers; }},
              },
          .vocabulary = VocabularyKey{"model.llm.vocab_size",
                                      [](Job& job) -> int64_t& { return job.model.segmentation.llm.vocab_size; }},
          .decoder_layers = "llm.layers",
          // The encoder's weights have no configuration file.
          .apply_architecture =
              [](Job& job, const KeyLocations& locations, const std::filesystem::path& directory) {
                apply_language_model_file(job.model, job.model.segmentation.llm, locations, directory, job.notes);
              },
          .vision_weights_key = "model.encoder.weights"};
}

}  // namespace plimsoll::job
