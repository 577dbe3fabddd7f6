// Finds the address by which other hosts reach this one.
#pragma once

#include <string>

namespace plimsoll {

/// Returns the address of this host on the route to `host`:`port`, in numbers: "10.0.0.3", or "127.0.0.1" if the name
/// is that of this host. Returns an empty text if there is no route. Sends nothing.
std::string address_towards(const std::string& host, int port);

}  // namespace plimsoll
