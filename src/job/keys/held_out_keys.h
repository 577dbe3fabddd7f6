// Declares keys of the kinds of data that hold out a third part: settings are chosen by one held-out part, and final
// figures are measured on the other.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "job/keys/keys.h"
#include "job/values/key_locations.h"

namespace plimsoll::job {

/// Returns data.test_fraction and data.evaluate_on.
std::vector<Key> held_out_keys();

/// Throws UserError if the job evaluates on a test part that does not exist. `other` is the end of the message, if the
/// kind of data has another way to hold a test part out.
void check_held_out(const Job& job, const KeyLocations& locations, const char* other = "");

/// Returns the settings that a checkpoint stores: those of the training part, not of the evaluated part.
std::map<std::string, std::string> origin_of_held_out(const Job& job);

}  // namespace plimsoll::job
