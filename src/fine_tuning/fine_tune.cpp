#include "fine_tuning/fine_tune.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/nn/init.h>
#include <torch/types.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/names.h"
#include "base/text.h"
#include "ops/layers/quantized_linear.h"
#include "ops/libtorch_types.h"
#include "plimsoll/error.h"
#include "plimsoll/linear.h"

namespace plimsoll::model {
namespace {

constexpr size_t kPathsShown = 3;

/// The parts of a model by their dotted names.
struct Parts {
  explicit Parts(torch::nn::Module& model) {
    for (const auto& entry : model.named_modules({}, /*include_self=*/false)) {
      modules.push_back(entry.key());
      if (auto* linear = dynamic_cast<LinearImpl*>(entry.value().get())) linears.emplace_back(entry.key(), linear);
    }
    for (const auto& entry : model.named_parameters()) parameters.emplace_back(entry.key(), entry.value());
  }

  std::vector<std::string> modules;
  std::vector<std::pair<std::string, LinearImpl*>> linears;
  std::vector<std::pair<std::string, at::Tensor>> parameters;
};

std::string near_to(const std::string& pattern, const std::vector<std::string>& candidates) {
  return fmt::format("'{}'", fmt::join(nearest_few(pattern, candidates, kPathsShown), "', '"));
}

// Returns all patterns of a key with names of other programs replaced by the model's own: "[layers.*.mlp.up, '*.out']".
std::string translated(const std::vector<std::string>& patterns, const std::vector<std::string>& candidates) {
  std::vector<std::string> all;
  for (const std::string& pattern : patterns) {
    const auto own = own_names(pattern, candidates);
    for (const std::string& each : own && !own->empty() ? *own : std::vector<std::string>{pattern}) {
      const std::string written = each.starts_with('*') ? "'" + each + "'" : each;  // a star opens an alias in YAML
      if (std::ranges::find(all, written) == all.end()) all.push_back(written);
    }
  }
  return fmt::format("[{}]", fmt::join(all, ", "));
}

// Throws UserError if `pattern`, which matches none of `candidates`, is a layer name of other programs that the model
// has under its own name.
void refuse_foreign(const char* key, const std::string& pattern, const std::vector<std::string>& patterns,
                    const std::vector<std::string>& candidates) {
  const auto own = own_names(pattern, candidates);
  if (!own || own->empty()) return;
  const std::string meaning = meaning_of_foreign(pattern);
  throw UserError(fmt::format("{}: {} is a name of other programs; in this model it is '{}'{}: write {}={}", key,
                              in_quotes(pattern), fmt::join(*own, "', '"), meaning.empty() ? "" : ", where " + meaning,
                              key, translated(patterns, candidates)));
}

[[noreturn]] void refuse_unmatched(const char* key, const std::string& pattern,
                                   const std::vector<std::string>& patterns, const Parts& parts) {
  std::vector<std::string> candidates = parts.modules;
  for (const auto& [name, tensor] : parts.parameters) candidates.push_back(name);
  refuse_foreign(key, pattern, patterns, candidates);
  throw UserError(fmt::format("{}: no module and no parameter of the model matches {}; near to it: {}", key,
                              in_quotes(pattern), near_to(pattern, candidates)));
}

/// Sets requires_grad of every parameter that a pattern matches.
void set_trained(const char* key, const std::vector<std::string>& patterns, bool trained, const Parts& parts) {
  for (const std::string& pattern : patterns) {
    bool found = false;
    for (const auto& [name, tensor] : parts.parameters) {
      if (!matches_path(pattern, name)) continue;
      found = true;
      tensor.set_requires_grad(trained);
    }
    if (!found) refuse_unmatched(key, pattern, patterns, parts);
  }
}

// Throws UserError for a pattern that names no module, under a key for linear layers. The message says if other
// programs use the name for a parameter of the model, as "lm_head".
[[noreturn]] void refuse_not_linear(const char* key, const std::string& pattern, const Parts& parts) {
  std::vector<std::string> candidates;
  for (const auto& [name, tensor] : parts.parameters) candidates.push_back(name);
  if (const auto own = own_names(pattern, candidates); own && !own->empty())
    throw UserError(fmt::format("{}: {} is a name of other programs; in this model it is '{}', and {}", key,
                                in_quotes(pattern), fmt::join(*own, "', '"), meaning_of_foreign(pattern)));
  refuse_unmatched(key, pattern, {pattern}, parts);
}

/// Returns the linear layers that the patterns name, in the model's order.
std::vector<std::pair<std::string, LinearImpl*>> linears_of(const char* key, const std::vector<std::string>& patterns,
                                                            const Parts& parts) {
  std::vector<bool> chosen(parts.linears.size(), false);
  for (const std::string& pattern : patterns) {
    bool found = false;
    for (size_t i = 0; i < parts.linears.size(); ++i) {
      if (!matches_path(pattern, parts.linears[i].first)) continue;
      chosen[i] = found = true;
    }
    if (found) continue;
    std::vector<std::string> names;
    for (const auto& [name, linear] : parts.linears) names.push_back(name);
    refuse_foreign(key, pattern, patterns, names);
    if (std::ranges::none_of(parts.modules, [&](const auto& name) { return matches_path(pattern, name); }))
      if (std::ranges::none_of(parts.parameters, [&](const auto& each) { return matches_path(pattern, each.first); }))
        refuse_not_linear(key, pattern, parts);
    throw UserError(fmt::format("{}: {} matches no linear layer; {}", key, in_quotes(pattern),
                                names.empty() ? "the model has no plimsoll::Linear (plimsoll/linear.h), which is "
                                                "what can be adapted and quantized"
                                              : "near to it: " + near_to(pattern, names)));
  }
  // A layer with several names is one layer.
  std::vector<std::pair<std::string, LinearImpl*>> found;
  std::set<const LinearImpl*> known;
  for (size_t i = 0; i < chosen.size(); ++i)
    if (chosen[i] && known.insert(parts.linears[i].second).second) found.push_back(parts.linears[i]);
  return found;
}

}  // namespace

void fine_tune(torch::nn::Module& model, const FineTuning& how, const FineTuneTypes& types) {
  if (!how.any()) return;
  const Parts parts(model);
  const auto adapted = linears_of("lora.modules", how.lora.modules, parts);
  const auto quantized = linears_of("quantize.modules", how.quantize.modules, parts);
  if (!adapted.empty())
    for (const auto& [name, tensor] : parts.parameters) tensor.set_requires_grad(false);
  set_trained("freeze", how.freeze, false, parts);
  set_trained("train", how.train, true, parts);

  for (const auto& [name, linear] : quantized) {
    if (std::ranges::any_of(how.train, [&](const auto& each) { return matches_path(each, name + ".weight"); }))
      throw UserError(
          fmt::format("train: {}.weight is to be trained, and quantize.modules puts it into blocks, which "
                      "cannot be trained; take it from one of them",
                      name));
    linear->quantize(how.quantize);
  }
  for (const auto& [name, linear] : adapted) linear->add_adapter(how.lora, types.adapters);
  if (types.frozen_linear)
    for (const auto& [name, linear] : parts.linears)
      if (!linear->quantized() && !linear->weight().requires_grad()) linear->set_weight_dtype(*types.frozen_linear);

  const auto left = model.parameters();
  if (std::ranges::none_of(left, [](const at::Tensor& each) { return each.requires_grad(); }))
    throw UserError(fmt::format(
        "freeze: nothing is left to train: all {} parameters of the model are frozen; take a pattern from freeze or "
        "quantize, or name in train what is to be trained",
        left.size()));
}

namespace {

struct ForeignName {
  std::string_view name;                 ///< last part of the foreign name, in small letters
  std::array<std::string_view, 3> ours;  ///< possible last parts of our paths that hold the layer
  std::string_view meaning;
};

constexpr std::string_view kOneMatrix = "query, key and value are one matrix";
constexpr std::string_view kGate = "a gate and what it gates are one matrix";
constexpr std::string_view kInner = "all projections into a Mamba block are one matrix";
constexpr std::string_view kRows = "it is a parameter and no linear layer: train it whole, or leave it frozen";

constexpr std::array kNames = {
    // Attention: Llama, Mistral, Qwen, OPT; BERT; GPT-2; GPT-NeoX; MPT; torch.
    ForeignName{"q_proj", {"qkv", "q"}, kOneMatrix},
    ForeignName{"k_proj", {"qkv", "k"}, kOneMatrix},
    ForeignName{"v_proj", {"qkv", "v"}, kOneMatrix},
    ForeignName{"qkv_proj", {"qkv"}, kOneMatrix},
    ForeignName{"query", {"qkv", "q"}, kOneMatrix},
    ForeignName{"key", {"qkv", "k"}, kOneMatrix},
    ForeignName{"value", {"qkv", "v"}, kOneMatrix},
    ForeignName{"query_key_value", {"qkv"}, kOneMatrix},
    ForeignName{"c_attn", {"qkv"}, kOneMatrix},
    ForeignName{"wqkv", {"qkv"}, kOneMatrix},
    ForeignName{"wq", {"qkv", "q"}, kOneMatrix},
    ForeignName{"wk", {"qkv", "k"}, kOneMatrix},
    ForeignName{"wv", {"qkv", "v"}, kOneMatrix},
    ForeignName{"in_proj_weight", {"qkv"}, kOneMatrix},
    ForeignName{"in_proj", {"in", "qkv"}, ""},
    ForeignName{"out_proj", {"out"}, ""},
    ForeignName{"o_proj", {"out"}, ""},
    ForeignName{"wo", {"out"}, ""},
    ForeignName{"dense", {"out", "up", "down"}, ""},
    ForeignName{"c_proj", {"out", "down"}, ""},
    // Feed-forwards.
    ForeignName{"gate_proj", {"up"}, kGate},
    ForeignName{"up_proj", {"up"}, kGate},
    ForeignName{"gate_up_proj", {"up"}, ""},
    ForeignName{"c_fc", {"up"}, ""},
    ForeignName{"fc1", {"up"}, ""},
    ForeignName{"fc_in", {"up"}, ""},
    ForeignName{"dense_h_to_4h", {"up"}, ""},
    ForeignName{"w1", {"up"}, kGate},
    ForeignName{"w3", {"up"}, kGate},
    ForeignName{"down_proj", {"down"}, ""},
    ForeignName{"fc2", {"down"}, ""},
    ForeignName{"fc_out", {"down"}, ""},
    ForeignName{"dense_4h_to_h", {"down"}, ""},
    ForeignName{"w2", {"down"}, ""},
    // Mamba.
    ForeignName{"x_proj", {"in"}, kInner},
    ForeignName{"dt_proj", {"in"}, kInner},
    // Rows of the vocabulary, positions.
    ForeignName{"embed_tokens", {"embedding"}, kRows},
    ForeignName{"word_embeddings", {"embedding"}, kRows},
    ForeignName{"wte", {"embedding"}, kRows},
    ForeignName{"wpe", {"positions"}, kRows},
    ForeignName{"embed_positions", {"positions"}, kRows},
    ForeignName{"position_embedding", {"positions"}, kRows},
    // A tied embedding has no separate head.
    ForeignName{"lm_head", {"head", "embedding"}, kRows},
    ForeignName{"embed_out", {"head", "embedding"}, kRows},
    // Norms.
    ForeignName{"input_layernorm", {"attention_norm", "norm"}, ""},
    ForeignName{"ln_1", {"attention_norm"}, ""},
    ForeignName{"post_attention_layernorm", {"mlp_norm"}, ""},
    ForeignName{"ln_2", {"mlp_norm"}, ""},
    ForeignName{"ln_f", {"norm"}, ""},
    // PEFT's name for all linear layers.
    ForeignName{"all-linear", {}, ""},
    ForeignName{"all_linear", {}, ""},
};

std::string_view last_part(std::string_view path) {
  return path.substr(path.rfind('.') + 1);  // npos + 1 is 0
}

const ForeignName* known(const std::string& pattern) {
  std::string name(last_part(pattern));
  if (name == "weight" && pattern.size() > name.size())
    name = last_part(std::string_view(pattern).substr(0, pattern.size() - name.size() - 1));
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto found = std::ranges::find(kNames, name, &ForeignName::name);
  return found == kNames.end() ? nullptr : &*found;
}

// Returns "layers.3.attention.qkv" as "layers.*.attention.qkv".
std::string with_stars(const std::string& path) {
  std::string pattern;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('.', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    const bool number =
        !part.empty() && std::ranges::all_of(part, [](unsigned char c) { return std::isdigit(c) != 0; });
    pattern += (begin == 0 ? "" : ".") + (number ? "*" : part);
    begin = end + 1;
  }
  return pattern;
}

}  // namespace

std::optional<std::vector<std::string>> own_names(const std::string& pattern, const std::vector<std::string>& paths) {
  const ForeignName* const name = known(pattern);
  if (name == nullptr) return std::nullopt;
  if (name->ours.front().empty()) return std::vector<std::string>{"*"};
  // If `ours` lists a head and an embedding, or a layer of one kind and a fused one, the first that the model has is
  // used. If one name means several layers ("dense"), all are used.
  const bool all = name->name == "dense" || name->name == "c_proj" || name->ours.front() == "qkv";
  std::vector<std::string> patterns;
  for (const std::string_view ours : name->ours) {
    if (ours.empty() || (!patterns.empty() && !all)) break;
    for (const std::string& path : paths)
      if (last_part(path) == ours)
        if (const std::string found = with_stars(path); std::ranges::find(patterns, found) == patterns.end())
          patterns.push_back(found);
  }
  return patterns;
}

std::string meaning_of_foreign(const std::string& pattern) {
  const ForeignName* const name = known(pattern);
  return name == nullptr ? "" : std::string(name->meaning);
}

}  // namespace plimsoll::model

