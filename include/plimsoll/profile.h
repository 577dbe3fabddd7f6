// A profile of a training: some of its steps, timed op by op, as a file for a trace viewer.
#pragma once

#include <cstdint>
#include <filesystem>

namespace plimsoll {

/// Which steps are timed, and the file for them. Costs two readings of the clock an op in these steps (some 0.1 µs) and
/// 24 bytes of memory; the other steps cost nothing.
struct ProfileOptions {
  /// Chrome's trace event format (JSON), which ui.perfetto.dev and chrome://tracing show. Some 300 bytes an op and
  /// step; whole or absent.
  std::filesystem::path file;
  int64_t first_step = 2;  ///< counted from 1, over this run; in the first, scratch is learned and pages are made
  int64_t steps = 3;
};

}  // namespace plimsoll
