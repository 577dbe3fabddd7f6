#include "weights/vision_families.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/json.h"
#include "models/config_checks.h"
#include "plimsoll/error.h"
#include "weights/config_reader.h"

namespace plimsoll::weights {
namespace {

using Json = nlohmann::json;
constexpr int64_t kMaxPixels = int64_t{1} << 12, kMaxDepth = 1024, kMaxWidthInFile = int64_t{1} << 16;
constexpr int64_t kChannels = 3;

using Colors = std::array<double, 3>;
constexpr Colors kHalf = {0.5, 0.5, 0.5};
// Mean and deviation of the pictures that CLIP was trained on (its image processor's defaults in transformers).
constexpr Colors kClipMean = {0.48145466, 0.4578275, 0.40821073}, kClipStd = {0.26862954, 0.26130258, 0.27577711};

std::string activation_of(const ConfigReader& read, const char* defaults) {
  const std::string word = read.word("hidden_act", {"gelu", "gelu_new", "gelu_pytorch_tanh", "quick_gelu"}, defaults);
  return word == "gelu_new" || word == "gelu_pytorch_tanh" ? "gelu_tanh" : word;
}

/// Returns the settings that the three families share. Defaults are those of transformers' configuration classes.
VisionArchitecture read_encoder(const ConfigReader& read, const std::string& family) {
  const bool clip = family == "clip", siglip = family == "siglip";
  VisionArchitecture found;
  found.family = family;
  VisionConfig& config = found.config;
  found.image_size = read.integer("image_size", 1, kMaxPixels, 224);
  config.patch = read.integer("patch_size", 1, kMaxPixels, clip ? 32 : 16);
  config.width = read.integer("hidden_size", 1, kMaxWidthInFile, 768);
  config.depth = read.integer("num_hidden_layers", 1, kMaxDepth, 12);
  config.num_heads = read.integer("num_attention_heads", 1, model::kMaxHeads, 12);
  config.intermediate_size = read.integer("intermediate_size", 1, model::kMaxFeedForward, 3072);
  config.norm = "layernorm";
  config.norm_eps = read.number("layer_norm_eps", clip ? 1e-5 : siglip ? 1e-6 : 1e-12);
  config.activation = activation_of(read, clip ? "quick_gelu" : siglip ? "gelu_pytorch_tanh" : "gelu");
  config.bias = true;
  config.patch_bias = !clip;
  config.class_token = !siglip;
  config.pre_norm = clip;
  config.final_norm = !clip;
  if (config.patch > found.image_size)
    read.refuse("patch_size", fmt::format("it must not exceed image_size {}", found.image_size));
  if (config.width % config.num_heads != 0)
    read.refuse("num_attention_heads", fmt::format("it must divide hidden_size {}", config.width));
  config.cropped = found.image_size % config.patch != 0;
  config.image_mean = clip ? kClipMean : kHalf;
  config.image_std = clip ? kClipStd : kHalf;
  return found;
}

bool is_same(const VisionArchitecture& one, const VisionArchitecture& other) {
  bool same = one.image_size == other.image_size && one.config.depth == other.config.depth;
  for_each_vision_field([&](const char*, auto place) { same = same && place(one.config) == place(other.config); });
  return same;
}

/// Reads how an image processor changes colors after it scales them to [0, 1].
void read_colors(const ConfigReader& read, VisionConfig& config, std::vector<std::string>& notes) {
  const std::vector<std::string> unknown = check_keys(read, "image_processor");
  if (!unknown.empty()) notes.push_back(unused_keys_note(read.file(), unknown));
  constexpr double kDefaults = 1.0 / 255;
  if (std::abs(read.number("rescale_factor", kDefaults) / kDefaults - 1) > 1e-6)
    read.refuse("rescale_factor", "pixels are divided by 255 here before mean and deviation are taken off");
  if (!read.boolean("do_normalize", true)) {
    config.image_mean = {0, 0, 0};
    config.image_std = {1, 1, 1};
    return;
  }
  const auto three = [&](const char* key, Colors& colors) {
    const std::vector<double> stated = read.numbers(key, 3, {colors.begin(), colors.end()});
    std::ranges::copy(stated, colors.begin());
    if (!std::ranges::all_of(stated, [](double each) { return std::isfinite(each); }))
      read.refuse(key, "it must be a list of 3 numbers");
  };
  three("image_mean", config.image_mean);
  three("image_std", config.image_std);
  if (!std::ranges::all_of(config.image_std, [](double each) { return each > 0; }))
    read.refuse("image_std", "its numbers must be above 0");
}

void read_preprocessor(const std::filesystem::path& folder, VisionConfig& config, std::vector<std::string>& notes) {
  std::error_code error;
  if (const auto file = folder / "preprocessor_config.json"; std::filesystem::exists(file, error)) {
    const Json json = read_python_json_file(file, kMaxConfigBytes);
    return read_colors(ConfigReader(json, file.string()), config, notes);
  }
  // transformers 5 may store it in the settings of the whole processor.
  const auto file = folder / "processor_config.json";
  if (!std::filesystem::exists(file, error)) return;
  const Json json = read_python_json_file(file, kMaxConfigBytes);
  read_colors(ConfigReader(json, file.string()).object("image_processor"), config, notes);
}

struct VisionNames {
  const char *prefix, *class_token, *positions, *patches, *pre_norm, *layers, *norm;
  const char *attention_norm, *q, *k, *v, *out, *mlp_norm, *up, *down;
};

constexpr VisionNames kVit{"vit.",
                           "embeddings.cls_token",
                           "embeddings.position_embeddings",
                           "embeddings.patch_embeddings.projection",
                           nullptr,
                           "encoder.layer",
                           "layernorm",
                           "layernorm_before",
                           "attention.attention.query",
                           "attention.attention.key",
                           "attention.attention.value",
                           "attention.output.dense",
                           "layernorm_after",
                           "intermediate.dense",
                           "output.dense"};

constexpr VisionNames kClip{"vision_model.",
                            "embeddings.class_embedding",
                            "embeddings.position_embedding.weight",
                            "embeddings.patch_embedding",
                            "pre_layrnorm",  // spelled as by CLIP's authors
                            "encoder.layers",
                            "post_layernorm",
                            "layer_norm1",
                            "self_attn.q_proj",
                            "self_attn.k_proj",
                            "self_attn.v_proj",
                            "self_attn.out_proj",
                            "layer_norm2",
                            "mlp.fc1",
                            "mlp.fc2"};

/// Returns the index of the block that a tensor belongs to; nullopt if it is in no block.
std::optional<int64_t> block_of(std::string_view name, const VisionNames& names) {
  const std::string beginning = std::string(names.layers) + ".";
  if (!name.starts_with(beginning)) return std::nullopt;
  name.remove_prefix(beginning.size());
  int64_t number = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc() || end == name.data() + name.size() || *end != '.') return std::nullopt;
  return number;
}

}  // namespace

