// Translates keys of programs that train on several devices, and of their launchers, to our keys.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "job/keys/aliases.h"

namespace plimsoll::job {

/// A reply to a word with a value.
struct DistributedKeyReply {
  enum class Kind : uint8_t {
    meant,    ///< it means `key` with the value `what`
    taken,    ///< it requests nothing; `what` says why: "has nothing to do here"
    refused,  ///< it requests a feature that does not exist; `what` has the remedy
  };
  Kind kind = Kind::taken;
  std::string what;
  std::string key = {};  ///< devices or strategy
};

/// Returns the reply to `word` ("num_gpus", "strategy", "zero_optimization.stage"; dashes as underscores, without
/// "trainer.") with the value `text` ("8", "ddp", "[0, 1]"). Returns nullopt if the word is of no such program. A value
/// of a known word that has no meaning is returned unchanged: the key's own check refuses it.
std::optional<DistributedKeyReply> reply_to_distributed_key(std::string_view word, std::string_view text);

/// Returns another program's value of our `devices` or `strategy` ("[0, 1]", "fsdp") in our words ("2", "zero3").
/// Returns nullopt for other keys, for an empty value and for words of ours. Throws UserError for a feature that does
/// not exist.
std::optional<std::string> canonical_distributed_value(const Value& value);

/// Returns the words as other programs' names for keys; a name that ends in ".*" matches all names with that prefix.
std::vector<Alias> distributed_aliases();

}  // namespace plimsoll::job
