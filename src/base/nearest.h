// "Did you mean": the known word nearest to a mistyped one.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

/// Damerau-Levenshtein distance (optimal string alignment): the least number of letters put in, left out, changed, or
/// swapped with their neighbour that turns `a` into `b`. Upper and lower ASCII letters are the same.
/// Takes time in proportion to the product of the lengths.
size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate nearest to `word`, the first of several as near; nothing where none is plausibly meant: the distance
/// may be a third of the shorter of the two words, and 1 for words of up to five letters.
std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace plimsoll