const std::vector<std::string>& vision_family_names() {
  static const std::vector<std::string> names = {"clip", "clip_vision_model", "siglip", "siglip_vision_model", "vit"};
  return names;
}

VisionArchitecture read_vision_architecture(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::path file = std::filesystem::is_directory(path, error) ? path / "config.json" : path;
  const Json json = read_python_json_file(file, kMaxConfigBytes);
  const ConfigReader read(json, file.string());
  if (!read.has("model_type"))
    read.refuse("model_type", fmt::format("known are {}", fmt::join(vision_family_names(), ", ")));
  const std::string type = read.word("model_type", vision_family_names(), "");
  const bool both = type == "clip" || type == "siglip";
  const std::string family = type.substr(0, type.find('_'));
  const ConfigReader encoder = both ? read.object("vision_config") : read;
  const ConfigReader older = read.object("vision_config_dict");
  std::vector<std::string> unknown = check_keys(read, type);
  if (both) {
    const std::vector<std::string> inner = check_keys(encoder, family + "_vision_model");
    unknown.insert(unknown.end(), inner.begin(), inner.end());
  }
  VisionArchitecture found = read_encoder(encoder, family);
  // transformers lets the older section win, with the family's usual values for keys that it lacks.
  if (both && !older.keys().empty() && !is_same(read_encoder(older, family), found))
    read.refuse("vision_config_dict", "vision_config, another name of it, says something else: remove one of them");
  if (!unknown.empty()) found.notes.push_back(unused_keys_note(file.string(), unknown));
  read_preprocessor(file.parent_path(), found.config, found.notes);
  return found;
}

