#include "weights/rope_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

namespace plimsoll::weights {
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
