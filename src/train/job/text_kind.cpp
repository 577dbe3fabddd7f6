// What a job file says of text, and of data that are none.
#include <fmt/format.h>

#include "train/job/data_kind.h"
#include "train/job/key_kinds.h"
#include "train/job/model_kind.h"

namespace plimsoll::job {

DataKind text_kind() {
  using D = DataConfig;
  DataKind kind;
  kind.type = "text";
  kind.meaning = "files cut into windows of tokens";
  kind.keys = {
      paths("data.files", &D::files, "text: files, relative to the job file"),
      word("data.tokenizer", &D::tokenizer, {"bytes", "gpt2", "gguf"},
           "gpt2, gguf: byte-pair encoding, needs tokenizer_file"),
      path("data.tokenizer_file", &D::tokenizer_file, "(none)",
           "gpt2: a tiktoken rank file (lines of base64 token, space, rank); gguf: the GGUF file of a model"),
      path("data.cache_dir", &D::cache_dir, ".plimsoll-cache", "where token files are kept, relative to the job file"),
  };
  kind.keys.front().help.default_value = "(required)";
  kind.check = [](const Job& job, const Places& places) {
    if (job.data.files.empty())
      refuse(places.of({"data.type"}),
             "data.files is missing; name the text to train on, for example files: [corpus.txt]");
    if (job.data.tokenizer == "gguf" && job.data.tokenizer_file.empty())
      refuse(places.of({"data.tokenizer"}),
             "data.tokenizer is 'gguf'; it needs data.tokenizer_file, the GGUF file that holds it");
    if (job.data.tokenizer == "gpt2" && job.data.tokenizer_file.empty())
      refuse(places.of({"data.tokenizer"}),
             "data.tokenizer is 'gpt2'; it needs data.tokenizer_file, a tiktoken rank file");
  };
  return kind;
}

DataKind synthetic_kind() {
  DataKind kind;
  kind.type = "synthetic";
  kind.meaning = "random inputs of the model's shapes, drawn from the seed, to try out memory and speed without data";
  kind.keys = {integer("data.samples", &DataConfig::samples, {1, int64_t{1} << 32},
                       "synthetic: how many different ones there are; an epoch")};
  // How many samples there are, and which of them are learned from, is said nowhere else.
  kind.origin = [](const Job& job) {
    return std::map<std::string, std::string>{{"data.samples", fmt::format("{}", job.data.samples)}};
  };
  return kind;
}

}  // namespace plimsoll::job
