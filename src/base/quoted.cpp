#include "base/quoted.h"

#include <algorithm>

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

std::string few_names(const std::vector<std::string>& names) {
  constexpr size_t most = 12;
  std::string few;
  for (size_t i = 0; i < std::min(names.size(), most); ++i) few += (i == 0 ? "" : ", ") + one_line(names[i]);
  return names.size() > most ? few + ", ..." : few;
}

}  // namespace plimsoll
