#include "weights/config_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/quoted.h"
#include "weights/config_facts.h"

namespace plimsoll::weights {
namespace {

/// The one value of a refused key that is accepted, as JSON. Other refused keys accept values that state nothing.
struct AllowedValue {
  std::string_view key, json;
};
constexpr AllowedValue kAllowed[] = {
    {"partial_rotary_factor", "1"}, {"scale_attn_weights", "true"}, {"rms_norm", "true"}, {"do_rescale", "true"},
    {"is_causal", "true"},          {"num_channels", "3"},          {"qkv_bias", "true"}};

/// Calls visit(word) for each word of a name: "num_key_value_heads" has four, "ropeScaling" two.
template <typename Visit>
void for_each_word(std::string_view name, const Visit& visit) {
  std::string word;
  bool was_small = false;
  for (size_t i = 0; i <= name.size(); ++i) {
    const auto letter = static_cast<unsigned char>(i < name.size() ? name[i] : ' ');
    const bool begins = std::isupper(letter) && was_small;
    if ((!std::isalnum(letter) || begins) && !word.empty()) {
      visit(word);
      word.clear();
    }
    if (std::isalnum(letter)) word += static_cast<char>(std::tolower(letter));
    was_small = std::islower(letter) != 0;
  }
}

/// Returns true if the name has a word of a section that changes what a model computes.
bool looks_like_the_function(std::string_view name) {
  constexpr std::array kWords = {
      "act",       "activation",  "alibi",    "attention", "attn",       "beta",   "bias",       "bidirectional",
      "cap",       "causal",      "clamp",    "channel",   "channels",   "clip",   "color",      "conv",
      "depth",     "dim",         "embed",    "embedding", "embeddings", "eps",    "epsilon",    "expert",
      "experts",   "factor",      "ffn",      "freq",      "frequency",  "flip",   "gate",       "head",
      "heads",     "hidden",      "kv",       "layer",     "layers",     "logit",  "logits",     "mask",
      "mean",      "offset",      "mlp",      "moe",       "mscale",     "mtp",    "multiplier", "norm",
      "normalize", "norms",       "position", "positions", "qk",         "query",  "residual",   "rope",
      "rotary",    "rescale",     "router",   "scalar",    "scale",      "scales", "scaling",    "sliding",
      "softcap",   "softcapping", "ssm",      "std",       "theta",      "tie",    "tied",       "window",
      "windows"};
  constexpr std::array kBeginnings = {"quant", "layernorm", "rmsnorm", "dequant"};
  bool found = false;
  for_each_word(name, [&](const std::string& word) {
    found = found || std::ranges::find(kWords, word) != kWords.end() ||
            std::ranges::any_of(kBeginnings, [&](const char* each) { return word.starts_with(each); });
  });
  return found;
}

bool is_for(std::string_view format, std::string_view family) {
  if (format == config::kAll) return true;
  for (size_t at = 0; (at = format.find(family, at)) != std::string_view::npos; at += family.size()) {
    const auto boundary = [&](size_t i) {
      return i >= format.size() || std::string_view("(), ").find(format[i]) != std::string_view::npos;
    };
    if (at > 0 && boundary(at - 1) && boundary(at + family.size())) return true;
  }
  return false;
}

}  // namespace

const FileFact* config_fact(std::string_view family, std::string_view key) {
  for (const FileFact& fact : config::kFacts)
    if (fact.field == key && is_for(fact.format, family)) return &fact;
  return nullptr;
}

std::vector<std::string> check_keys(const ConfigReader& read, std::string_view family) {
  std::vector<std::string> unknown;
  for (const std::string& key : read.keys()) {
    if (!read.has(key)) continue;
    const FileFact* fact = config_fact(family, key);
    if (fact == nullptr) {
      if (read.states_nothing(key)) continue;
      if (looks_like_the_function(key))
        read.refuse(key, fmt::format("{} has no such setting here; if it is without effect, remove it", family));
      unknown.push_back(key);
    } else if (fact->treatment == config::kRefused) {
      const auto allowed = std::ranges::find(kAllowed, key, &AllowedValue::key);
      if (allowed != std::end(kAllowed) ? read.is(key, allowed->json) : read.states_nothing(key)) continue;
      read.refuse(key, reason_to_refuse(*fact));
    }
  }
  return unknown;
}

std::string reason_to_refuse(const FileFact& fact) {
  return fmt::format("{}{}",
                     fact.note.starts_with("unless") ? "it is refused " : "it is not computed here: ", fact.note);
}

std::string unused_keys_note(const std::string& name, const std::vector<std::string>& keys) {
  return fmt::format("{}: these keys are not known here and are not used: {}", name, few_names(keys));
}

}  // namespace plimsoll::weights