namespace plimsoll {

c10::ScalarType weight_type(const TrainingOptions& options) {
  if (options.dtype) return scalar_type_of(*options.dtype);
  return options.precision == Precision::bf16_true ? at::kBFloat16 : at::kFloat;
}

c10::ScalarType input_type(const TrainingOptions& options, c10::ScalarType declared) {
  const bool lower = !is_mixed(options.precision) && weight_type(options) != at::kFloat;
  return lower && at::isFloatingType(declared) ? weight_type(options) : declared;
}

model::FineTuneTypes fine_tune_types(const TrainingOptions& options) {
  model::FineTuneTypes types;
  if (options.precision == Precision::bf16_true) types.adapters = at::kBFloat16;
  // A dtype that the user sets is kept.
  if (is_mixed(options.precision) && !options.dtype)
    types.frozen_linear = options.precision == Precision::fp16_mixed ? at::kHalf : at::kBFloat16;
  return types;
}

namespace {

/// Returns a small weight in the type of the tensor that it is multiplied with. Autocast does this itself.
at::Tensor as_type_of(const at::Tensor& weight, const at::Tensor& x) {
  return at::autocast::is_autocast_enabled(x.device().type()) ? weight : weight.to(x.scalar_type());
}

}  // namespace

LinearImpl::LinearImpl(int64_t in, int64_t out, bool bias, std::optional<double> standard_deviation)
    : in_(in), out_(out) {
  if (in < 1 || out < 1) throw UserError(fmt::format("a linear layer of {} -> {}; both must be at least 1", in, out));
  const double bound = 1 / std::sqrt(static_cast<double>(in));
  weight_ = register_parameter("weight", torch::empty({out, in}));
  if (standard_deviation)
    torch::nn::init::normal_(weight_, 0.0, *standard_deviation);
  else
    torch::nn::init::uniform_(weight_, -bound, bound);
  if (!bias) return;
  bias_ = register_parameter("bias", standard_deviation ? torch::zeros({out}) : torch::empty({out}));
  if (!standard_deviation) torch::nn::init::uniform_(bias_, -bound, bound);
}

at::Tensor LinearImpl::product(const at::Tensor& x) const {
  if (!codes_.defined()) return at::linear(x, weight_, bias_);
  at::Tensor y = ops::quantized_linear(x, {codes_, scales_, second_scales_});
  if (bias_.defined()) y.add_(bias_);
  return y;
}

at::Tensor LinearImpl::forward(const at::Tensor& x) {
  at::Tensor y = product(x);
  if (!adapted()) return y;
  const bool drops = is_training() && lora_dropout_ > 0;
  const at::Tensor in = drops ? std::get<0>(at::native_dropout(x, lora_dropout_, true)) : x;
  // The product is scaled here because it is narrowest.
  const at::Tensor low = at::linear(in, as_type_of(lora_a_, in)) * lora_scale_;
  return y.add_(at::linear(low, as_type_of(lora_b_, low)));
}

void LinearImpl::add_adapter(const LoraConfig& config, c10::ScalarType dtype) {
  if (config.rank < 1 || config.rank > std::min(in_, out_))
    throw UserError(
        fmt::format("lora.rank is {}; a layer of {} -> {} takes 1 to {}", config.rank, in_, out_, std::min(in_, out_)));
  check(!adapted(), "a linear layer has one adapter");
  const double bound = 1 / std::sqrt(static_cast<double>(in_));
  const auto options = at::TensorOptions().dtype(dtype);
  lora_a_ = register_parameter("lora_a", torch::empty({config.rank, in_}, options));
  torch::nn::init::uniform_(lora_a_, -bound, bound);
  lora_b_ = register_parameter("lora_b", torch::zeros({out_, config.rank}, options));
  lora_scale_ = config.alpha / static_cast<double>(config.rank);
  lora_dropout_ = config.dropout;
}

void LinearImpl::release_weight() {
  parameters_.erase("weight");
  weight_.reset();
}

void LinearImpl::quantize(const QuantizeConfig& config) {
  check(!quantized(), "a linear layer is quantized once");
  // The reader of a checkpoint computes the width from the codes.
  if (config.format == "nf4" && in_ % 2 != 0)
    throw UserError(
        fmt::format("quantize.format is nf4, which packs two weights into a byte; a layer of {} -> {} has "
                    "an odd width: use int8 for it, or leave it out",
                    in_, out_));
  const ops::QuantizedTensors made = ops::quantize_weight(weight_, config.format, config.double_scales);
  release_weight();
  codes_ = register_buffer("weight_codes", made.codes);
  scales_ = register_buffer("weight_scales", made.scales);
  if (made.second.defined()) second_scales_ = register_buffer("weight_second_scales", made.second);
}

void LinearImpl::set_weight_dtype(c10::ScalarType dtype) {
  check(weight_.defined() && !weight_.requires_grad(), "only a frozen weight changes its type");
  if (weight_.scalar_type() == dtype) return;
  const at::NoGradGuard no_grad;
  const at::Tensor held = weight_.to(dtype);
  release_weight();
  weight_ = register_parameter("weight", held, /*requires_grad=*/false);
}

}  // namespace plimsoll
