// Declares the translation of layer names that transformers, PEFT and other programs use into the names of the model at
// hand.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace plimsoll::model {

/// Returns the patterns of `paths` that hold the layers that the last part of `pattern` names in other programs
/// ("q_proj", "*.self_attn.v_proj", "all-linear"). Numbers become `*`: {"layers.*.attention.qkv"}. Returns an empty
/// list if the model has no such layer, and nullopt if no known program uses the name.
std::optional<std::vector<std::string>> own_names(const std::string& pattern, const std::vector<std::string>& paths);

/// Returns how the model holds `pattern` and its neighbors: "query, key and value are one matrix". Returns "" if the
/// layer has only another name.
std::string meaning_of_foreign(const std::string& pattern);

}  // namespace plimsoll::model
