// Declares the readers of files of labeled time series: .ts (files/ts_file.h), tables (.csv, .tsv) and NumPy
// archives.
#pragma once

#include <cstdint>
#include <filesystem>

#include "files/ts_file.h"

namespace plimsoll {

/// A column rises by one step, as the time does, if its steps differ by at most this fraction (float32 rounds times of
/// 10^3 steps) over at least this many lines.
constexpr double kStepTolerance = 1e-3;
constexpr int64_t kMinRisingLines = 8;

/// Values, names or columns that a message lists.
constexpr int64_t kMaxShown = 5;

/// Reads a file by the end of its name:
/// - .ts, or anything else: as read_ts_file();
/// - .csv, .tsv: as read_series_table();
/// - .npy: numbers [series, vectors, channels], or [series, vectors] of one channel; `labels` names a .npy file of
///   whole numbers [series];
/// - .npz: arrays `vectors` (or x, X) and `labels` (or y) of these shapes, and, if series differ in length,
///   `lengths`: whole numbers [series], the number of vectors of each that count.
///
/// Throws UserError (failure) that names the file, as these readers do. It also does so for arrays of other shapes,
/// classes that are no whole numbers, and labels that are missing, or given if a file has its own. Errors of a single
/// series go to `bad`.
TsFile read_series_file(const std::filesystem::path& file, const std::filesystem::path& labels, const BadSeries& bad);

/// Reads labeled time series from a table (.csv, .tsv), one line for each vector:
///
///     series,label,time,x,y
///     take1,swipe,0.00,0.1,0.2
///     take1,swipe,0.01,0.1,0.3
///     take2,circle,0.00,0.4,0.0
///
/// The first line names the columns. `series` (or sample, id) identifies the series, whose lines follow one another;
/// without it the file is one series. `label` (or class) is the same in all lines of a series; without it the folder's
/// name is the label: swipe/take1.csv. `time` must ascend and is used for nothing else. All other columns are channels.
/// An empty cell, '?' and NaN are missing values.
///
/// Throws UserError that names file and line: unreadable, no names in the first line, two columns of one name, no
/// channel, a series that continues after another. Errors of a single series go to `bad`.
TsFile read_series_table(const std::filesystem::path& file, const BadSeries& bad);

}  // namespace plimsoll
