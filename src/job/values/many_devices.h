// Answers words of programs that train on several devices, and of their launchers, with keys of ours.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "job/values/aliases.h"

namespace plimsoll::job {

/// An answer to a word with a value.
struct DevicesAnswer {
  enum class Kind : uint8_t {
    meant,    ///< it is `key` with the value `what`
    taken,    ///< it asks for nothing; `what` says why: "has nothing to do here"
    refused,  ///< it asks for what does not exist; `what` says what to do instead
  };
  Kind kind = Kind::taken;
  std::string what;
  std::string key = {};  ///< devices or strategy
};

/// Returns the answer to `word` ("num_gpus", "strategy", "zero_optimization.stage"; dashes as underscores, without
/// "trainer.") with the value `text` ("8", "ddp", "[0, 1]"). Returns nothing if the word is of no such program. A value
/// of a known word that has no meaning comes back as it is: the key's own check refuses it.
std::optional<DevicesAnswer> answer_of_devices(std::string_view word, std::string_view text);

/// Returns what other programs write as the value of our `devices` or `strategy` ("[0, 1]", "fsdp") in our words ("2",
/// "zero3"). Returns nothing for other keys, for an empty value and for words of ours. Throws UserError for what does
/// not exist.
std::optional<std::string> devices_word_of_others(const Value& value);

/// Returns the words as other programs' names for keys; those that end in ".*" stand for all that begin so.
std::vector<Alias> aliases_of_devices();

}  // namespace plimsoll::job
