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

/// Reads the names of a file in one of these forms:
/// - lines of a number and a name that ends with the line: "37 left hippocampus". A name may be in double quotes. Empty
///   lines and those that begin with # do not count;
/// - such lines with numbers of colors: three or four whole numbers up to 255 behind every name (FreeSurfer), or three,
///   four or six numbers before every name (FSLeyes, ITK-SNAP). They are left out with a note (files/data_notes.h);
/// - a table whose first line names the columns, with index and name among them (BIDS). Others are left out with a
/// note.
///
/// Throws UserError that names file and line: no number, no name, further columns, or a number or name that occurred
/// before.
std::vector<LabelName> read_label_names(const std::filesystem::path& file);

/// Returns the entries whose names match a pattern (base/glob.h), in the file's order. Throws UserError for a pattern
/// that matches none, with the nearest name.
std::vector<LabelName> matching(const std::vector<LabelName>& all, const std::vector<std::string>& patterns,
                                const std::filesystem::path& file);

}  // namespace plimsoll
