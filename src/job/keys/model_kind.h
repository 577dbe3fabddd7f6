// Declares the description of a type of model for the job file: its keys, checks between them, and its types of data.
// Each type has a file with one function (decoder_kind.cpp, ...); job_step.cpp makes the step.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "job/keys/keys.h"
#include "job/values/key_locations.h"

namespace plimsoll::job {

/// A number of the model, or of its samples, that can be reduced to save memory.
struct ReducibleKey {
  std::string key;               ///< "model.bottleneck_dim"
  std::string meaning;           ///< "a narrower bottleneck"
  int64_t (*value)(const Job&);  ///< value in the job
  int64_t multiple = 1;          ///< smaller values are multiples of it
  /// Power with which activations grow with the number, if it belongs to the samples; 0: it belongs to the model.
  int sample_power = 0;
};

struct ModelKind {
  std::string type;       ///< value of `model.type`
  std::string meaning;    ///< help text for `--help`: "a decoder-only transformer"
  std::vector<Key> keys;  ///< model.*; another kind may have a key of the same name
  /// Throws UserError for values that contradict each other, or for a model whose bytes cannot be counted.
  void (*check)(const Job&, const KeyLocations&) = nullptr;
  std::vector<std::string> data_types;  ///< types of data that it learns from, in addition to synthetic
  /// Returns the settings that a checkpoint stores: all that change the losses and do not show in the tensors' shapes.
  std::map<std::string, std::string> (*origin)(const Job&) = nullptr;
  std::vector<ReducibleKey> reducible_keys = {};  ///< numbers that `plimsoll plan --what-if` reduces
};

ModelKind decoder_kind();
ModelKind mamba_kind();
ModelKind fmri_autoencoder_kind();
ModelKind gesture_ssm_kind();
ModelKind prompt_segmentation_kind();
ModelKind video_llm_kind();

/// Returns all kinds in the order of the reference page; the first is the default.
const std::vector<ModelKind>& model_kinds();
const ModelKind& model_kind(const std::string& type);

/// Returns the keys of a decoder at `section`: "model", "model.llm".
std::vector<Key> decoder_keys(const std::string& section, const std::function<DecoderConfig&(Job&)>& place);
/// Returns the keys of a decoder that is a part of another model, at "model.llm": its own, and the source of its
/// weights.
std::vector<Key> language_model_keys(const std::function<DecoderConfig&(Job&)>& place);
/// Throws UserError if heads and widths of a decoder at `section` do not divide, or if its bytes with `at_a_time`
/// sequences of `sequence` tokens cannot be counted.
void check_decoder(const DecoderConfig& config, const std::string& section, int64_t sequence, int64_t at_a_time,
                   const KeyLocations& locations);
/// Returns the settings of a decoder that a checkpoint stores.
std::map<std::string, std::string> decoder_origin(const DecoderConfig& config, const std::string& section);

/// Throws UserError with a place of the job file and `what`.
[[noreturn]] void refuse(const std::string& place, const std::string& what);

}  // namespace plimsoll::job
