// Converts the words of a job file to lower case, to compare them.
#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

namespace plimsoll::job {

/// Returns `text` with its ASCII letters in lower case.
inline std::string ascii_lower_case(std::string_view text) {
  std::string all(text);
  std::ranges::transform(all, all.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return all;
}

}  // namespace plimsoll::job
