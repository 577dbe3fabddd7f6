// Declares shell patterns on dotted names, and the search for the known word or file name nearest to a mistyped one.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

/// Returns true if the shell pattern matches `name` or one of its dotted prefixes: "layers.*.attention" matches
/// "layers.3.attention.qkv.weight". `*` stands for any characters, dots too, `?` for one, `[0-3]` for one of a range.
bool matches_path(const std::string& pattern, const std::string& name);

/// Returns up to `count` of the candidates, those with the smallest edit distance from `word` first.
std::vector<std::string> nearest_few(const std::string& word, const std::vector<std::string>& candidates, size_t count);

/// Bytes that a pattern may have: matching takes time in proportion to its length and the name's.
constexpr size_t kMaxPatternLength = 256;

/// Returns the Damerau-Levenshtein distance (optimal string alignment): the smallest number of letters inserted,
/// deleted, changed, or swapped with their neighbor that turns `a` into `b`. Upper and lower ASCII letters are equal.
/// Takes time in proportion to the product of the lengths.
size_t edit_distance(std::string_view a, std::string_view b);

/// Returns the candidate nearest to `word`, the first of several as near; nullopt if none is plausible. The distance
/// may be at most a third of the shorter of the two words, and 1 for words of up to five letters.
std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates);

/// Returns "; did you mean 'corpus.txt'?" with the nearest name in the folder of `path`, if one is plausible. Returns
/// "" if there is none, or if the folder cannot be read. Reads at most 4096 names.
std::string nearest_file_advice(const std::filesystem::path& path);

/// Returns advice for an entry of a list of files that does not exist. For a pattern, or several names in one entry, it
/// says how to list files; otherwise it is nearest_file_advice().
std::string absent_file_advice(const std::filesystem::path& path);

}  // namespace plimsoll
