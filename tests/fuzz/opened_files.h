// Declares the list of files that were opened while it was watched, by any library.
#pragma once

#include <string>
#include <vector>

namespace plimsoll::fuzz {

/// Begins or ends watching. Files of the system (libraries, /proc, /sys, devices) are left out.
void watch_opened_files(bool on);

/// Returns the paths since the last call.
std::vector<std::string> take_opened_files();

}  // namespace plimsoll::fuzz
