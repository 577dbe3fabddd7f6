#include "job/inferred.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "files/data_memory.h"
#include "files/gguf.h"
#include "job/keys/keys.h"
#include "job/keys/kinds.h"
#include "plimsoll/error.h"
#include "plimsoll/job.h"
#include "weights/source.h"

namespace plimsoll::job {
namespace {

bool holds(const std::vector<std::string>& words, const std::string& word) {
  return std::ranges::find(words, word) != words.end();
}

const Value* given(const std::vector<Value>& values, std::string_view key) {
  const auto found = std::ranges::find(values, key, &Value::key);
  return found == values.end() ? nullptr : &*found;
}

/// Returns true if a model of that kind has all given keys, together with one of its types of data. `data_type`: the
/// named type, or "".
bool could_be(const ModelKind& kind, const std::vector<Value>& values, const std::string& data_type) {
  const auto learns = [&](const std::string& type) { return learns_from(kind, type); };
  if (!data_type.empty() && !learns(data_type)) return false;
  return std::ranges::all_of(values, [&](const Value& value) {
    const Key& key = *find_key(value.key);
    if (key.types.empty()) return true;
    return key.type_key == "model.type" ? holds(key.types, kind.type) : std::ranges::any_of(key.types, learns);
  });
}

/// Returns the first key that such a job has and one of the default kind does not.
const Value& what_tells(const std::vector<Value>& values, const std::string& data_type) {
  const ModelKind& default_kind = model_kinds().front();
  const auto found = std::ranges::find_if(values, [&](const Value& value) {
    return !could_be(default_kind, {value}, value.key == "data.type" ? data_type : "");
  });
  check(found != values.end(), "no key tells the type of model");
  return *found;
}

/// Sets the kind that all keys belong to, if they do not all belong to the default kind.
void take_model_type(const std::vector<Value>& values, Job& job, bool data_type_given) {
  const std::string data_type = data_type_given ? job.data.type : "";
  std::vector<const ModelKind*> kinds;
  for (const ModelKind& kind : model_kinds())
    if (could_be(kind, values, data_type)) kinds.push_back(&kind);
  // No kind: the keys contradict each other, which the check of each key reports.
  if (kinds.empty() || kinds.front() == &model_kinds().front()) return;
  const Value& telling = what_tells(values, data_type);
  const std::string place = telling.source->at(telling.node->line);
  if (kinds.size() > 1) {
    std::vector<std::string> types;
    for (const ModelKind* kind : kinds) types.push_back(kind->type);
    refuse(place, fmt::format("model.type is missing; {} is a key of several: set model.type: {}", telling.key,
                              joined(types, ", or model.type: ")));
  }
  job.model.type = kinds.front()->type;
  job.notes.push_back(
      fmt::format("{}: {} says that this is a job of model.type: {}", place, telling.key, job.model.type));
}

/// Sets the model's own type of data, unless a key of another type is given.
void take_data_type(const std::vector<Value>& values, Job& job) {
  for (const std::string& type : model_kind(job.model.type).data_types) {
    const bool all = std::ranges::all_of(values, [&](const Value& value) {
      const Key& key = *find_key(value.key);
      return key.type_key != "data.type" || holds(key.types, type);
    });
    if (!all) continue;
    job.data.type = type;
    return;
  }
}

}  // namespace

void infer_types(const std::vector<Value>& values, Job& job) {
  const Value *model = given(values, "model.type"), *data = given(values, "data.type");
  for (const Value* value : {model, data})
    if (value != nullptr) find_key(value->key)->read(*value, job);
  if (model == nullptr) take_model_type(values, job, data != nullptr);
  if (data == nullptr) take_data_type(values, job);
}

void apply_architecture(Job& job, const KeyLocations& locations, const std::filesystem::path& directory) {
  const ModelConfig& model = job.model;
  const ModelKind& kind = model_kind(model.type);
  if (!model.weights.empty())
    for (const auto& [key, path] :
         {std::pair{"model.llm.weights", &model.llm_weights}, {kind.vision_weights_key, &model.vision_weights}})
      if (!path->empty())
        refuse(locations.of({key}),
               fmt::format("{} is given, and model.weights, which is the whole model's; leave one of them out", key));
  if (kind.apply_architecture) kind.apply_architecture(job, locations, directory);
}

namespace {

bool has_tokenizer(const std::filesystem::path& gguf) {
  const GgufFile file = GgufFile::open(gguf);
  return !file.shown("tokenizer.ggml.model").empty() && file.shown("tokenizer.ggml.model") != "none";
}

}  // namespace

void use_tokenizer_of_weights(Job& job, const KeyLocations& locations, const std::filesystem::path& directory) {
  if (locations.given("data.tokenizer") || locations.given("data.tokenizer_file")) return;
  const bool has_key = std::ranges::any_of(data_kind(job.data.type).keys,
                                           [](const Key& each) { return each.help.key == "data.tokenizer"; });
  const std::filesystem::path& weights = job.model.weights.empty() ? job.model.llm_weights : job.model.weights;
  if (!has_key || !model_kind(job.model.type).vocabulary || weights.empty()) return;
  std::error_code error;
  const bool is_folder = std::filesystem::is_directory(directory / weights, error);
  // Another program's file is in the folder of its model. A file of plimsoll export may be in any folder.
  const bool from_folder = is_folder || !(job.model.weights.empty() ? job.model.llm_config : job.model.config).empty();
  const auto use = [&](const char* kind, const std::filesystem::path& file) {
    job.data.tokenizer = kind;
    job.data.tokenizer_file = file;
    job.notes.push_back(fmt::format("data.tokenizer is that of the weights, {}: {}; set data.tokenizer for another",
                                    kind, (directory / file).string()));
  };
  if (weights::is_gguf(directory / weights)) {
    if (has_tokenizer(directory / weights)) use("gguf", weights);
    return;
  }
  if (!from_folder) return;
  const std::filesystem::path folder = is_folder ? weights : weights.parent_path(), path = directory / folder;
  if (std::filesystem::exists(path / "tokenizer.json", error)) return use("huggingface", folder / "tokenizer.json");
  if (std::filesystem::exists(path / "tokenizer.model", error)) return use("sentencepiece", folder / "tokenizer.model");
  for (const char* other : {"vocab.json", "vocab.txt", "tekken.json", "tokenizer_config.json", "spiece.model"})
    if (std::filesystem::exists(path / other, error)) {
      job.notes.push_back(
          fmt::format("{} is not read, and bytes are the tokens; save the tokenizer as tokenizer.json, or set "
                      "data.tokenizer",
                      (path / other).string()));
      return;
    }
}

}  // namespace plimsoll::job

