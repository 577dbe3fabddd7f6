// Declares groups of the table of keys that are in files of their own.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "job/keys/keys.h"
#include "plimsoll/trace.h"

namespace plimsoll::job {

/// Returns the keys optimizer.*
std::vector<Key> optimizer_keys();

/// Returns the keys freeze, train, lora.*, quantize.*
std::vector<Key> fine_tuning_keys();

/// Returns the key `key`: the dtype in which the weights of a model, or of a part, are stored. `place` returns the
/// job's field for it.
Key weight_dtype(std::string key, std::function<std::optional<DType>&(Job&)> place);

}  // namespace plimsoll::job
