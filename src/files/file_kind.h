// Recognizes a file by its first bytes, for the message of a reader that was given a file of another kind.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace plimsoll {

/// Returns "a PNG picture", "a NumPy array (.npy)", ...; "" if the bytes are of no known kind. `bytes` are the file's
/// first; at most 132 of them are read.
std::string_view file_kind(std::span<const std::byte> bytes);

/// Returns the kind of a file; "" if it cannot be read.
std::string_view file_kind(const std::filesystem::path& file);

/// Returns "; it is a PNG picture", for the end of a message, or "".
std::string describe_file_type(const std::filesystem::path& file);

}  // namespace plimsoll
