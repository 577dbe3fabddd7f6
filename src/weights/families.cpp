#include "weights/families.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>
#include <optional>

#include "base/json.h"
#include "base/text.h"
#include "models/config_checks.h"
#include "plimsoll/error.h"
#include "weights/config_reader.h"

namespace plimsoll::weights {
namespace {

using Json = nlohmann::json;

// The defaults below are those of transformers' configuration classes, for keys that a config.json omits.
constexpr int64_t kDefaultWindow = 4096;
constexpr int64_t kLlamaPositions = 2048, kMistralPositions = 131072, kGemmaPositions = 8192, kQwenPositions = 32768;

/// Returns the settings that Llama and its descendants share. `kv_heads` is the default if the file omits the key. If
/// the file has null, or `kv_heads` is 0, there are as many key heads as heads.
DecoderConfig read_llama_like(const ConfigReader& read, bool tied, int64_t kv_heads) {
  DecoderConfig config;
  config.vocab_size = read.integer("vocab_size", 1, model::kMaxVocabulary);
  config.hidden_size = read.integer("hidden_size", 1, model::kMaxWidth);
  config.num_layers = read.integer("num_hidden_layers", 1, model::kMaxLayers);
  config.num_heads = read.integer("num_attention_heads", 1, model::kMaxHeads);
  if (read.is_null("num_key_value_heads") || kv_heads == 0) kv_heads = config.num_heads;
  config.num_kv_heads = read.integer("num_key_value_heads", 1, model::kMaxHeads, kv_heads);
  config.intermediate_size = read.integer("intermediate_size", 1, model::kMaxFeedForward);
  config.head_dim = read.integer("head_dim", 1, model::kMaxWidth, 0);
  config.norm = "rmsnorm";
  config.norm_eps = read.number("rms_norm_eps", 1e-6);
  config.positions = "rope";
  config.tie_embeddings = read.boolean("tie_word_embeddings", tied);
  return config;
}

void read_silu(const ConfigReader& read, DecoderConfig& config) {
  read.word("hidden_act", {"silu", "swish"}, "silu");
  config.activation = "swiglu";
}

/// Throws UserError if both names of one setting are there and differ.
void must_agree(const ConfigReader& read, const char* name, const char* other) {
  if (read.has(name) && read.has(other) && !read.has_same(name, read, other))
    read.refuse(name, fmt::format("and {}, another name of it, is {}: remove one of them", other, read.text_of(other)));
}

/// Returns the kind of each layer, or nothing if the file does not list them.
std::vector<std::string> read_layer_types(const ConfigReader& read, const DecoderConfig& config) {
  std::vector<std::string> listed = read.words("layer_types", static_cast<size_t>(model::kMaxLayers));
  if (!listed.empty() && static_cast<int64_t>(listed.size()) != config.num_layers)
    read.refuse("layer_types", fmt::format("it must name the {} layers", config.num_layers));
  for (const std::string& each : listed)
    if (each != "sliding_attention" && each != "full_attention")
      read.refuse("layer_types", "known are sliding_attention and full_attention");
  return listed;
}

/// Throws UserError if the file lists layers of another kind than `kind`, which all layers of the family have.
void require_layer_types(const ConfigReader& read, const DecoderConfig& config, const std::string& kind) {
  for (const std::string& each : read_layer_types(read, config))
    if (each != kind) read.refuse("layer_types", fmt::format("all layers of this family are {} here", kind));
}

/// Reads the layers with a window, from the file's list or from `usual`. Our windows repeat: the first of every n
/// layers.
template <typename DefaultWindow>
void read_windows(const ConfigReader& read, DecoderConfig& config, DefaultWindow default_window) {
  const std::vector<std::string> listed = read_layer_types(read, config);
  std::vector<bool> sliding;
  for (int64_t i = 0; i < config.num_layers; ++i)
    sliding.push_back(listed.empty() ? default_window(i) : listed[i] == "sliding_attention");
  if (std::ranges::none_of(sliding, [](bool each) { return each; })) return;
  for (int64_t every = 1; every <= config.num_layers; ++every) {
    bool fits = true;
    for (int64_t i = 0; i < config.num_layers && fits; ++i) fits = sliding[i] == (i % every == 0);
    if (!fits) continue;
    config.sliding_window = read.integer("sliding_window", 1, model::kMaxSequence, kDefaultWindow);
    config.sliding_window_every = every;
    return;
  }
  // Our windows have no other order. Without a list the layers follow from max_window_layers.
  const char* key = listed.empty() && read.has("max_window_layers") ? "max_window_layers" : "layer_types";
  read.refuse(key, "the layers with a sliding window do not come at even distances from the first");
}

DecoderConfig read_llama(const ConfigReader& read) {
  DecoderConfig config = read_llama_like(read, false, 0);
  read_silu(read, config);
  read_rope(read, kLlamaPositions, config);
  require_layer_types(read, config, "full_attention");
  config.attention_bias = read.boolean("attention_bias", false);
  config.mlp_bias = read.boolean("mlp_bias", false);
  return config;
}

DecoderConfig read_mistral(const ConfigReader& read) {
  DecoderConfig config = read_llama_like(read, false, 8);
  read_silu(read, config);
  read_rope(read, kMistralPositions, config);
  config.sliding_window =
      read.integer("sliding_window", 1, model::kMaxSequence, read.is_null("sliding_window") ? 0 : kDefaultWindow);
  require_layer_types(read, config, config.sliding_window > 0 ? "sliding_attention" : "full_attention");
  return config;
}

DecoderConfig read_gemma2(const ConfigReader& read) {
  DecoderConfig config = read_llama_like(read, true, 4);
  read_rope(read, kGemmaPositions, config);
  const char* activation = read.has("hidden_activation") ? "hidden_activation" : "hidden_act";
  read.word(activation, {"gelu_pytorch_tanh"}, "gelu_pytorch_tanh");
  must_agree(read, "sliding_window", "sliding_window_size");
  must_agree(read, "hidden_activation", "hidden_act");
  config.activation = "geglu";
  if (config.head_dim == 0) config.head_dim = 256;
  config.attention_bias = read.boolean("attention_bias", false);
  config.post_norms = config.embedding_scale = true;
  config.query_scale = read.number("query_pre_attn_scalar", 256);
  const auto cap = [&](const char* key, double default_window) {
    return read.is_null(key) ? 0 : read.number(key, default_window);
  };
  config.attention_softcap = cap("attn_logit_softcapping", 50);
  config.logit_softcap = cap("final_logit_softcapping", 30);
  read_windows(read, config, [&](int64_t layer) { return !read.is_null("sliding_window") && layer % 2 == 0; });
  return config;
}

DecoderConfig read_qwen2(const ConfigReader& read) {
  DecoderConfig config = read_llama_like(read, false, 32);
  read_silu(read, config);
  read_rope(read, kQwenPositions, config);
  config.qkv_bias = true;
  const bool windows = read.boolean("use_sliding_window", false) && !read.is_null("sliding_window");
  if (!windows) require_layer_types(read, config, "full_attention");
  const int64_t first = read.integer("max_window_layers", 0, std::numeric_limits<int32_t>::max(), 28);
  read_windows(read, config, [&](int64_t layer) { return windows && layer >= first; });
  return config;
}

DecoderConfig read_qwen3(const ConfigReader& read) {
  DecoderConfig config = read_qwen2(read);
  if (config.head_dim == 0) config.head_dim = 128;
  config.attention_bias = read.boolean("attention_bias", false);
  config.qkv_bias = false;
  config.qk_norm = true;
  return config;
}

DecoderConfig read_gpt2(const ConfigReader& read) {
  DecoderConfig config;
  config.vocab_size = read.integer("vocab_size", 1, model::kMaxVocabulary, 50257);
  const auto size = [&](const char* name, const char* other, int64_t max, int64_t default_window) {
    must_agree(read, name, other);
    return read.integer(read.has(name) ? name : other, 1, max, default_window);
  };
  config.hidden_size = size("n_embd", "hidden_size", model::kMaxWidth, 768);
  config.num_layers = size("n_layer", "num_hidden_layers", model::kMaxLayers, 12);
  config.num_heads = size("n_head", "num_attention_heads", model::kMaxHeads, 12);
  config.max_positions = size("n_positions", "max_position_embeddings", model::kMaxSequence, 1024);
  config.intermediate_size = read.integer("n_inner", 1, model::kMaxFeedForward, 4 * config.hidden_size);
  config.norm = "layernorm";
  config.norm_eps = read.number("layer_norm_epsilon", 1e-5);
  config.positions = "learned";
  const std::string gelu = read.word("activation_function", {"gelu_new", "gelu_pytorch_tanh", "gelu"}, "gelu_new");
  config.activation = gelu == "gelu" ? "gelu" : "gelu_tanh";
  config.tie_embeddings = read.boolean("tie_word_embeddings", true);
  config.attention_bias = config.mlp_bias = true;
  return config;
}

Json write_llama_like(const DecoderConfig& config) {
  Json json = {{"vocab_size", config.vocab_size},
               {"hidden_size", config.hidden_size},
               {"num_hidden_layers", config.num_layers},
               {"num_attention_heads", config.num_heads},
               {"num_key_value_heads", config.num_kv_heads},
               {"intermediate_size", config.intermediate_size},
               {"head_dim", config.head_dim},
               {"rms_norm_eps", config.norm_eps},
               {"tie_word_embeddings", config.tie_embeddings},
               {"hidden_act", "silu"},
               {"rope_theta", config.rope_theta},
               {"rope_scaling", nullptr}};
  if (const RopeScaling& scaling = config.rope_scaling; scaling.factor != 1)
    json["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", scaling.factor},
                            {"low_freq_factor", scaling.low_frequency_factor},
                            {"high_freq_factor", scaling.high_frequency_factor},
                            {"original_max_position_embeddings", scaling.original_length}};
  return json;
}

Json write_llama(const DecoderConfig& config) {
  Json json = write_llama_like(config);
  json["attention_bias"] = config.attention_bias;
  json["mlp_bias"] = config.mlp_bias;
  return json;
}

Json window_of(const DecoderConfig& config) {
  return config.sliding_window > 0 ? Json(config.sliding_window) : Json();
}

Json write_mistral(const DecoderConfig& config) {
  Json json = write_llama_like(config);
  json["sliding_window"] = window_of(config);
  return json;
}

Json layer_types_of(const DecoderConfig& config) {
  Json types = Json::array();
  for (int64_t i = 0; i < config.num_layers; ++i)
    types.push_back(config.sliding_window > 0 && i % config.sliding_window_every == 0 ? "sliding_attention"
                                                                                      : "full_attention");
  return types;
}

Json write_gemma2(const DecoderConfig& config) {
  Json json = write_llama_like(config);
  const auto cap = [](double value) { return value > 0 ? Json(value) : Json(); };
  json["hidden_act"] = json["hidden_activation"] = "gelu_pytorch_tanh";
  json["attention_bias"] = config.attention_bias;
  json["query_pre_attn_scalar"] = config.query_scale;
  json["attn_logit_softcapping"] = cap(config.attention_softcap);
  json["final_logit_softcapping"] = cap(config.logit_softcap);
  json["sliding_window"] = window_of(config);
  json["layer_types"] = layer_types_of(config);
  return json;
}

Json write_qwen2(const DecoderConfig& config) {
  Json json = write_llama_like(config);
  json["use_sliding_window"] = config.sliding_window > 0;
  json["sliding_window"] = window_of(config);
  json["max_window_layers"] = config.sliding_window > 0 ? 0 : config.num_layers;
  json["layer_types"] = layer_types_of(config);
  return json;
}

Json write_qwen3(const DecoderConfig& config) {
  Json json = write_qwen2(config);
  json["attention_bias"] = config.attention_bias;
  return json;
}

Json write_gpt2(const DecoderConfig& config) {
  return {{"vocab_size", config.vocab_size},
          {"n_embd", config.hidden_size},
          {"n_layer", config.num_layers},
          {"n_head", config.num_heads},
          {"n_positions", config.max_positions},
          {"n_inner", config.intermediate_size},
          {"layer_norm_epsilon", config.norm_eps},
          {"activation_function", config.activation == "gelu" ? "gelu" : "gelu_new"},
          {"tie_word_embeddings", config.tie_embeddings}};
}

struct Family {
  std::string name;          // model_type
  std::string architecture;  // transformers' class
  DecoderConfig (*read)(const ConfigReader&);
  Json (*write)(const DecoderConfig&);  // writes the settings that the family has; others are lost
};

// If several families have the settings, the first is written.
const std::vector<Family>& families() {
  static const std::vector<Family> all = {{"llama", "LlamaForCausalLM", read_llama, write_llama},
                                          {"mistral", "MistralForCausalLM", read_mistral, write_mistral},
                                          {"qwen2", "Qwen2ForCausalLM", read_qwen2, write_qwen2},
                                          {"qwen3", "Qwen3ForCausalLM", read_qwen3, write_qwen3},
                                          {"gemma2", "Gemma2ForCausalLM", read_gemma2, write_gemma2},
                                          {"gpt2", "GPT2LMHeadModel", read_gpt2, write_gpt2}};
  return all;
}

const Family* find_family(const std::string& name) {
  const auto found = std::ranges::find(families(), name, &Family::name);
  return found == families().end() ? nullptr : &*found;
}

/// Throws UserError unless heads and widths divide as later code requires.
void check_sizes(const ConfigReader& read, const DecoderConfig& config) {
  if (config.head_dim == 0 && config.hidden_size % config.num_heads != 0)
    read.refuse_whole(fmt::format("its {} heads do not divide its width {}", config.num_heads, config.hidden_size));
  if (config.num_kv_heads > 0 && config.num_heads % config.num_kv_heads != 0)
    read.refuse_whole(
        fmt::format("its {} key heads do not divide its {} heads", config.num_kv_heads, config.num_heads));
}

/// Returns the first name in `architectures` if no name is of the family of `own`, such as "LlamaForCausalLM"; else "".
std::string other_architecture(const Json& json, std::string_view own) {
  const std::string_view family = own.substr(0, std::min(own.find("For"), own.find("LMHead")));
  const auto found = json.find("architectures");
  if (found == json.end() || !found->is_array()) return "";
  std::string first;
  for (const Json& each : *found) {
    if (!each.is_string()) continue;
    const auto name = each.get<std::string>();
    if (name.starts_with(family)) return "";
    if (first.empty()) first = name;
  }
  return first;
}

}  // namespace

