// A tiktoken rank file and a text: decode(encode(text)) is the text.
#include "data/text/gpt2_tokenizer.h"
#include "fuzz.h"
#include "tokenizer_rules.h"

using namespace plimsoll;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input = fuzz::text(data, size);
  const std::vector<std::string> part = fuzz::parts(input, 2);
  const std::filesystem::path file = fuzz::write("ranks.tiktoken", part[0]);
  fuzz::reads(input, [&] { fuzz::check_tokenizer(Gpt2Tokenizer(file), part[1], true); });
  return 0;
}
