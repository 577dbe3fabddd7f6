// Defines the keys of a decoder-only transformer, as a model of its own and as a part of others.
#include <fmt/format.h>

#include <algorithm>

#include "job/keys/key_kinds.h"
#include "job/keys/kinds.h"
#include "job/keys/values.h"
#include "models/config_checks.h"
#include "weights/families.h"
#include "weights/gguf_source.h"
#include "weights/tensor_names.h"

namespace plimsoll::job {
namespace {

int64_t head_dim_of(const DecoderConfig& model) {
  return model.head_dim > 0 ? model.head_dim : model.hidden_size / model.num_heads;
}

void check_heads(const DecoderConfig& model, const std::string& section, const KeyLocations& locations) {
  const bool rope = model.positions == "rope";
  const auto key = [&](const char* name) { return section + "." + name; };
  const auto better_heads = [&] {
    return for_example(near_divisors(model.num_heads, model.hidden_size, [&](int64_t heads) {
      return heads <= model::kMaxHeads && (!rope || model.hidden_size / heads % 2 == 0);
    }));
  };
  if (model.head_dim == 0 && model.hidden_size % model.num_heads != 0)
    refuse(locations.of({key("num_heads"), key("hidden_size")}),
           fmt::format("{}.num_heads is {}; it must divide hidden_size {}{}", section, model.num_heads,
                       model.hidden_size, better_heads()));
  if (model.num_kv_heads > 0 && model.num_heads % model.num_kv_heads != 0)
    refuse(locations.of({key("num_kv_heads"), key("num_heads")}),
           fmt::format("{}.num_kv_heads is {}; it must divide num_heads {}{}", section, model.num_kv_heads,
                       model.num_heads,
                       for_example(near_divisors(model.num_kv_heads, model.num_heads, [](int64_t) { return true; }))));
  const int64_t head_dim = head_dim_of(model);
  if (rope && model.head_dim % 2 != 0)
    refuse(locations.of({key("head_dim")}),
           fmt::format("{}.head_dim is {}; it must be even where positions are 'rope' (for example {})", section,
                       head_dim, head_dim + 1));
  if (rope && head_dim % 2 != 0)
    refuse(locations.of({key("num_heads"), key("hidden_size"), key("positions")}),
           fmt::format("{}.num_heads is {}; where positions are 'rope', hidden_size {} / num_heads must be even{}",
                       section, model.num_heads, model.hidden_size, better_heads()));
  const RopeScaling& scaling = model.rope_scaling;
  if (scaling.factor > 1 && scaling.high_frequency_factor <= scaling.low_frequency_factor)
    refuse(locations.of({key("rope_scaling.high_frequency_factor"), key("rope_scaling.low_frequency_factor"),
                         key("rope_scaling.factor")}),
           fmt::format("{0}.rope_scaling.high_frequency_factor is {1}; it must be above low_frequency_factor {2}",
                       section, scaling.high_frequency_factor, scaling.low_frequency_factor));
  if (model.num_heads * head_dim > model::kMaxWidth)
    refuse(locations.of({key("head_dim"), key("num_heads")}),
           fmt::format("{}.head_dim {} x num_heads {} is {}; it must not exceed {}", section, head_dim, model.num_heads,
                       model.num_heads * head_dim, model::kMaxWidth));
}

std::filesystem::path in_folder(const std::filesystem::path& directory, const std::filesystem::path& path) {
  return path.empty() ? path : directory / path;
}

}  // namespace

std::vector<Key> decoder_keys(const std::string& section, const std::function<DecoderConfig&(Job&)>& place) {
  using D = DecoderConfig;
  constexpr IntegerRange words{1, model::kMaxVocabulary};
  constexpr NumberRange not_negative{.min = 0}, positive_or_none{.min = 0, .none = true}, factor{.min = 1};
  const auto scaling = [=](Job& job) -> RopeScaling& { return place(job).rope_scaling; };
  return {
      {{section + ".vocab_size", "auto | " + words.text(), "auto",
        "rows of the embedding; auto: the tokenizer's, rounded up to 64. The logits of a micro batch grow with it"},
       [=](const Value& value, Job& job) {
         place(job).vocab_size = value.is("auto") ? 0 : read_integer(value, words, "auto");
       }},
      integer_at<D>(section + ".hidden_size", place, &D::hidden_size, {1, model::kMaxWidth},
                    "width of the residual stream"),
      integer_at<D>(section + ".num_layers", place, &D::num_layers, {1, model::kMaxLayers},
                    "number of layers; activations and parameters grow with it"),
      integer_at<D>(section + ".num_heads", place, &D::num_heads, {1, model::kMaxHeads},
                    "attention heads; must divide hidden_size unless "
                    "head_dim is given"),
      integer_at<D>(section + ".num_kv_heads", place, &D::num_kv_heads, {0, model::kMaxHeads},
                    "key and value heads, a divisor of num_heads (grouped-query attention); 0: num_heads"),
      integer_at<D>(section + ".head_dim", place, &D::head_dim, {0, model::kMaxWidth},
                    "width of a head, an even number with rope; 0: hidden_size / num_heads"),
      integer_at<D>(section + ".intermediate_size", place, &D::intermediate_size, {0, model::kMaxFeedForward},
                    "width of the feed-forward; 0: 4 x hidden_size (gelu), 8/3 x hidden_size rounded up to 64 (gated)"),
      word_at<D>(section + ".norm", place, &D::norm, {"rmsnorm", "layernorm"},
                 "type of the norms before attention and feed-forward"),
      word_at<D>(section + ".positions", place, &D::positions, {"rope", "learned"},
                 "rope: rotary positions; learned: an embedding of positions"),
      integer_at<D>(section + ".max_positions", place, &D::max_positions, {0, model::kMaxSequence},
                    "rows of the embedding of learned positions; 0: the tokens of a window"),
      word_at<D>(section + ".activation", place, &D::activation, {"swiglu", "geglu", "gelu", "gelu_tanh"},
                 "activation of the feed-forward; swiglu, geglu: gated, three matrices; gelu: two matrices; geglu and "
                 "gelu_tanh use the tanh form of gelu"),
      boolean_at<D>(section + ".tie_embeddings", place, &D::tie_embeddings,
                    "use the embedding's weight in the head: vocab_size x hidden_size fewer parameters"),
      boolean_at<D>(section + ".attention_bias", place, &D::attention_bias,
                    "biases on query, key, value and output projections"),
      boolean_at<D>(section + ".qkv_bias", place, &D::qkv_bias, "biases on query, key and value projections alone"),
      boolean_at<D>(section + ".mlp_bias", place, &D::mlp_bias, "biases on the feed-forward projections"),
      boolean_at<D>(section + ".qk_norm", place, &D::qk_norm, "apply an RMSNorm to queries and keys of each head"),
      boolean_at<D>(section + ".post_norms", place, &D::post_norms,
                    "normalize the outputs of attention and feed-forward before they are added"),
      boolean_at<D>(section + ".embedding_scale", place, &D::embedding_scale,
                    "multiply embeddings by the square root of hidden_size"),
      number_at<D>(section + ".query_scale", place, &D::query_scale, not_negative,
                   "number whose square root divides the attention scores; 0: head_dim"),
      number_at<D>(section + ".attention_softcap", place, &D::attention_softcap, positive_or_none,
                   "cap c of attention scores: c tanh(score / c), with a slower kernel; 0: no cap"),
      number_at<D>(section + ".logit_softcap", place, &D::logit_softcap, positive_or_none,
                   "cap c of logits: c tanh(logit / c); 0: no cap"),
      integer_at<D>(section + ".sliding_window", place, &D::sliding_window, {0, model::kMaxSequence, /*none=*/true},
                    "positions that a token attends to, itself included; 0: all"),
      integer_at<D>(section + ".sliding_window_every", place, &D::sliding_window_every, {1, model::kMaxLayers},
                    "n: the first of every n layers uses the window, the others attend to all positions"),
      number_at<D>(section + ".dropout", place, &D::dropout, {.min = 0, .max = 1, .max_open = true, .none = true},
                   "dropout rate of the outputs of attention and feed-forward"),
      number_at<D>(section + ".norm_eps", place, &D::norm_eps, {.min = 0, .min_open = true, .max = 1, .max_open = true},
                   "value added to the variance in norms"),
      number_at<D>(section + ".rope_theta", place, &D::rope_theta, {.min = 1}, "base of the rotary frequencies"),
      number_at<RopeScaling>(section + ".rope_scaling.factor", scaling, &RopeScaling::factor, factor,
                             "divisor of slow rotary frequencies, as in Llama 3.1; 1: no scaling"),
      number_at<RopeScaling>(section + ".rope_scaling.low_frequency_factor", scaling,
                             &RopeScaling::low_frequency_factor, {.min = 0, .min_open = true},
                             "limit of slow frequencies: wavelengths above original_length / this value"),
      number_at<RopeScaling>(
          section + ".rope_scaling.high_frequency_factor", scaling, &RopeScaling::high_frequency_factor,
          {.min = 0, .min_open = true},
          "limit of fast frequencies, which are not scaled: wavelengths below original_length / this value"),
      integer_at<RopeScaling>(section + ".rope_scaling.original_length", scaling, &RopeScaling::original_length,
                              {1, int64_t{1} << 32}, "context length in tokens of the model's first training"),
  };
}

std::vector<Key> language_model_keys(const std::function<DecoderConfig&(Job&)>& place) {
  std::vector<Key> keys = decoder_keys("model.llm", place);
  keys.push_back(path("model.llm.weights", &ModelConfig::llm_weights, "(none)",
                      "weights that the language model starts from: a folder with config.json and safetensors, or a "
                      "GGUF file, which set its other keys; or a decoder's safetensors file of plimsoll export"));
  keys.push_back(
      path("model.llm.config", &ModelConfig::llm_config, "(none)",
           "config.json of transformers, its folder, or a GGUF file, which sets the language model's other keys; "
           "none: the one next to model.llm.weights, if any"));
  return keys;
}

// Checks upper bounds of everything that is later multiplied in int64_t, in floating point, which cannot overflow.
void check_decoder(const DecoderConfig& model, const std::string& section, int64_t sequence, int64_t at_a_time,
                   const KeyLocations& locations) {
  check_heads(model, section, locations);
  if (model.positions == "learned" && model.max_positions > 0 && model.max_positions < sequence)
    refuse(locations.of({section + ".max_positions", "data.sequence_length"}),
           fmt::format("{}.max_positions is {}; data.sequence_length {} must not exceed it", section,
                       model.max_positions, sequence));
  const auto tokens = static_cast<double>(sequence);
  const double words = static_cast<double>(model.vocab_size > 0 ? model.vocab_size : int64_t{1} << 18);
  const double feed_forward =
      static_cast<double>(model.intermediate_size > 0 ? model.intermediate_size : 4 * model.hidden_size);
  const double heads = static_cast<double>(model.num_heads);
  const double widest =
      std::max({static_cast<double>(model.hidden_size), feed_forward, heads * static_cast<double>(head_dim_of(model))});
  // A layer keeps a few dozen rows for each token and at most two attention matrices with their gradients; 4 bytes
  // each.
  const double layer = 64 * widest + 4 * heads * tokens;
  const double bytes =
      4 * static_cast<double>(at_a_time) * tokens * (static_cast<double>(model.num_layers) * layer + 4 * words);
  if (bytes > kCountable)
    refuse(locations.of({"data.sequence_length", "micro_batch_size", "batch_size", section + ".num_layers"}),
           fmt::format("data.sequence_length {} with {} sequences at a time needs about {:.0e} bytes, more than can be "
                       "counted; make one of them smaller",
                       sequence, at_a_time, bytes));
}

std::vector<Setting> decoder_origin(const DecoderConfig& model, const std::string& section) {
  const DecoderConfig defaults;
  std::vector<Setting> settings = {
      {".vocab_size", model.vocab_size},
      {".hidden_size", model.hidden_size},
      {".num_layers", model.num_layers},
      {".num_heads", model.num_heads},
      {".num_kv_heads", model.num_kv_heads > 0 ? model.num_kv_heads : model.num_heads},
      {".head_dim", model.head_dim > 0 ? model.head_dim : model.hidden_size / model.num_heads},
      {".norm", model.norm},
      {".positions", model.positions},
      {".activation", model.activation},
      {".tie_embeddings", model.tie_embeddings},
      {".attention_bias", model.attention_bias},
      {".mlp_bias", model.mlp_bias},
      {".sliding_window", model.sliding_window},
      {".norm_eps", model.norm_eps},
      {".rope_theta", model.rope_theta},
      {".max_positions", model.max_positions, defaults.max_positions},
      {".qkv_bias", model.qkv_bias, defaults.qkv_bias},
      {".qk_norm", model.qk_norm, defaults.qk_norm},
      {".post_norms", model.post_norms, defaults.post_norms},
      {".embedding_scale", model.embedding_scale, defaults.embedding_scale},
      {".query_scale", model.query_scale, defaults.query_scale},
      {".attention_softcap", model.attention_softcap, defaults.attention_softcap},
      {".logit_softcap", model.logit_softcap, defaults.logit_softcap},
      {".sliding_window_every", model.sliding_window_every, defaults.sliding_window_every},
  };
  const RopeScaling &scaling = model.rope_scaling, none;
  if (scaling.factor != none.factor)
    settings.emplace_back(".rope_scaling", fmt::format("{} {} {} {}", scaling.factor, scaling.low_frequency_factor,
                                                       scaling.high_frequency_factor, scaling.original_length));
  for (Setting& setting : settings) setting.key.insert(0, section);
  return settings;
}

void apply_decoder_file(const std::filesystem::path& file, const std::filesystem::path& weights,
                        const std::string& section, const KeyLocations& locations, DecoderConfig& config,
                        std::vector<std::string>& notes) {
  weights::Architecture found =
      weights::is_gguf(file) ? weights::read_gguf_architecture(file) : weights::read_architecture(file);
  if (!weights.empty()) weights::compare_with_weights(weights, found);
  must_agree(
      file, section, locations, [](auto&& visit) { weights::for_each_field(visit); }, config, found.config);
  notes.insert(notes.end(), found.notes.begin(), found.notes.end());
  const double dropout = config.dropout;
  config = found.config;
  config.dropout = dropout;
}

void apply_language_model_file(const ModelConfig& model, DecoderConfig& config, const KeyLocations& locations,
                               const std::filesystem::path& directory, std::vector<std::string>& notes) {
  const auto file = architecture_file(model.llm_weights, model.llm_config, "model.llm", locations, directory);
  if (!file.empty())
    apply_decoder_file(file, in_folder(directory, model.llm_weights), "model.llm", locations, config, notes);
}

ModelKind decoder_kind() {
  ModelKind kind;
  kind.type = "decoder";
  kind.meaning = "a decoder-only transformer";
  kind.keys = decoder_keys("model", [](Job& job) -> DecoderConfig& { return job.model.decoder; });
  kind.keys.push_back(path("model.config", &ModelConfig::config, "(none)",
                           "config.json of transformers, its folder, or a GGUF file, which sets the model's other "
                           "keys; none: the one next to model.weights, if any"));
  kind.keys.push_back(integer("data.sequence_length", &DataConfig::sequence_length, {1, model::kMaxSequence},
                              "tokens of a window; activations grow with it"));
  kind.check = [](const Job& job, const KeyLocations& locations) {
    check_decoder(job.model.decoder, "model", job.data.sequence_length, job.micro_batch_size.value_or(*job.batch_size),
                  locations);
    const double tokens = static_cast<double>(job.max_steps.value_or(0)) * static_cast<double>(kMaxBatch) *
                          static_cast<double>(job.data.sequence_length);
    if (tokens > kCountable)
      refuse(locations.of({"max_steps", "data.sequence_length"}),
             fmt::format("max_steps {} with data.sequence_length {} are more tokens than can be counted",
                         *job.max_steps, job.data.sequence_length));
  };
  kind.data_types = {"text"};
  kind.origin = [](const Job& job) {
    std::vector<Setting> settings = decoder_origin(job.model.decoder, "model");
    settings.emplace_back("data.sequence_length", job.data.sequence_length);
    return settings;
  };
  kind.reducible_keys = {
      {"data.sequence_length", "a shorter sequence", [](const Job& job) { return job.data.sequence_length; }, 8, 1},
      {"model.num_layers", "fewer layers", [](const Job& job) { return job.model.decoder.num_layers; }},
      {"model.intermediate_size", "a narrower feed-forward",
       [](const Job& job) {
         const DecoderConfig& model = job.model.decoder;
         if (model.intermediate_size > 0) return model.intermediate_size;
         return !model.activation.ends_with("glu") ? 4 * model.hidden_size : (8 * model.hidden_size / 3 + 63) / 64 * 64;
       },
       64},
  };
  kind.reads_token_windows = true;
  kind.vocabulary = {"model.vocab_size", [](Job& job) -> int64_t& { return job.model.decoder.vocab_size; }};
  kind.decoder_layers = "layers";
  kind.apply_architecture = [](Job& job, const KeyLocations& locations, const std::filesystem::path& directory) {
    ModelConfig& model = job.model;
    const auto file = architecture_file(model.weights, model.config, "model", locations, directory);
    if (!file.empty())
      apply_decoder_file(file, in_folder(directory, model.weights), "model", locations, model.decoder, job.notes);
  };
  return kind;
}

}  // namespace plimsoll::job
