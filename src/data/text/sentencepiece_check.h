// Declares the check of a SentencePiece model, and of its rules for characters, before libsentencepiece loads it.
//
// Debian's 0.1.97 trusts a model: it reads outside of a damaged charsmap, has room for 64 symbols that begin one
// another, and recurses once for each byte of a piece (docs/decisions/2026-11-25-sentencepiece-checked.md).
#pragma once

#include <string>
#include <string_view>

namespace plimsoll {

/// Returns what is wrong with the bytes of a model (protobuf's wire format, sentencepiece_model.proto), or "" if
/// libsentencepiece may load them.
///
/// Checked: fields are inside their messages; 1 to 2^20 pieces, each with 1 to 1024 bytes of valid UTF-8 without
/// zero bytes, a finite score and a known type; at most 64 symbols of the user that are prefixes of one another;
/// charsmaps, as charsmap_problem() does; at most 64 KiB of self tests, which loading would run. Takes time near linear
/// in the bytes.
std::string sentencepiece_model_problem(std::string_view model);

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
