// Words of programs that train on several devices, and of their launchers: each is answered with what there is here.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "job/values/aliases.h"

namespace plimsoll::job {

struct DevicesAnswer {
  bool refused;      ///< it asks for what is not there; else it says what is so here in any case
  std::string what;  ///< "asks for several devices, which is not there yet; ..."
};

/// What to say to `word` ("num_gpus", "strategy", "zero_optimization.stage"; dashes as underscores, without "trainer.")
/// with the value `text` ("8", "ddp", "[0, 1]"). Nothing where the word is of no such program.
std::optional<DevicesAnswer> answer_of_devices(std::string_view word, std::string_view text);

/// The words as other programs' names for keys; those that end in ".*" stand for all that begin so.
std::vector<Alias> aliases_of_devices();

}  // namespace plimsoll::job
