// A tokenizer.json, a text, and a tokenizer_config.json next to it.
#include "data/text/huggingface_tokenizer.h"
#include "fuzz.h"
#include "tokenizer_rules.h"

using namespace plimsoll;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input = fuzz::text(data, size);
  const std::vector<std::string> part = fuzz::parts(input, 3);
  const std::filesystem::path file = fuzz::write("tokenizer.json", part[0]);
  const std::filesystem::path config = fuzz::write("tokenizer_config.json", part[2]);
  if (part[2].empty()) std::filesystem::remove(config);
  fuzz::reads(input, [&] { fuzz::check_tokenizer(*open_huggingface_tokenizer(file), part[1], false); });
  return 0;
}