Layout vision_layout_of(const VisionArchitecture& architecture, int64_t depth_in_file) {
  const VisionConfig& c = architecture.config;
  const bool vit = architecture.family == "vit";
  const VisionNames names = vit ? kVit : kClip;
  const auto named = [&](const std::string& name) { return names.prefix + name; };
  const int64_t side = architecture.image_size / c.patch, tokens = side * side + (c.class_token ? 1 : 0);
  Layout layout;
  layout.optional_prefix = names.prefix;
  std::vector<Parameter>& all = layout.parameters;
  // A convolution whose stride equals its width is a projection of each patch.
  all.push_back({"embed.weight",
                 {{.name = named(names.patches) + std::string(".weight"),
                   .sizes = {c.width, kChannels, c.patch, c.patch},
                   .here = {c.width, kChannels * c.patch * c.patch}}}});
  if (c.patch_bias) all.push_back({"embed.bias", {{named(names.patches) + std::string(".bias"), {c.width}}}});
  if (c.class_token) {
    Piece token{named(names.class_token), {c.width}};
    if (vit) token = {.name = token.name, .sizes = {1, 1, c.width}, .here = {c.width}};
    all.push_back({"class_token", {token}});
  }
  Piece positions{named(names.positions), {tokens, c.width}};
  if (vit) positions = {.name = positions.name, .sizes = {1, tokens, c.width}, .here = {tokens, c.width}};
  all.push_back({"positions", {positions}});
  const auto norm = [&](const std::string& ours, const std::string& stored) {
    for (const char* part : {".weight", ".bias"}) all.push_back({ours + part, {{named(stored) + part, {c.width}}}});
  };
  if (c.pre_norm) norm("pre_norm", names.pre_norm);
  const int64_t inner = c.intermediate_size > 0 ? c.intermediate_size : 4 * c.width;
  for (int64_t i = 0; i < c.depth; ++i) {
    const std::string ours = fmt::format("blocks.{}.", i), stored = fmt::format("{}.{}.", names.layers, i);
    const auto linear = [&](const char* name, const std::vector<const char*>& of_file, int64_t in, int64_t out) {
      Parameter weight{ours + name + ".weight", {}}, bias{ours + name + ".bias", {}};
      for (const char* part : of_file) {
        weight.pieces.push_back({named(stored + part + ".weight"), {out, in}});
        bias.pieces.push_back({named(stored + part + ".bias"), {out}});
      }
      all.push_back(std::move(weight));
      all.push_back(std::move(bias));
    };
    norm(ours + "norm", stored + names.attention_norm);
    linear("qkv", {names.q, names.k, names.v}, c.width, c.width);
    linear("out", {names.out}, c.width, c.width);
    norm(ours + "mlp.norm", stored + names.mlp_norm);
    linear("mlp.up", {names.up}, c.width, inner);
    linear("mlp.down", {names.down}, inner, c.width);
  }
  if (c.final_norm) norm("norm", names.norm);
  layout.is_ignored = [names, c, depth_in_file](std::string_view name) {
    for (const std::string_view part :
         {"text_model.", "text_projection.", "visual_projection.", "logit_scale", "logit_bias", "classifier.",
          "pooler.", "head.", "embeddings.position_ids", "embeddings.mask_token"})
      if (part.ends_with('.') ? name.starts_with(part) : name == part) return true;
    if (!c.final_norm && name.starts_with(std::string(names.norm) + ".")) return true;
    const auto block = block_of(name, names);
    return block && *block >= c.depth && *block < depth_in_file;
  };
  return layout;
}

}  // namespace plimsoll::weights
