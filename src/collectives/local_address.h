// The address by which other hosts reach this one.
#pragma once

#include <string>

namespace plimsoll {

/// The address of this host on the way to `host`:`port`, in numbers: "10.0.0.3", "127.0.0.1" if the host is this one by
/// that name. Empty if there is no way. Nothing is sent.
std::string address_towards(const std::string& host, int port);

}  // namespace plimsoll
