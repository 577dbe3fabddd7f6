// Declares the check of a SentencePiece model's rules for characters, which libsentencepiece follows unchecked.
#pragma once

#include <string>
#include <string_view>

namespace plimsoll {

/// Returns what is wrong with a `precompiled_charsmap`, or "" if libsentencepiece may use it. A charsmap has three
/// parts: the size in bytes of a double-array trie (32 bits), the trie's units (darts-clone), and replacements that
/// each end in a zero byte.
///
/// Checked: the trie has whole blocks of 256 units and no cycle, each place that a text can lead to is a unit, at most
/// 32 keys are prefixes of one key (the library has room for 32), and each replacement is within the bytes, ends, is
/// valid UTF-8 and has at most 16 bytes a byte of its key (NFKC's longest has 11). Takes time and memory linear in the
/// bytes.
std::string charsmap_problem(std::string_view charsmap);

}  // namespace plimsoll
