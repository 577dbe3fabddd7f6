// Finds the folder of results that are kept for later runs.
#pragma once

#include <filesystem>

namespace plimsoll {

/// Returns $XDG_CACHE_HOME/plimsoll, or ~/.cache/plimsoll; empty if neither is an absolute path.
std::filesystem::path cache_folder();

}  // namespace plimsoll
