// The tokenizer of a GGUF file, and a text.
#include "data/text/gpt2_tokenizer.h"

#include "fuzz.h"
#include "tokenizer_rules.h"

using namespace plimsoll;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input = fuzz::text(data, size);
  const std::vector<std::string> part = fuzz::parts(input, 2);
  const std::filesystem::path file = fuzz::write("input.gguf", part[0]);
  // Its vocabulary may lack bytes: a text need not come back.
  fuzz::reads(input, [&] { fuzz::check_tokenizer(*open_gguf_tokenizer(file), part[1], false); });
  return 0;
}
