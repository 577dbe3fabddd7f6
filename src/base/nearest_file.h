// "Did you mean" for a file that is not there.
#pragma once

#include <filesystem>
#include <string>

namespace plimsoll {

/// "; did you mean 'corpus.txt'?": the nearest name beside `path`, where one is plausibly meant; "" where there is
/// none, or the folder cannot be read. Looks at no more than 4096 names.
std::string nearest_file_advice(const std::filesystem::path& path);

/// The same of a file that a list of them was to name: also for patterns, and for several names in one.
std::string absent_file_advice(const std::filesystem::path& path);

}  // namespace plimsoll
