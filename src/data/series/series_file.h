// Files of labelled time series, whatever their format: .ts (files/ts_file.h), tables (data/series/series_table.h),
// NumPy's.
#pragma once

#include <filesystem>

#include "files/ts_file.h"

namespace plimsoll {

/// By the name's end:
/// - .ts, or anything else: as read_ts_file() has it;
/// - .csv, .tsv: as read_series_table() has it;
/// - .npy: numbers [series, vectors, channels], or [series, vectors] of one channel; `labels` names a .npy file of
///   whole numbers [series];
/// - .npz: arrays `vectors` (or x, X) and `labels` (or y) of these shapes, and, where series differ in length,
///   `lengths`: whole numbers [series], how many vectors of each count.
///
/// Throws UserError (failure) that names the file: as these readers do, arrays of other shapes, classes that are no
/// whole numbers, labels missing, or given where a file has its own. What is wrong with a single series goes to `bad`.
TsFile read_series_file(const std::filesystem::path& file, const std::filesystem::path& labels, const BadSeries& bad);

}  // namespace plimsoll