const std::vector<std::string>& family_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Family& family : families()) all.push_back(family.name);
    return all;
  }();
  return names;
}

Architecture architecture_of(const Json& json, const std::string& name) {
  const ConfigReader read(json, name);
  if (!read.has("model_type")) read.refuse("model_type", fmt::format("known are {}", fmt::join(family_names(), ", ")));
  if (json["model_type"] == "mamba2") read.refuse("model_type", "such a model is read with model.type: mamba");
  const Family* family = find_family(read.word("model_type", family_names(), ""));
  const std::vector<std::string> unknown = check_keys(read, family->name);
  const DecoderConfig config = family->read(read);
  check_sizes(read, config);
  Architecture found{family->name, canonical(config), {}};
  if (!unknown.empty()) found.notes.push_back(unused_keys_note(name, unknown));
  if (const std::string other = other_architecture(json, family->architecture); !other.empty())
    found.notes.push_back(
        fmt::format("{}: architectures is {}, and model_type is {}; the model_type counts, as in "
                    "transformers",
                    name, in_quotes(other), in_quotes(family->name)));
  return found;
}

Architecture read_architecture(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::path file = std::filesystem::is_directory(path, error) ? path / "config.json" : path;
  return architecture_of(read_python_json_file(file, kMaxConfigBytes), file.string());
}

