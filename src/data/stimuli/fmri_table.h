// Declares the reader of an fMRI series in a table: a line for each volume, a column for each region.
//
//     left,right            names: if no cell of the first line is a number
//     100.2,98.7
//     100.4,98.1
#pragma once

#include <filesystem>

#include "data/stimuli/fmri_series.h"

namespace plimsoll {

/// Reads a table (files/csv_file.h); numbers may lie between blanks. Names in the first line, and an index that is left
/// out because its column has no name and counts, are noted (files/data_notes.h). Throws UserError (failure) that names
/// the file, line and cell: unreadable, ragged, no number, a first line that counts as names do, a first column that
/// counts as an index does, and a column without a name that does not count.
FmriSeries read_fmri_table(const std::filesystem::path& path);

}  // namespace plimsoll
