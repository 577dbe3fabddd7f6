// Declares CheckpointConfig: where and how often a training writes checkpoints, and which one it resumes from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace plimsoll {

/// Section `checkpoint` of a job file.
struct CheckpointConfig {
  std::filesystem::path directory;  ///< empty: no checkpoints
  int64_t every_n_steps = 0;        ///< 0: only at the end
  std::string resume = "auto";      ///< auto (the newest in the directory, if any) | never | a checkpoint's path
  int64_t keep = 2;                 ///< how many of the newest are kept; 0: all
};

}  // namespace plimsoll
