#include "base/quoted.h"

namespace plimsoll {

std::string one_line(std::string_view text) {
  constexpr size_t longest = 60;
  size_t end = text.size();
  if (end > longest) {
    end = longest;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  }
  std::string result;
  for (char c : text.substr(0, end)) {
    const auto code = static_cast<unsigned char>(c);
    result += code < 0x20 || code == 0x7F ? '?' : c;
  }
  if (end < text.size()) result += "...";
  return result;
}

std::string in_quotes(std::string_view text) {
  return "'" + one_line(text) + "'";
}

}  // namespace plimsoll
