// Declares the letters by which GPT-2 and its descendants write bytes, so that tokens are printable.
#pragma once

#include <string>
#include <string_view>

namespace plimsoll {

/// Appends the letters of `bytes`. The letter of a printable Latin-1 character is that character; the other bytes have
/// U+0100 on, in their order (a space is U+0120).
void append_letters(std::string_view bytes, std::string& letters);

/// Appends the bytes of such letters. Returns false if another letter is among them.
bool append_bytes_of_letters(std::string_view letters, std::string& bytes);

}  // namespace plimsoll
