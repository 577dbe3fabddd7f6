#include "job/default_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "files/gguf.h"
#include "job/keys/data_kind.h"
#include "job/keys/model_kind.h"
#include "weights/source.h"

namespace plimsoll::job {
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
