// Declares the reader of labeled time series in tables (.csv, .tsv), one line for each vector:
//
//     series,label,time,x,y
//     take1,swipe,0.00,0.1,0.2
//     take1,swipe,0.01,0.1,0.3
//     take2,circle,0.00,0.4,0.0
//
// The first line names the columns. `series` (or sample, id) identifies the series, whose lines follow one another;
// without it the file is one series. `label` (or class) is the same in all lines of a series; without it the folder's
// name is the label: swipe/take1.csv. `time` must ascend and is used for nothing else. All other columns are channels.
// An empty cell, '?' and NaN are missing values.
#pragma once

#include <filesystem>

#include "files/ts_file.h"

namespace plimsoll {

/// Throws UserError that names file and line: unreadable, no names in the first line, two columns of one
/// name, no channel, a series that continues after another. Errors of a single series go to `bad`.
TsFile read_series_table(const std::filesystem::path& file, const BadSeries& bad);

}  // namespace plimsoll
