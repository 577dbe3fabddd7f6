#include "job/keys/tokenizer_keys.h"

#include <fmt/format.h>

#include "job/keys/key_kinds.h"
#include "job/keys/model_kind.h"

namespace plimsoll::job {

std::vector<Key> tokenizer_keys() {
  return {
      word("data.tokenizer", &DataConfig::tokenizer, {"bytes", "gpt2", "sentencepiece", "gguf", "huggingface"},
           "type of the tokenizer; gpt2: byte-pair encoding; sentencepiece: as in Llama and Mistral; gguf: that of a "
           "GGUF file; huggingface: that of a tokenizer.json; all except bytes need tokenizer_file. Default with "
           "weights of "
           "another program: theirs"),
      path("data.tokenizer_file", &DataConfig::tokenizer_file, "(none)",
           "gpt2: a tiktoken rank file (lines of base64 token, space, rank); sentencepiece: a .model file; gguf: the "
           "GGUF file of a model; huggingface: a tokenizer.json, or the folder of one"),
  };
}

void check_tokenizer(const Job& job, const KeyLocations& locations) {
  if (job.data.tokenizer == "bytes" && !job.data.tokenizer_file.empty() && !locations.overridden("data.tokenizer"))
    refuse(locations.of({"data.tokenizer_file"}),
           fmt::format("data.tokenizer_file is {}, and data.tokenizer is bytes, which reads no file; say in "
                       "data.tokenizer what the file is: gpt2, sentencepiece, gguf or huggingface",
                       job.data.tokenizer_file.string()));
  if (job.data.tokenizer == "bytes" || !job.data.tokenizer_file.empty()) return;
  refuse(locations.of({"data.tokenizer"}),
         fmt::format("data.tokenizer is '{}'; it needs data.tokenizer_file, a {}", job.data.tokenizer,
                     job.data.tokenizer == "gpt2"            ? "tiktoken rank file"
                     : job.data.tokenizer == "sentencepiece" ? "SentencePiece .model file"
                     : job.data.tokenizer == "huggingface"   ? "tokenizer.json"
                                                             : "GGUF file of a model"));
}

}  // namespace plimsoll::job
