#include "job/keys/shared_data_keys.h"

#include <fmt/format.h>

#include "job/keys/key_kinds.h"
#include "job/keys/kinds.h"

namespace plimsoll::job {

std::vector<Key> held_out_keys() {
  using D = DataConfig;
  return {
      number("data.test_fraction", &D::test_fraction, {.min = 0, .max = 0.5, .none = true},
             "fraction of the data that is held out for a final test, separate from data.validation_fraction: not used "
             "for training or for the choice of settings"),
      word("data.evaluate_on", &D::evaluate_on, {"validation", "test"},
           "held-out part that evaluations use; no effect on the training data"),
  };
}

void check_held_out(const Job& job, const KeyLocations& locations, const char* other) {
  if (job.data.evaluate_on != "test" || job.data.is_evaluated()) return;
  refuse(locations.of({"data.evaluate_on"}),
         fmt::format("data.evaluate_on is 'test', and data.test_fraction is 0: nothing is held out for it; set "
                     "data.test_fraction, for example to 0.15{}",
                     other));
}

namespace {

using S = SlicesConfig;

Key text(std::string key, std::string S::*member, std::string meaning) {
  const std::string defaults = S{}.*member;
  return {{std::move(key), "text", "\"" + defaults + "\"", std::move(meaning)},
          [=](const Value& value, Job& job) { job.data.slices.*member = read_text(value, "text"); }};
}

/// Returns the number of placeholders for the structure's name in `text`.
size_t places_for_names(const std::string& text) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find("{}", at)) != std::string::npos; at += 2) ++count;
  return count;
}

}  // namespace

std::vector<Key> structure_keys() {
  return {
      {{"data.structures", "pattern | list of patterns", "['*']", "names of the structures to segment"},
       [](const Value& value, Job& job) {
         job.data.slices.structures = read_patterns(value, "a pattern such as 'left *', or a list of them");
       }},
      integer("data.min_pixels", &S::min_pixels, {1, int64_t{1} << 28},
              "minimum of pixels of a structure in a slice or picture, at model.image_size, to be a sample"),
      number(
          "data.augment", &S::augment, {.min = 0, .max = 0.5, .none = true},
          "strength of augmentation of training samples: shift by up to this fraction of the image's side, rotation by "
          "up to this number of radians, size and contrast by up to this fraction, drawn again each time; 0: none"),
      text("data.prompt", &S::prompt,
           "prompt that the language model reads; {} is replaced by the name of the structure"),
      text("data.answer", &S::answer,
           "answer that the language model learns; model.loss.text is the weight of its loss"),
  };
}

void check_structures(const Job& job, const KeyLocations& locations, bool named) {
  const S& slices = job.data.slices;
  if (slices.structures.empty())
    refuse(locations.of({"data.structures"}), "data.structures is empty; set data.structures: '*' for all of them");
  const size_t names = places_for_names(slices.prompt);
  if (named && names != 1)
    refuse(locations.of({"data.prompt"}),
           "data.prompt must have {} once, where the structure's name is put, as in \"Segment the {}.\"");
  if (names > 1)
    refuse(locations.of({"data.prompt"}), "data.prompt may have {} once, where the structure's name is put");
  if (places_for_names(slices.answer) > 1)
    refuse(locations.of({"data.answer"}), "data.answer may have {} once, where the structure's name is put");
}

std::vector<Setting> structure_settings(const Job& job) {
  const S& slices = job.data.slices;
  return {{"data.structures", joined(slices.structures, ", ")},
          {"data.min_pixels", slices.min_pixels},
          {"data.prompt", slices.prompt},
          {"data.answer", slices.answer}};
}

std::vector<Setting> shared_keys_of_structures(const Job& job) {
  std::vector<Setting> settings = structure_settings(job);
  settings.insert(settings.end(), {{"data.augment", job.data.slices.augment},
                                   {"data.normalize", job.data.pictures.normalize},
                                   {"data.list", job.data.pictures.list}});
  return settings;
}

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
