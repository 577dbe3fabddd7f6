// Declares names that other programs have for our keys. A file or an override may use them, and gets a note with our
// name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "job/keys/values.h"

namespace plimsoll::job {

struct Alias {
  std::string name;    ///< "accumulate_grad_batches", "fp16.enabled"
  std::string origin;  ///< "Lightning", "Hugging Face", "DeepSpeed", "torchtune"
  std::string key;     ///< our key; empty: there is none, `advice` has the remedy
  /// Returns the value in our words; nullptr: unchanged. An empty result: the value requests nothing. Throws UserError.
  /// If we have no such key, it returns the answer to a value that is accepted: "is so here in any case".
  std::optional<std::string> (*convert)(const Value& value) = nullptr;
  std::string advice = {};
  /// Subject of a boolean whose false has a meaning too. job/alias_booleans.h has the kinds of precision.
  enum class Boolean : uint8_t { none, bf16, fp16, mixed, cpu } boolean = Boolean::none;
  bool general = false;  ///< true: another word for the same key has priority: Accelerate's "distributed_type: FSDP"
};

const std::vector<Alias>& aliases();

/// Returns the alias of that name, or of its family ("zero_optimization.*"); nullptr: there is none.
const Alias* find_alias(std::string_view name);

/// Returns our word for another program's value of `value.key`, which is one of our keys: "bf16-mixed" for a precision
/// of "bf16". Returns nullopt if the value is not a word, or not another program's.
std::optional<std::string> canonical_value(const Value& value);

/// Returns true if aliases begin with `name` and a dot: "training", "fp16".
bool is_alias_section(std::string_view name);

}  // namespace plimsoll::job
