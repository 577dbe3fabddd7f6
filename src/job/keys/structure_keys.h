// The keys of what is asked for in an image, which slices of volumes and pictures have.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "job/keys/keys.h"
#include "job/values/places.h"

namespace plimsoll::job {

/// data.structures, min_pixels, augment, prompt and answer.
std::vector<Key> structure_keys();

/// Throws UserError for structures that are none, and a prompt or an answer with more than one place for a name; with
/// `named` a prompt has one.
void check_structures(const Job& job, const Places& places, bool named);

/// What a checkpoint remembers of them.
std::map<std::string, std::string> origin_of_structures(const Job& job);

}  // namespace plimsoll::job
