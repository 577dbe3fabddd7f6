#include "base/quoted.h"

#include "base/text_width.h"

namespace plimsoll {

std::string one_line(std::string_view text) {
  constexpr size_t longest = 60;
  size_t end = text.size();
  if (end > longest) {
    end = longest;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  }
  std::string result = without_controls(text.substr(0, end));
  if (end < text.size()) result += "...";
  return result;
}

std::string in_quotes(std::string_view text) {
  return "'" + one_line(text) + "'";
}

}  // namespace plimsoll
