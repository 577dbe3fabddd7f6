#include "weights/mamba_family.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "models/config_checks.h"
#include "weights/config_reader.h"

namespace plimsoll::weights {
namespace {

using Json = nlohmann::json;
constexpr int64_t kMaxState = 4096, kMaxExpand = 16;  // the bounds of the job file

}  // namespace

MambaConfig mamba_config_of(const Json& json, const std::string& name, std::vector<std::string>* notes) {
  const ConfigReader read(json, name);
  const char* known = "with model.type: mamba known is mamba2; other families are read with model.type: decoder";
  if (!read.has("model_type") || json["model_type"] != "mamba2") read.refuse("model_type", known);
  const std::vector<std::string> unknown = check_keys(read, "mamba2");
  if (notes && !unknown.empty()) notes->push_back(unused_keys_note(name, unknown));
  // The defaults are those of transformers' Mamba2Config.
  MambaConfig config;
  config.vocab_size = read.integer("vocab_size", 1, model::kMaxVocabulary, 32768);
  config.hidden_size = read.integer("hidden_size", 1, model::kMaxWidth, 4096);
  config.num_layers = read.integer("num_hidden_layers", 1, model::kMaxLayers, 64);
  config.state_size = read.integer("state_size", 1, kMaxState, 128);
  config.expand = read.integer("expand", 1, kMaxExpand, 2);
  config.head_dim = read.integer("head_dim", 1, model::kMaxWidth, 64);
  config.num_groups = read.integer("n_groups", 1, model::kMaxHeads, 8);
  config.conv_width = read.integer("conv_kernel", 1, model::kMaxConvTaps, 4);
  config.conv_bias = read.boolean("use_conv_bias", true);
  config.projection_bias = read.boolean("use_bias", false);
  config.chunk_size = read.integer("chunk_size", 1, model::kMaxSequence, 256);
  config.tie_embeddings = read.boolean("tie_word_embeddings", false);
  config.norm_eps = read.number("layer_norm_epsilon", 1e-5);
  const std::vector<double> limit = read.numbers("time_step_limit", 2, {config.min_step, config.max_step});
  config.min_step = limit[0];
  config.max_step = limit[1];
  read.word("hidden_act", {"silu", "swish"}, "silu");
  const int64_t heads = read.integer("num_heads", 1, model::kMaxWidth, 128);
  if (heads * config.head_dim != model::scan_width_of(config))
    read.refuse("num_heads",
                fmt::format("num_heads x head_dim must be expand x hidden_size, {}", model::scan_width_of(config)));
  const int64_t width = model::scan_width_of(config);
  if (read.integer("intermediate_size", 1, std::numeric_limits<int64_t>::max(), width) != width)
    read.refuse("intermediate_size", fmt::format("it must be expand x hidden_size, {}", width));
  if (const auto problem = model::problem_of(config)) read.refuse_whole(problem->message);
  return config;
}

MambaConfig read_mamba_config(const std::filesystem::path& path, std::vector<std::string>* notes) {
  std::error_code error;
  const std::filesystem::path file = std::filesystem::is_directory(path, error) ? path / "config.json" : path;
  return mamba_config_of(read_python_json_file(file, kMaxConfigBytes), file.string(), notes);
}

Json mamba_config_json_of(const MambaConfig& config, const std::string& dtype) {
  const auto number = [](double value) { return std::isinf(value) ? Json{{"__float__", "Infinity"}} : Json(value); };
  return {{"model_type", "mamba2"},
          {"architectures", Json::array({"Mamba2ForCausalLM"})},
          {"torch_dtype", dtype},
          {"vocab_size", config.vocab_size},
          {"hidden_size", config.hidden_size},
          {"num_hidden_layers", config.num_layers},
          {"state_size", config.state_size},
          {"expand", config.expand},
          {"head_dim", config.head_dim},
          {"num_heads", model::heads_of(config)},
          {"n_groups", config.num_groups},
          {"conv_kernel", config.conv_width},
          {"use_conv_bias", config.conv_bias},
          {"use_bias", config.projection_bias},
          {"chunk_size", config.chunk_size},
          {"time_step_limit", Json::array({number(config.min_step), number(config.max_step)})},
          {"tie_word_embeddings", config.tie_embeddings},
          {"layer_norm_epsilon", config.norm_eps},
          {"hidden_act", "silu"},
          {"rms_norm", true},
          {"residual_in_fp32", false},
          {"use_cache", true},
          {"bos_token_id", nullptr},
          {"eos_token_id", nullptr},
          {"pad_token_id", nullptr}};
}

Layout mamba_layout_of(const MambaConfig& c) {
  const int64_t width = model::scan_width_of(c), heads = model::heads_of(c);
  const int64_t convolved = width + 2 * c.num_groups * c.state_size;
  Layout layout;
  layout.optional_prefix = "backbone.";
  std::vector<Parameter>& all = layout.parameters;
  all.push_back({"embedding", {{"backbone.embeddings.weight", {c.vocab_size, c.hidden_size}}}});
  for (int64_t i = 0; i < c.num_layers; ++i) {
    const auto add = [&](const char* ours, const char* stored, std::vector<int64_t> sizes,
                         std::vector<int64_t> here = {}) {
      all.push_back({fmt::format("layers.{}.{}", i, ours),
                     {{.name = fmt::format("backbone.layers.{}.{}", i, stored),
                       .sizes = std::move(sizes),
                       .here = std::move(here)}}});
    };
    add("norm.weight", "norm.weight", {c.hidden_size});
    add("mixer.in.weight", "mixer.in_proj.weight", {width + convolved + heads, c.hidden_size});
    if (c.projection_bias) add("mixer.in.bias", "mixer.in_proj.bias", {width + convolved + heads});
    add("mixer.conv_weight", "mixer.conv1d.weight", {convolved, 1, c.conv_width}, {convolved, c.conv_width});
    if (c.conv_bias) add("mixer.conv_bias", "mixer.conv1d.bias", {convolved});
    add("mixer.dt_bias", "mixer.dt_bias", {heads});
    add("mixer.a_log", "mixer.A_log", {heads});
    add("mixer.d", "mixer.D", {heads});
    add("mixer.norm.weight", "mixer.norm.weight", {width});
    add("mixer.out.weight", "mixer.out_proj.weight", {c.hidden_size, width});
    if (c.projection_bias) add("mixer.out.bias", "mixer.out_proj.bias", {c.hidden_size});
  }
  all.push_back({"norm.weight", {{"backbone.norm_f.weight", {c.hidden_size}}}});
  if (!c.tie_embeddings) all.push_back({"head", {{"lm_head.weight", {c.vocab_size, c.hidden_size}}}});
  layout.is_ignored = [tied = c.tie_embeddings](std::string_view name) { return tied && name == "lm_head.weight"; };
  return layout;
}

std::vector<std::string> differences(const MambaConfig& of, const MambaConfig& than) {
  std::vector<std::string> found;
  for_each_mamba_field([&](const char* name, auto place) {
    if (place(of) != place(than)) found.push_back(fmt::format("{}: {}, not {}", name, place(of), place(than)));
  });
  return found;
}

}  // namespace plimsoll::weights
