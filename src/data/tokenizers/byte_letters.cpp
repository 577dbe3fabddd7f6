#include "data/tokenizers/byte_letters.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace plimsoll {
namespace {

constexpr size_t kLetters = 0x144;

struct Letters {
  std::array<uint16_t, 256> of_byte{};
  std::array<int16_t, kLetters> byte_of{};  ///< -1: no byte
};

constexpr Letters kTable = [] {
  Letters table;
  table.byte_of.fill(-1);
  int other = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool seen = (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
    const int letter = seen ? byte : other++;
    table.of_byte[static_cast<size_t>(byte)] = static_cast<uint16_t>(letter);
    table.byte_of[static_cast<size_t>(letter)] = static_cast<int16_t>(byte);
  }
  return table;
}();

}  // namespace

void append_letters(std::string_view bytes, std::string& letters) {
  for (const char c : bytes) {
    const unsigned letter = kTable.of_byte[static_cast<unsigned char>(c)];
    if (letter < 0x80) {
      letters.push_back(static_cast<char>(letter));
    } else {  // two bytes of UTF-8
      letters.push_back(static_cast<char>(0xc0u | letter >> 6));
      letters.push_back(static_cast<char>(0x80u | (letter & 0x3fu)));
    }
  }
}

bool append_bytes_of_letters(std::string_view letters, std::string& bytes) {
  for (size_t i = 0; i < letters.size();) {
    const auto first = static_cast<unsigned char>(letters[i++]);
    size_t code = first;
    if (first >= 0x80) {
      if (first < 0xc0 || first >= 0xe0 || i == letters.size()) return false;
      code = (first & 0x1fu) << 6 | (static_cast<unsigned char>(letters[i++]) & 0x3fu);
    }
    if (code >= kTable.byte_of.size() || kTable.byte_of[code] < 0) return false;
    bytes.push_back(static_cast<char>(kTable.byte_of[code]));
  }
  return true;
}

}  // namespace plimsoll
