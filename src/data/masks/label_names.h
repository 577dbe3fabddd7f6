// Declares the names of a label volume's values.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "files/file_kind.h"

namespace plimsoll {

struct LabelName {
  int64_t number = 0;
  std::string name;
};

/// Reads the names of a file in one of these forms:
/// - lines of a number and a name that ends with the line: "37 left hippocampus". A name may be in double quotes. Empty
///   lines and those that begin with # do not count;
/// - such lines with numbers of colors: three or four whole numbers up to 255 behind every name (FreeSurfer), or three,
///   four or six numbers before every name (FSLeyes, ITK-SNAP). They are left out with a note (files/file_kind.h);
/// - a table whose first line names the columns, with index and name among them (BIDS). Others are left out with a
/// note.
///
/// Throws UserError that names file and line: no number, no name, further columns, or a number or name that occurred
/// before.
std::vector<LabelName> read_label_names(const std::filesystem::path& file);

/// Returns the entries whose names match a pattern (base/names.h), in the file's order. Throws UserError for a pattern
/// that matches none, with the nearest name.
std::vector<LabelName> matching(const std::vector<LabelName>& all, const std::vector<std::string>& patterns,
                                const std::filesystem::path& file);

}  // namespace plimsoll

namespace plimsoll::label_name_lists {

/// The treatment of each part of a file of label names (data.label_names).
inline constexpr FileFact kFacts[] = {
    {"list of label names", "number, name", "applied",
     "of each line; a number or a name that comes twice is refused; double quotes around a name are removed"},
    {"list of label names", "columns of colors", "ignored",
     "three or four numbers behind every name, or numbers before every name, as FreeSurfer, FSLeyes and ITK-SNAP "
     "write; a note says so"},
    {"list of label names", "further columns", "refused", "a name with a tab in it"},
    {"list of label names", "columns index and name", "applied",
     "in a table whose first line names them, as in BIDS; other columns are left out with a note"},
    {"list of label names", "lines that begin with #", "ignored", "comments"},
};
static_assert(are_complete(kFacts));

}  // namespace plimsoll::label_name_lists
