// Keys of the kinds of data that hold out a third part: settings are chosen by one, and figures stated of the other.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "job/keys/keys.h"
#include "job/values/places.h"

namespace plimsoll::job {

/// data.test_fraction and data.evaluate_on.
std::vector<Key> held_out_keys();

/// Refuses to evaluate on a test part that is not there.
void check_held_out(const Job& job, const Places& places);

/// What a checkpoint remembers of them: what is trained on, not what is looked at.
std::map<std::string, std::string> origin_of_held_out(const Job& job);

}  // namespace plimsoll::job
