// Declares the check of the keys of a config.json against the table of weights/config_facts.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "files/file_facts.h"
#include "weights/config_reader.h"

namespace plimsoll::weights {

/// Returns the row of a key for a family ("llama", "clip_vision_model"), or nullptr.
const FileFact* config_fact(std::string_view family, std::string_view key);

/// Returns the keys of a file of this family that no row has and that do not look as if they changed the model. Throws
/// UserError for a key that is refused, and for one that no row has but whose name is of attention, positions, norms,
/// scales, quantization or layers. Values that state no difference are accepted: null, false, "", [] and {}, and the
/// values that the row of a refused key allows.
std::vector<std::string> check_keys(const ConfigReader& read, std::string_view family);

/// Returns why a field is refused, for the end of a message.
std::string reason_to_refuse(const FileFact& fact);

/// Returns a note for the keys that check_keys() returned for the file `name`.
std::string unused_keys_note(const std::string& name, const std::vector<std::string>& keys);

}  // namespace plimsoll::weights
