// Groups of the table of keys that stand in files of their own.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "job/keys/keys.h"
#include "plimsoll/trace.h"

namespace plimsoll::job {

/// optimizer.*
std::vector<Key> optimizer_keys();

/// freeze, train, lora.*, quantize.*
std::vector<Key> fine_tuning_keys();

/// `key`: the type that a model's weights, or a part's, are held in. `place` says where it goes.
Key weight_dtype(std::string key, std::function<std::optional<DType>&(Job&)> place);

}  // namespace plimsoll::job
