// The names of a label volume's numbers.
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

/// Lines of a number and a name that ends with the line: "37 left hippocampus". Empty lines and those that begin with #
/// do not count. Throws UserError naming file and line: no number, no name, a number or a name that was there before.
std::vector<LabelName> read_label_names(const std::filesystem::path& file);

/// Those whose names match a pattern (base/glob.h), in the file's order. Throws UserError for a pattern that matches
/// none, with the nearest name.
std::vector<LabelName> matching(const std::vector<LabelName>& all, const std::vector<std::string>& patterns,
                                const std::filesystem::path& file);

}  // namespace plimsoll
