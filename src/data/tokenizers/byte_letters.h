// The letters in which GPT-2 and its descendants write bytes, so that tokens can be seen.
#pragma once

#include <string>
#include <string_view>

namespace plimsoll {

/// Appends the letters of `bytes`: a byte that is a printable Latin-1 character is that one, the others are U+0100 on,
/// in their order (a space is U+0120).
void append_letters(std::string_view bytes, std::string& letters);

/// Appends the bytes that such letters stand for; false where there is another letter among them.
bool append_bytes_of_letters(std::string_view letters, std::string& bytes);

}  // namespace plimsoll