namespace plimsoll {
namespace {

constexpr int64_t kRowMultiple = 64;

// Returns the number of rows that the job sets for its language model, and the key for it.
std::pair<int64_t, const char*> rows_requested(Job job) {
  const auto& vocabulary = job::model_kind(job.model.type).vocabulary;
  check(vocabulary.has_value(), job.model.type + " reads no tokens");
  return {vocabulary->rows(job), vocabulary->key};
}

}  // namespace

bool is_language_model(const Job& job) {
  return job::model_kind(job.model.type).reads_token_windows;
}

int64_t& rows_of_embedding(Job& job) {
  const job::ModelKind& kind = job::model_kind(job.model.type);
  check(kind.reads_token_windows && kind.vocabulary, job.model.type + " is no language model");
  return kind.vocabulary->rows(job);
}

int64_t vocabulary_of(const Job& job, const Tokenizer& tokenizer) {
  const auto [rows, key] = rows_requested(job);
  const int64_t tokens = tokenizer.vocab_size();
  if (rows == 0) return (tokens + kRowMultiple - 1) / kRowMultiple * kRowMultiple;
  if (rows < tokens)
    throw UserError(fmt::format("{0}{1} is {2}; the tokenizer '{3}' has {4} tokens: set {1}: {4} or more, or {1}: auto",
                                job.file.empty() ? "" : job.file.string() + ": ", key, rows, tokenizer.name(), tokens));
  return rows;
}

int64_t vocabulary_of(const Job& job) {
  const int64_t rows = rows_requested(job).first;
  if (rows > 0 && (job.data.tokenizer != "bytes" || !job::data_kind(job.data.type).from_files)) return rows;
  for (const MissingFile& each : missing_data(job))
    if (each.key == "data.tokenizer_file")
      throw UserError(fmt::format("{}: {} does not exist; {}", each.key, each.file.lexically_normal().string(),
                                  remedy_for(job, each)));
  DataMemory memory(job.data.memory_budget);
  const DataMemory::Scope scope(memory);
  return vocabulary_of(job, *make_tokenizer(job.data.tokenizer, job.data.tokenizer_file));
}

}  // namespace plimsoll
