// Where what was worked out once is kept for the next run.
#pragma once

#include <filesystem>

namespace plimsoll {

/// $XDG_CACHE_HOME/plimsoll, or ~/.cache/plimsoll; empty where neither is known.
std::filesystem::path cache_folder();

}  // namespace plimsoll
