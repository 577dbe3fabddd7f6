// Declares the keys that several types of data have: held-out parts, structures in an image, the tokenizer.
#pragma once

#include <string>
#include <vector>

#include "job/keys/keys.h"

namespace plimsoll::job {

/// Returns data.test_fraction and data.evaluate_on.
std::vector<Key> held_out_keys();

/// Throws UserError if the job evaluates on a test part that does not exist. `other` is the end of the message, if the
/// kind of data has another way to hold a test part out.
void check_held_out(const Job& job, const KeyLocations& locations, const char* other = "");

}  // namespace plimsoll::job

namespace plimsoll {

inline SlicesConfig& part(Job& job, SlicesConfig*) {
  return job.data.slices;
}

}  // namespace plimsoll

namespace plimsoll::job {

/// Returns the keys of the structures to find in an image, for slices of volumes and for pictures: data.structures,
/// min_pixels, augment, prompt and answer.
std::vector<Key> structure_keys();

/// Throws UserError for invalid structures, and for a prompt or an answer with more than one placeholder for a name;
/// with `named` a prompt must have one.
void check_structures(const Job& job, const KeyLocations& locations, bool named);

/// Returns the settings of structures that a checkpoint stores, without data.augment.
std::vector<Setting> structure_settings(const Job& job);

/// Returns the settings of slices and pictures that must be the same on all ranks.
std::vector<Setting> shared_keys_of_structures(const Job& job);

/// Returns data.tokenizer and data.tokenizer_file.
std::vector<Key> tokenizer_keys();

/// Throws UserError if the tokenizer needs a file and none is named.
void check_tokenizer(const Job& job, const KeyLocations& locations);

}  // namespace plimsoll::job