Architecture family_of(const DecoderConfig& settings) {
  // A family has the settings if they can be read back from the config.json that it writes.
  const DecoderConfig config = canonical(settings);
  std::vector<std::string> best;
  for (const Family& family : families()) {
    std::vector<std::string> other;
    try {
      const DecoderConfig back = canonical(family.read(ConfigReader(family.write(config), family.name)));
      other = differences(back, config);
    } catch (const UserError& error) {
      other.emplace_back(error.what());
    }
    if (other.empty()) return {family.name, config};
    if (best.empty() || other.size() < best.size()) {
      best = std::move(other);
      best.front() = family.name + " has " + best.front();
    }
  }
  throw UserError(fmt::format("transformers has no family of models with these settings: the nearest, {}; known are {}",
                              fmt::join(best, "; "), fmt::join(family_names(), ", ")));
}

Json config_json_of(const Architecture& architecture, const std::string& dtype, int64_t positions) {
  const Family* family = find_family(architecture.family);
  check(family != nullptr, "no family " + architecture.family);
  Json json = family->write(architecture.config);
  json["model_type"] = family->name;
  json["architectures"] = Json::array({family->architecture});
  json["torch_dtype"] = dtype;
  json["use_cache"] = true;
  // transformers requires these keys. Without them it would use ids that the vocabulary may not have.
  json["bos_token_id"] = json["eos_token_id"] = nullptr;
  if (architecture.config.positions == "rope") json["max_position_embeddings"] = positions;
  return json;
}

