// What a file is by its first bytes, for the message of a reader that was given another kind.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace plimsoll {

/// "a PNG picture", "a NumPy array (.npy)", ...; "" where the bytes are of nothing known. `bytes`: the file's first,
/// 132 of which are looked at.
std::string_view file_kind(std::span<const std::byte> bytes);

/// The same of a file, "" where it cannot be read.
std::string_view file_kind(const std::filesystem::path& file);

/// "; it is a PNG picture", for the end of a message, or "".
std::string what_it_is(const std::filesystem::path& file);

}  // namespace plimsoll
