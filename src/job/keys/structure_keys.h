// Declares the keys of the structures to find in an image, for slices of volumes and for pictures.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "job/keys/keys.h"
#include "job/values/key_locations.h"

namespace plimsoll {

inline SlicesConfig& part(Job& job, SlicesConfig*) {
  return job.data.slices;
}

}  // namespace plimsoll

namespace plimsoll::job {

/// Returns data.structures, min_pixels, augment, prompt and answer.
std::vector<Key> structure_keys();

/// Throws UserError for invalid structures, and for a prompt or an answer with more than one placeholder for a name;
/// with `named` a prompt must have one.
void check_structures(const Job& job, const KeyLocations& locations, bool named);

/// Returns the settings of structures that a checkpoint stores.
std::map<std::string, std::string> origin_of_structures(const Job& job);

/// Returns the settings of slices and pictures that must be the same on all ranks.
std::map<std::string, std::string> shared_keys_of_structures(const Job& job);

}  // namespace plimsoll::job
