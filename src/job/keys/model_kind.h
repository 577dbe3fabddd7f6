// What the job file knows of each type of model: its keys, what they must hold to together, and what data it learns
// from. One function a file (decoder_kind.cpp, ...); job_step.cpp makes the step.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "job/keys/keys.h"
#include "job/values/places.h"

namespace plimsoll::job {

/// A number of the model, or of its samples, that a smaller one of costs less.
struct Shrink {
  std::string key;               ///< "model.bottleneck_dim"
  std::string meaning;           ///< "a narrower bottleneck"
  int64_t (*value)(const Job&);  ///< as the job has it
  int64_t multiple = 1;          ///< smaller ones are multiples of it
  /// It is of the samples, and activations grow with this power of it; 0: it is of the model.
  int sample_power = 0;
};

struct ModelKind {
  std::string type;       ///< of `model.type`
  std::string meaning;    ///< for `--help`: "a decoder-only transformer"
  std::vector<Key> keys;  ///< model.*; another kind may have a key of the same name
  /// Throws UserError for values that do not go together, or whose bytes cannot be counted.
  void (*check)(const Job&, const Places&) = nullptr;
  std::vector<std::string> data_types;  ///< that it learns from, beside synthetic
  /// What a checkpoint remembers of the configuration: all that changes the losses and does not stand in the tensors'
  /// shapes.
  std::map<std::string, std::string> (*origin)(const Job&) = nullptr;
  std::vector<Shrink> shrinks = {};  ///< what `plimsoll plan --what-if` tries
};

ModelKind decoder_kind();
ModelKind mamba_kind();
ModelKind fmri_autoencoder_kind();
ModelKind gesture_ssm_kind();
ModelKind prompt_segmentation_kind();
ModelKind video_llm_kind();

/// In the order of the reference page; the first is the default.
const std::vector<ModelKind>& model_kinds();
const ModelKind& model_kind(const std::string& type);

/// The keys of a decoder that stands at `section`: "model", "model.llm".
std::vector<Key> decoder_keys(const std::string& section, const std::function<DecoderConfig&(Job&)>& place);
/// The keys of a decoder that is a part of another model, at "model.llm": its own, and where its weights come from.
std::vector<Key> language_model_keys(const std::function<DecoderConfig&(Job&)>& place);
/// Throws UserError where heads and widths of such a decoder do not divide, or its bytes with sequences of `sequence`
/// tokens, so many at a time, cannot be counted.
void check_decoder(const DecoderConfig& config, const std::string& section, int64_t sequence, int64_t at_a_time,
                   const Places& places);
/// What a checkpoint remembers of it.
std::map<std::string, std::string> decoder_origin(const DecoderConfig& config, const std::string& section);

/// UserError at a place of the job file.
[[noreturn]] void refuse(const std::string& place, const std::string& what);

}  // namespace plimsoll::job
