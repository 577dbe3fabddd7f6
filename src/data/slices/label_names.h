// Declares the names of a label volume's values.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace plimsoll {

struct LabelName {
  int64_t number = 0;
  std::string name;
};

/// Reads lines of a number and a name that ends with the line: "37 left hippocampus". Empty lines and those that begin
/// with # do not count. Throws UserError that names file and line: no number, no name, or a number or name that
/// occurred before.
std::vector<LabelName> read_label_names(const std::filesystem::path& file);

/// Returns the entries whose names match a pattern (base/glob.h), in the file's order. Throws UserError for a pattern
/// that matches none, with the nearest name.
std::vector<LabelName> matching(const std::vector<LabelName>& all, const std::vector<std::string>& patterns,
                                const std::filesystem::path& file);

}  // namespace plimsoll
