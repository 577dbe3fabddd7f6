// The state of a training in a file: writes it, reads it, and says where a job keeps such files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace plimsoll {

class Training;  // plimsoll/training.h

/// Writes a started training to one safetensors file, whole or not at all: parameters, module buffers, optimizer state,
/// and the counters of steps and of the loss scale. Throws UserError (failure) if the disk refuses, and UserError
/// (usage) if the training is one of several ranks, which store slices.
void save_training(Training& training, const std::filesystem::path& file);

/// Reads a file of save_training() into a started training of the same step. Its next step has the bits that the saved
/// training's would have had. Reads all of it or, on any error, nothing. Throws UserError (failure) for a file that is
/// missing, damaged or none of Plimsoll's, and UserError (usage) that names the differences if it is of another model
/// or optimizer.
void load_training(Training& training, const std::filesystem::path& file);

/// Section `checkpoint` of a job file.
struct CheckpointConfig {
  std::filesystem::path directory;  ///< empty: no checkpoints
  int64_t every_n_steps = 0;        ///< 0: only at the end
  std::string resume = "auto";      ///< auto (the newest in the directory, if any) | never | a checkpoint's path
  int64_t keep = 2;                 ///< how many of the newest are kept; 0: all
};

}  // namespace plimsoll
