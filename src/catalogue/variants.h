// Devices that share a name: sizes of memory and forms of one card.
#pragma once

#include <string_view>
#include <vector>

#include "plimsoll/devices.h"

namespace plimsoll::catalogue {

/// The devices that an alias of `device`, as the tables write it, may mean: of "a100", of "m2" every size and form
/// there is, of "a100-80gb" those of 80 GB, in the catalogue's order. Only `device` where all of these are the same to
/// a plan
/// ("a100-40gb").
std::vector<const DeviceSpec*> variants_called(const DeviceSpec& device, std::string_view alias);

}  // namespace plimsoll::catalogue
