// Declares the description of a type of model and of a type of data for the job file, and their lists. Each type has
// a file with one function.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "job/keys/keys.h"

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

/// The number of rows of a language model's embedding, which follows from the tokenizer if the job does not set it.
struct VocabularyKey {
  const char* key = nullptr;  ///< "model.vocab_size"
  int64_t& (*rows)(Job&) = nullptr;
};

/// A part of the model whose weights may have a dtype of their own.
struct PartDtype {
  const char* key = nullptr;      ///< "model.llm.dtype"
  const char* meaning = nullptr;  ///< "the language model's weights"
  std::optional<DType> (*value)(const Job&) = nullptr;
};

/// A fraction of each sample that a job reads, as a key that can be reduced to save memory.
struct ReducibleFraction {
  const char* key = nullptr;      ///< "data.train_ratio_of_vectors"
  const char* meaning = nullptr;  ///< "of each series' vectors"
  double (*value)(const Job&) = nullptr;
};

/// A module whose activations alone are recomputed.
struct CheckpointedModule {
  const char* key = nullptr;     ///< key that turns it on: "model.llm.use_gradient_checkpointing"
  const char* module = nullptr;  ///< "llm"
  bool (*value)(const Job&) = nullptr;
};

struct ModelKind {
  std::string type;       ///< value of `model.type`
  std::string meaning;    ///< help text for `--help`: "a decoder-only transformer"
  std::vector<Key> keys;  ///< model.*; another kind may have a key of the same name
  /// Throws UserError for values that contradict each other, or for a model whose bytes cannot be counted.
  void (*check)(const Job&, const KeyLocations&) = nullptr;
  std::vector<std::string> data_types;  ///< types of data that it learns from, in addition to synthetic
  /// Returns the settings that a checkpoint stores: all that change the losses and do not show in the tensors' shapes.
  std::vector<Setting> (*origin)(const Job&) = nullptr;
  std::vector<ReducibleKey> reducible_keys = {};  ///< numbers that `plimsoll plan --what-if` reduces
  bool reads_token_windows = false;               ///< true: a sample is data.sequence_length tokens of a text
  std::optional<VocabularyKey> vocabulary = {};   ///< empty: the model reads no tokens
  std::string decoder_layers = {};                ///< path of the layers of a decoder or of Mamba; empty: none
  /// Sets the architecture from the configuration files of weights; nullptr: the model has no such files. Paths are
  /// relative to the folder.
  void (*apply_architecture)(Job&, const KeyLocations&, const std::filesystem::path&) = nullptr;
  const char* vision_weights_key = "model.vision.weights";  ///< key of ModelConfig::vision_weights
  std::optional<PartDtype> part_dtype = {};
  std::optional<ReducibleFraction> reducible_fraction = {};
  std::optional<CheckpointedModule> checkpointed_module = {};
};

/// Returns all kinds in the order of the reference page; the first is the default.
const std::vector<ModelKind>& model_kinds();
const ModelKind& model_kind(const std::string& type);

/// Returns whether a model of this kind learns from this type of data.
bool learns_from(const ModelKind& kind, const std::string& data_type);

/// Returns the keys of a decoder at `section`: "model", "model.llm".
std::vector<Key> decoder_keys(const std::string& section, const std::function<DecoderConfig&(Job&)>& place);
/// Returns the keys of a decoder that is a part of another model, at "model.llm": its own, and the source of its
/// weights.
std::vector<Key> language_model_keys(const std::function<DecoderConfig&(Job&)>& place);
/// Throws UserError if heads and widths of a decoder at `section` do not divide, or if its bytes with `at_a_time`
/// sequences of `sequence` tokens cannot be counted.
void check_decoder(const DecoderConfig& config, const std::string& section, int64_t sequence, int64_t at_a_time,
                   const KeyLocations& locations);
