// Declares devices that share a name: memory sizes and form factors of one card.
#pragma once

#include <string_view>
#include <vector>

#include "plimsoll/devices.h"

namespace plimsoll::catalogue {

/// Returns the devices that an alias of `device`, as the tables write it, may mean, in the catalogue's order. "a100"
/// and "m2" mean every size and form; "a100-80gb" means those of 80 GB. Returns only `device` if all of these are equal
/// for a plan ("a100-40gb").
std::vector<const DeviceSpec*> variants_called(const DeviceSpec& device, std::string_view alias);

}  // namespace plimsoll::catalogue
