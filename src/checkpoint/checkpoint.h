// Declares checkpoints: everything a run needs to continue as if it had never stopped, in one safetensors file.
//
//     run/step-00000100.safetensors    tensors: parameters, module buffers, optimizer state, by name, a checksum each
//                                      metadata "plimsoll.checkpoint": step, position in the data, counters, origin,
//                                      facts about the data (data_facts.h)
//
// Bounds: the file is mapped, and its header takes at most the bytes that safetensors_header.h allows. The description
// has at most 16 MiB and 16 levels.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/data_facts.h"
#include "plimsoll/options.h"

namespace plimsoll {

struct SlicedState;  // checkpoint/checkpoint_state.h

/// Type of Training::state(): tensors in the arena by name.
using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// Data of a checkpoint other than its tensors.
struct CheckpointInfo {
  int64_t step = 0;                             ///< steps done
  int64_t position = 0;                         ///< windows of the data read, counted over all epochs
  int64_t epoch = 0;                            ///< epoch of that position; for display only
  std::map<std::string, std::string> counters;  ///< Training::counters()
  /// Settings of the job, by key of the job file: job::origin_of(). The file has `model.revision` without the
  /// explanation that follows its number.
  std::map<std::string, std::string> origin;
  /// Facts about the data; nullopt: an earlier version wrote the file, or a program's own training
  /// (plimsoll/training.h), whose data are not known.
  std::optional<DataFacts> data = std::nullopt;
};

/// Writes a checkpoint, whole or not at all. Throws UserError if it cannot be written.
void write_checkpoint(const std::filesystem::path& file, const CheckpointInfo& info, const NamedTensors& state);
/// Writes a checkpoint of a state of which other ranks have slices; they call send_slices() during the call.
void write_checkpoint(const std::filesystem::path& file, const CheckpointInfo& info, const NamedTensors& state,
                      const SlicedState& sliced);

/// Reads a checkpoint into `state`: all of it or, on an error, nothing. There is one exception, because a second copy
/// of `state` would take its memory again. If another program cuts the file after its checksums were verified, all of
/// `state` becomes not-a-number (whole numbers: 0), so that no training continues with half of it. Throws UserError
/// (failure) for a file that is missing, truncated, corrupt or no checkpoint of ours. Throws UserError (usage) that
/// names every difference (up to a few) in settings, tensor names, sizes and dtypes if it is another job's, by
/// `origin`. Optimizer state of other formats is converted if that is exact (checkpoint_state.h). `accept` is called
/// with the description before any tensor is written to, and may throw.
CheckpointInfo read_checkpoint(const std::filesystem::path& file, const std::map<std::string, std::string>& origin,
                               const NamedTensors& state,
                               const std::function<void(const CheckpointInfo&)>& accept = {});
/// Reads a checkpoint on a rank that has slices: they are copied from the whole tensors of the file, for any number of
/// ranks that wrote it. Slices of optimizer state are not converted to another format. `data`: the job's data, which
/// must be those of the checkpoint unless they may differ; nullptr: only the keys of the origin are compared.
CheckpointInfo read_checkpoint(const std::filesystem::path& file, const std::map<std::string, std::string>& origin,
                               const NamedTensors& state, const std::function<void(const CheckpointInfo&)>& accept,
                               const SlicedState& sliced, const DataOfJob* data = nullptr);

/// Returns the description in a checkpoint. Throws as read_checkpoint() for a file that is none of ours. Reads no
/// tensor.
CheckpointInfo describe_checkpoint(const std::filesystem::path& file);

/// Returns the value of one key of the job file in a checkpoint's origin; nullopt if it is not there. Throws as
/// read_checkpoint() for a file that is none of ours. Reads no tensor.
std::optional<std::string> checkpoint_origin(const std::filesystem::path& file, const std::string& key);

/// Throws UserError (usage) that names every difference (up to a few) if the checkpoint is of another model than the
/// job with this `origin` (job::origin_of()). Compares the keys of `model` only. The size of the vocabulary, which the
/// tokenizer decides, and the weights of the losses may differ.
void require_same_model(const std::map<std::string, std::string>& origin, const std::filesystem::path& checkpoint);

/// Returns the file that the job resumes from, if any. Throws UserError (usage) if the directory has checkpoints of
/// later steps, because they would be taken for this run's.
std::optional<std::filesystem::path> checkpoint_to_resume(const CheckpointConfig& config);

/// Writes the checkpoint into config.directory, which must exist, and then deletes all but the config.keep newest.
/// Returns its path.
std::filesystem::path save_checkpoint(const CheckpointConfig& config, const CheckpointInfo& info,
                                      const NamedTensors& state);
std::filesystem::path save_checkpoint(const CheckpointConfig& config, const CheckpointInfo& info,
                                      const NamedTensors& state, const SlicedState& sliced);

}  // namespace plimsoll
