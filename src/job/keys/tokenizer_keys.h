// Declares the keys of the tokenizer, which several types of data have.
#pragma once

#include <vector>

#include "job/keys/keys.h"
#include "job/values/key_locations.h"

namespace plimsoll::job {

/// Returns data.tokenizer and data.tokenizer_file.
std::vector<Key> tokenizer_keys();

/// Throws UserError if the tokenizer needs a file and none is named.
void check_tokenizer(const Job& job, const KeyLocations& locations);

}  // namespace plimsoll::job
