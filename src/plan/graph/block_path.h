// Computes the block of a model that a module path belongs to.
#pragma once

#include <algorithm>
#include <string>

namespace plimsoll {

/// Returns the path of the block: "encoder.layers.3" for "encoder.layers.3.norm"; "" if no part of the path is a
/// number.
inline std::string block_path(const std::string& module) {
  size_t begin = 0;
  while (begin < module.size()) {
    const size_t end = std::min(module.find('.', begin), module.size());
    const auto digit = [](char c) { return c >= '0' && c <= '9'; };
    if (std::all_of(module.begin() + static_cast<ptrdiff_t>(begin), module.begin() + static_cast<ptrdiff_t>(end),
                    digit))
      return module.substr(0, end);
    begin = end + 1;
  }
  return "";
}

}  // namespace plimsoll
