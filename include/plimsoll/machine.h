// This machine: what it has, and how fast it was measured to be.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "plimsoll/cost_model.h"

namespace plimsoll {

struct MachineReport {
  std::string processor;                           ///< as the system names it, with libtorch's version
  std::string instructions;                        ///< what libtorch's kernels use: "AVX512"
  int cores = 0;                                   ///< that this process may run on
  int threads = 0;                                 ///< that rates are for
  std::optional<int64_t> available_memory;         ///< bytes
  CostModel cost;                                  ///< source: measured
  bool measured_now = false;                       ///< otherwise the rates are from the file
  size_t ops_timed = 0;                            ///< distinct ops with a time of their own
  std::filesystem::path folder;                    ///< of the measurements; empty: there is no place for them
  bool nvidia_driver = false, amd_driver = false;  ///< a library of theirs is there to be loaded
};

/// Measures this machine for `threads` CPU threads (0: all cores), once: what is on file is read, unless `again`. Takes
/// a few seconds and about 200 MiB where it measures.
MachineReport inspect_machine(int threads = 0, bool again = false);

}  // namespace plimsoll