DecoderConfig canonical(DecoderConfig config) {
  const DecoderConfig defaults;
  const bool gated = config.activation == "swiglu" || config.activation == "geglu";
  if (config.num_kv_heads == 0) config.num_kv_heads = config.num_heads;
  if (config.head_dim == 0) config.head_dim = config.hidden_size / config.num_heads;
  if (config.intermediate_size == 0)
    config.intermediate_size = gated ? (8 * config.hidden_size / 3 + 63) / 64 * 64 : 4 * config.hidden_size;
  if (config.query_scale == 0) config.query_scale = static_cast<double>(config.head_dim);
  if (config.attention_bias) config.qkv_bias = false;
  if (config.positions == "rope") config.max_positions = defaults.max_positions;
  if (config.positions == "learned") {
    config.rope_theta = defaults.rope_theta;
    config.rope_scaling = defaults.rope_scaling;
  }
  if (config.rope_scaling.factor == 1) config.rope_scaling = defaults.rope_scaling;
  if (config.sliding_window == 0 || config.sliding_window_every > config.num_layers)
    config.sliding_window_every = config.sliding_window == 0 ? 1 : config.num_layers;
  config.dropout = defaults.dropout;
  return config;
}

std::vector<std::string> differences(const DecoderConfig& of, const DecoderConfig& than) {
  std::vector<std::string> found;
  for_each_field([&](const char* name, auto place) {
    if (place(of) != place(than)) found.push_back(fmt::format("{}: {}, not {}", name, place(of), place(than)));
  });
  return found;
}

}  // namespace plimsoll::weights
