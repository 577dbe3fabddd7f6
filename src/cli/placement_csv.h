// Reads and writes placement problems as CSV files, in the format that dynamic storage allocators exchange:
//
//     id,lower,upper,size            id,lower,upper,size,offset
//     a,0,2,16                  ->   a,0,2,16,0
//     b,1,3,8                        b,1,3,8,16
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/placement.h"

namespace plimsoll {

/// Buffers with names, and the other columns of their file.
struct PlacementTable {
  std::vector<std::string> columns;            ///< names in the header, as written
  std::vector<std::vector<std::string>> rows;  ///< for each buffer, the fields as written, one for each column
  std::vector<PlacementItem> items;            ///< in the order of the rows
};

/// Reads a table with a header that names at least id, lower, upper and size, in any order; other columns are kept. A
/// buffer is live in [lower, upper), of any integer unit, and takes `size` bytes. Spaces around fields, CRLF, a byte
/// order mark and blank lines are allowed; quotes are not. Throws UserError (FILE:LINE: what is wrong and what is
/// allowed) for a missing or repeated column, a row of another length, a number that is invalid or out of range, upper
/// < lower, a negative size and a repeated id. Throws UserError too for a file that cannot be read or is larger than 1
/// GiB.
PlacementTable read_placement_csv(const std::filesystem::path& path);

/// Parses a table from text; `name` replaces the file in messages.
PlacementTable parse_placement_csv(std::string_view text, const std::string& name);

/// Returns the table with a column `offset` at its end, or with new values in its existing one; lines end in "\n".
std::string to_csv(const PlacementTable& table, const Placement& placement);

}  // namespace plimsoll
