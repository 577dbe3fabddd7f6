// Finds the file name nearest to a missing one, for "did you mean".
#pragma once

#include <filesystem>
#include <string>

namespace plimsoll {

/// Returns "; did you mean 'corpus.txt'?" with the nearest name in the folder of `path`, if one is plausible. Returns
/// "" if there is none, or if the folder cannot be read. Reads at most 4096 names.
std::string nearest_file_advice(const std::filesystem::path& path);

/// Returns advice for an entry of a list of files that does not exist. For a pattern, or several names in one entry, it
/// says how to list files; otherwise it is nearest_file_advice().
std::string absent_file_advice(const std::filesystem::path& path);

}  // namespace plimsoll
