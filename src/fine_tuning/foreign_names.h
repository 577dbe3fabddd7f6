// What transformers, PEFT and others call the layers of a model, answered with what the model at hand calls them.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace plimsoll::model {

/// Where the last part of `pattern` is a name of other programs ("q_proj", "*.self_attn.v_proj", "all-linear"): the
/// patterns of `paths` that hold what it means, numbers as `*`: {"layers.*.attention.qkv"}. Empty where the model has
/// nothing of the kind; nothing where the name is of no program that is known.
std::optional<std::vector<std::string>> own_names(const std::string& pattern, const std::vector<std::string>& paths);

/// What `pattern` and its neighbours are held as: "query, key and value are one matrix"; "" where it is just renamed.
std::string meaning_of_foreign(const std::string& pattern);

}  // namespace plimsoll::model
