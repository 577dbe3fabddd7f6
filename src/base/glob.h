// Declares shell patterns on dotted names.
#pragma once

#include <string>
#include <vector>

namespace plimsoll {

/// Returns true if the shell pattern matches `name` or one of its dotted prefixes: "layers.*.attention" matches
/// "layers.3.attention.qkv.weight". `*` stands for any characters, dots too, `?` for one, `[0-3]` for one of a range.
bool matches_path(const std::string& pattern, const std::string& name);

/// Returns up to `count` of the candidates, those with the smallest edit distance from `word` first.
std::vector<std::string> nearest_few(const std::string& word, const std::vector<std::string>& candidates, size_t count);

/// Bytes that a pattern may have: matching takes time in proportion to its length and the name's.
constexpr size_t kMaxPatternLength = 256;

}  // namespace plimsoll
