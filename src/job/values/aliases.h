// Names that other programs have for our keys: a file or an override may use them, and is answered with ours.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "job/values/values.h"

namespace plimsoll::job {

struct Alias {
  std::string name;    ///< "accumulate_grad_batches", "fp16.enabled"
  std::string origin;  ///< "Lightning", "Hugging Face", "DeepSpeed", "torchtune"
  std::string key;     ///< ours; empty: there is none, `advice` says what to do
  /// The value in our words; nullptr: as it stands. An empty result: the value asks for nothing. Throws UserError.
  /// Where there is no key of ours, what is said to the value, which is taken: "is so here in any case".
  std::optional<std::string> (*convert)(const Value& value) = nullptr;
  std::string advice = {};
  /// Of a boolean, whose false says something too: what it is about. precision_claims.h has the kinds of precision.
  enum class Boolean : uint8_t { none, bf16, fp16, mixed, cpu } boolean = Boolean::none;
  bool general = false;  ///< gives way to another word for the same key: Accelerate's "distributed_type: FSDP"
};

const std::vector<Alias>& aliases();

/// The alias of that name, or of a family ("zero_optimization.*") that it belongs to; nullptr: there is none.
const Alias* find_alias(std::string_view name);

/// Our word for what other programs call the value of `value.key`, one of our keys: "bf16-mixed" for a precision of
/// "bf16". Nothing where the value is no word, or none of theirs.
std::optional<std::string> word_of_others(const Value& value);

/// Whether aliases begin with `name` and a dot: "training", "fp16".
bool is_alias_section(std::string_view name);

}  // namespace plimsoll::job
