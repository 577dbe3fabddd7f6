// Names that other programs have for our keys: a file or an override may use them, and is answered with ours.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/job/values.h"

namespace plimsoll::job {

struct Alias {
  std::string name;    ///< "accumulate_grad_batches", "fp16.enabled"
  std::string origin;  ///< "Lightning", "Hugging Face", "DeepSpeed", "torchtune"
  std::string key;     ///< ours; empty: there is none, `advice` says what to do
  /// The value in our words; nullptr: as it stands. An empty result: the value asks for nothing. Throws UserError.
  std::optional<std::string> (*convert)(const Value& value) = nullptr;
  std::string advice = {};
};

const std::vector<Alias>& aliases();

/// The alias of that name, or nullptr.
const Alias* find_alias(std::string_view name);

/// Our word for what other programs call the value of `value.key`, one of our keys: "bf16-mixed" for a precision of
/// "bf16". Nothing where the value is no word, or none of theirs.
std::optional<std::string> word_of_others(const Value& value);

/// Whether aliases begin with `name` and a dot: "training", "fp16".
bool is_alias_section(std::string_view name);

}  // namespace plimsoll::job
