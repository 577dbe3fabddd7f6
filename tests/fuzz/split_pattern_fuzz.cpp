// A pattern that tokenizers split by, and a text.
#include "base/text.h"
#include "data/text/split_pattern.h"
#include "fuzz.h"

using namespace plimsoll;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input = fuzz::text(data, size);
  const std::vector<std::string> part = fuzz::parts(input, 2);
  const std::string text = valid_utf8(part[1]);
  fuzz::reads(input, [&] {
    const SplitPattern pattern(part[0], "tokenizer.json");
    size_t last = 0;
    pattern.each_match(text, [&](size_t begin, size_t end) {
      fuzz::require(last <= begin && begin <= end && end <= text.size(), "matches overlap or lie outside the text");
      last = end;
    });
  });
  return 0;
}
