// Recognizes a file by its first bytes, for the message of a reader that was given a file of another kind.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace plimsoll {

inline constexpr std::string_view kGzip = "a gzip file";

/// Returns "a PNG picture", "a NumPy array (.npy)", ...; "" if the bytes are of no known kind. `bytes` are the file's
/// first; at most 265 of them are read.
std::string_view file_kind(std::span<const std::byte> bytes);

/// Returns the kind of a file; "" if it cannot be read.
std::string_view file_kind(const std::filesystem::path& file);

/// Returns the kind of bytes that are no text in UTF-8: that of file_kind(), or "text in UTF-16"; "" if they may be
/// text. UTF-16 without a byte order mark is recognized if every second byte is 0, as in text of ASCII characters;
/// UTF-32 without a mark, if every four bytes are a character.
/// `bytes` are the file's first; at most 265 of them are read.
std::string_view non_text_kind(std::span<const std::byte> bytes);

/// Returns a remedy for a file of a kind of non_text_kind(): "unpack it first", "convert it to UTF-8: iconv ...".
std::string text_remedy(std::string_view kind, const std::filesystem::path& file);

}  // namespace plimsoll
