#include "weights/config_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <iterator>
#include <limits>
#include <vector>

#include "base/text.h"
#include "plimsoll/error.h"
#include "weights/config_facts.h"

namespace plimsoll::weights {

const nlohmann::json& ConfigReader::at(const std::string& key) const {
  static const nlohmann::json none;
  const auto found = json_.find(key);
  return found == json_.end() ? none : *found;
}

bool ConfigReader::has(const std::string& key) const {
  return !at(key).is_null();
}

bool ConfigReader::is_null(const char* key) const {
  return json_.contains(key) && at(key).is_null();
}

void ConfigReader::refuse_whole(const std::string& what) const {
  throw UserError(fmt::format("{}: {}", file_, what), UserError::Kind::failure);
}

std::string ConfigReader::text_of(const std::string& key) const {
  // Invalid UTF-8 is replaced instead of throwing: the message may show it.
  if (at(key).is_null()) return "missing";
  return one_line(at(key).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

void ConfigReader::refuse(const std::string& key, const std::string& what) const {
  refuse_whole(fmt::format("{}{} is {}; {}", section_, one_line(key), text_of(key), what));
}

std::vector<std::string> ConfigReader::keys() const {
  std::vector<std::string> all;
  for (const auto& [key, value] : json_.items()) all.push_back(key);
  return all;
}

bool ConfigReader::states_nothing(const std::string& key) const {
  const nlohmann::json& value = at(key);
  return value.is_null() || value == false || value == "" || (value.is_structured() && value.empty());
}

bool ConfigReader::has_same(const std::string& key, const ConfigReader& other, const std::string& other_key) const {
  return at(key) == other.at(other_key);
}

bool ConfigReader::is(const std::string& key, std::string_view json) const {
  return at(key) == nlohmann::json::parse(json);
}

int64_t ConfigReader::integer(const char* key, int64_t min, int64_t max, std::optional<int64_t> fallback) const {
  if (!has(key) && fallback) return *fallback;
  const nlohmann::json& value = at(key);
  const bool fits = value.is_number_unsigned() ? value.get<uint64_t>() <= static_cast<uint64_t>(max)
                                               : value.is_number_integer() && value.get<int64_t>() <= max;
  if (!fits || value.get<int64_t>() < min)
    refuse(key, fmt::format("it must be a whole number from {} to {}", min, max));
  return value.get<int64_t>();
}

double ConfigReader::number(const char* key, double fallback, bool positive) const {
  if (!has(key)) return fallback;
  const nlohmann::json& value = at(key);
  const double number = value.is_number() ? value.get<double>() : -1;
  if (!std::isfinite(number) || number < 0 || (positive && number == 0))
    refuse(key, positive ? "it must be a number above 0" : "it must be a number that is not negative");
  return number;
}

bool ConfigReader::boolean(const char* key, bool fallback) const {
  if (!has(key)) return fallback;
  if (!at(key).is_boolean()) refuse(key, "it must be true or false");
  return at(key).get<bool>();
}

std::string ConfigReader::word(const char* key, const std::vector<std::string>& allowed,
                               const std::string& fallback) const {
  if (!has(key)) return fallback;
  if (!at(key).is_string() || std::ranges::find(allowed, at(key).get<std::string>()) == allowed.end())
    refuse(key, fmt::format("known are {}", fmt::join(allowed, ", ")));
  return at(key).get<std::string>();
}

ConfigReader ConfigReader::object(const char* key) const {
  static const nlohmann::json empty = nlohmann::json::object();
  if (!has(key)) return {empty, file_, section_};
  if (!at(key).is_object()) refuse(key, "it must be an object");
  return {at(key), file_, section_ + key + "."};
}

std::vector<double> ConfigReader::numbers(const char* key, size_t count, std::vector<double> fallback) const {
  if (!has(key)) return fallback;
  const nlohmann::json& list = at(key);
  std::vector<double> all;
  if (list.is_array() && list.size() == count)
    for (const nlohmann::json& each : list) {
      if (each.is_number()) {
        all.push_back(each.get<double>());
      } else if (each.is_object() && each.size() == 1 && each.contains("__float__") &&
                 each.at("__float__") == "Infinity") {
        all.push_back(std::numeric_limits<double>::infinity());
      }
    }
  if (all.size() != count || std::ranges::any_of(all, [](double each) { return std::isnan(each); }))
    refuse(key, fmt::format("it must be a list of {} numbers", count));
  return all;
}

std::vector<std::string> ConfigReader::words(const char* key, size_t max) const {
  if (!has(key)) return {};
  const nlohmann::json& value = at(key);
  if (!value.is_array() || value.size() > max ||
      !std::ranges::all_of(value, [](const nlohmann::json& each) { return each.is_string(); }))
    refuse(key, fmt::format("it must be a list of at most {} words", max));
  return value.get<std::vector<std::string>>();
}

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
    if (has_field(fact, key) && is_for(fact.format, family)) return &fact;
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

namespace {

constexpr int64_t kMaxLength = int64_t{1} << 32;  // bound of lengths in tokens

/// Returns the kind of rotary positions. Throws UserError for a kind that is not known.
std::string kind_of(const ConfigReader& rope) {
  if (rope.has("rope_type") && rope.has("type") && !rope.has_same("rope_type", rope, "type"))
    rope.refuse("rope_type", fmt::format("and type, its older name, is {}: remove one of them", rope.text_of("type")));
  return rope.word(rope.has("rope_type") ? "rope_type" : "type", {"default", "llama3"}, "default");
}

/// Returns the section that the file has: rope_parameters or the older rope_scaling, of which transformers reads one.
/// If it has both, they must be alike.
ConfigReader rope_section(const ConfigReader& read) {
  const ConfigReader parameters = read.object("rope_parameters"), scaling = read.object("rope_scaling");
  if (scaling.keys().empty()) return parameters;
  if (parameters.keys().empty()) return scaling;
  kind_of(parameters);
  kind_of(scaling);
  // The kind is the first key that a message names.
  std::vector<std::string> keys = {"rope_type", "type"};
  for (const ConfigReader* each : {&parameters, &scaling})
    for (const std::string& key : each->keys()) keys.push_back(key);
  for (const std::string& key : keys)
    if (!parameters.has_same(key, scaling, key))
      read.refuse_whole(
          fmt::format("rope_parameters.{0} is {1}, and rope_scaling.{0} is {2}; they are two names of one setting: "
                      "remove rope_parameters or rope_scaling",
                      key, parameters.text_of(key), scaling.text_of(key)));
  return parameters;
}

/// Returns the number under `key` of the section or next to it; they must be equal if both are there.
double number_of(const ConfigReader& read, const ConfigReader& rope, const char* key, double defaults) {
  if (!rope.has(key)) return read.number(key, defaults);
  if (read.has(key) && read.number(key, defaults) != rope.number(key, defaults))
    rope.refuse(key, fmt::format("and next to it {} is {}: remove one of them", key, read.text_of(key)));
  return rope.number(key, defaults);
}

void check_rope_keys(const ConfigReader& rope, const std::string& kind) {
  constexpr std::array kAlways = {"rope_type", "type", "rope_theta", "partial_rotary_factor"};
  constexpr std::array kLlama3 = {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"};
  for (const std::string& key : rope.keys()) {
    const bool known = std::ranges::find(kAlways, key) != kAlways.end() ||
                       (kind == "llama3" && std::ranges::find(kLlama3, key) != kLlama3.end());
    // A factor of 1 changes nothing.
    const bool factor = key == "factor" || key == "attention_factor" || key == "mscale" || key == "mscale_all_dim";
    if (known || !rope.has(key) || (factor && rope.is(key, "1"))) continue;
    rope.refuse(key, fmt::format("rotary positions of rope_type {} have no such setting here", kind));
  }
}

}  // namespace

void read_rope(const ConfigReader& read, int64_t default_length, DecoderConfig& config) {
  const ConfigReader rope = rope_section(read);
  const std::string kind = kind_of(rope);
  check_rope_keys(rope, kind);
  config.rope_theta = number_of(read, rope, "rope_theta", 10000.0);
  if (config.rope_theta < 1) (rope.has("rope_theta") ? rope : read).refuse("rope_theta", "it must be at least 1");
  for (const ConfigReader* each : {&read, &rope})
    if (each->number("partial_rotary_factor", 1) != 1)
      each->refuse("partial_rotary_factor", "positions turn all of a head here");
  if (kind == "default") return;
  RopeScaling& scaling = config.rope_scaling;
  const auto required = [&](const char* key) {
    if (!rope.has(key)) rope.refuse(key, "rope_type llama3 needs it");
    return rope.number(key, 1);
  };
  scaling.factor = required("factor");
  scaling.low_frequency_factor = required("low_freq_factor");
  scaling.high_frequency_factor = required("high_freq_factor");
  constexpr const char* kLength = "original_max_position_embeddings";
  const int64_t positions = read.integer("max_position_embeddings", 1, kMaxLength, default_length);
  scaling.original_length = rope.integer(kLength, 1, kMaxLength, read.integer(kLength, 1, kMaxLength, positions));
  if (rope.has(kLength) && read.has(kLength) && scaling.original_length != read.integer(kLength, 1, kMaxLength))
    rope.refuse(kLength, fmt::format("and next to it {} is {}: remove one of them", kLength, read.text_of(kLength)));
  if (scaling.factor < 1) rope.refuse("factor", "it must be at least 1");
  if (scaling.high_frequency_factor <= scaling.low_frequency_factor)
    rope.refuse("high_freq_factor", "it must be above low_freq_factor");
}

}  // namespace plimsoll::weights
