// Finds the known word nearest to a mistyped one, for "did you mean".
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

/// Returns the Damerau-Levenshtein distance (optimal string alignment): the smallest number of letters inserted,
/// deleted, changed, or swapped with their neighbor that turns `a` into `b`. Upper and lower ASCII letters are equal.
/// Takes time in proportion to the product of the lengths.
size_t edit_distance(std::string_view a, std::string_view b);

/// Returns the candidate nearest to `word`, the first of several as near; nullopt if none is plausible. The distance
/// may be at most a third of the shorter of the two words, and 1 for words of up to five letters.
std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace plimsoll