/// Sets all but the dropout of `config`, the decoder at `section`, from `file`: a config.json, its folder, or a GGUF
/// file. Throws UserError if keys of the job contradict the file, with all such keys; and as read_architecture() does.
/// `weights`: the weights to start from, with which the file is compared; empty: none. `notes` gets what the file has
/// and the model does not use.
void apply_decoder_file(const std::filesystem::path& file, const std::filesystem::path& weights,
                        const std::string& section, const KeyLocations& locations, DecoderConfig& config,
                        std::vector<std::string>& notes);
/// Does this for a language model that is a part of another model, from model.llm.config or model.llm.weights.
void apply_language_model_file(const ModelConfig& model, DecoderConfig& config, const KeyLocations& locations,
                               const std::filesystem::path& directory, std::vector<std::string>& notes);
/// Returns the settings of a decoder that a checkpoint stores.
std::vector<Setting> decoder_origin(const DecoderConfig& config, const std::string& section);

/// Throws UserError with a place of the job file and `what`.
[[noreturn]] void refuse(const std::string& place, const std::string& what);

/// Returns the file with the architecture of the weights at `section` ("model", "model.llm"); empty if there is none.
/// Paths are relative to `directory`. Throws UserError for a file or a folder that does not exist.
std::filesystem::path architecture_file(const std::filesystem::path& weights, const std::filesystem::path& config,
                                        const std::string& section, const KeyLocations& locations,
                                        const std::filesystem::path& directory);

/// Throws UserError for all given keys of `stated` that differ from `found`; 0 for a size only means its default.
/// `for_each` visits the settings.
template <typename Config, typename ForEach>
void must_agree(const std::filesystem::path& file, const std::string& section, const KeyLocations& locations,
                const ForEach& for_each, Config stated, Config found) {
  std::vector<std::string> others;
  std::string first;
  for_each([&](const char* name, auto place) {
    const std::string key = section + "." + name;
    using Value = std::remove_cvref_t<decltype(place(stated))>;
    if (!locations.given(key) || place(stated) == place(found)) return;
    if constexpr (!std::is_same_v<Value, bool>)
      if (place(stated) == Value{}) return;
    if (first.empty()) first = key;
    others.push_back(fmt::format("{} is {} in the job, {} in the file", key, place(stated), place(found)));
  });
  if (others.empty()) return;
  refuse(locations.of({first}),
         fmt::format("the architecture is that of {}; leave these keys out, or make them agree\n  {}", file.string(),
                     fmt::join(others, "\n  ")));
}

/// A file or folder that a key names.
struct DataPath {
  const char* key;  ///< "data.labels"
  std::filesystem::path* path;
};

struct DataKind {
  std::string type;                                          ///< value of `data.type`
  std::string meaning;                                       ///< help text for `--help`
  std::vector<Key> keys;                                     ///< data.*; another kind may have a key of the same name
  void (*check)(const Job&, const KeyLocations&) = nullptr;  ///< nullptr: nothing to check
  /// Returns the files and folders of the job that are relative to data.root; nullptr: none except data.files.
  std::vector<DataPath> (*paths)(Job&) = nullptr;
  /// Returns the settings that a checkpoint stores: all that change the set of samples or their contents.
  std::vector<Setting> (*origin)(const Job&) = nullptr;
  /// Returns further settings that must be the same on all ranks, files by their names; nullptr: none.
  std::vector<Setting> (*shared_keys)(const Job&) = nullptr;
  bool from_files = true;          ///< false: samples are random, in the shapes of any model
  bool uses_cache_folder = false;  ///< true: opening the samples writes to data.cache_dir
};

/// Returns all kinds in the order of the reference page; the first is the default.
const std::vector<DataKind>& data_kinds();
const DataKind& data_kind(const std::string& type);

/// Returns the names of files, without their folders: "a.txt, b.txt".
std::string names_of_files(const std::vector<std::filesystem::path>& files);

}  // namespace plimsoll::job
