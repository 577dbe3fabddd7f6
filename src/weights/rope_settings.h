// Declares the reading of rotary positions from a config.json of transformers.
#pragma once

#include "plimsoll/models.h"
#include "weights/config_reader.h"

namespace plimsoll::weights {

/// Sets rope_theta and rope_scaling from `rope_parameters` (transformers 5) or `rope_scaling` and the keys next to
/// them. `usual_length`: max_position_embeddings of a file without that key. Throws UserError for a kind other than
/// default and llama3, for a key that the kind does not have, and for two keys that contradict each other.
void read_rope(const ConfigReader& read, int64_t default_length, DecoderConfig& config);

}  // namespace plimsoll::weights
