#include "data/clips/captions.h"

#include <fmt/format.h>

#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr int64_t kIgnored = -100;

}  // namespace

CaptionTokens caption_tokens(const Tokenizer& tokenizer, const std::string& prompt, const std::string& caption,
                             int64_t length, const std::string& place) {
  CaptionTokens result;
  std::vector<int32_t> all = tokenizer.encode(prompt);
  // At least one token must come before the first token of the caption.
  if (all.empty()) all.push_back(tokenizer.end_of_text());
  const size_t before = all.size();
  result.caption = tokenizer.encode(caption);
  result.caption.push_back(tokenizer.end_of_text());
  all.insert(all.end(), result.caption.begin(), result.caption.end());
  if (std::ssize(all) - 1 > length)
    throw UserError(
        fmt::format("{}: prompt and caption are {} tokens; data.sequence_length is {}: give it that "
                    "many, or shorten the caption",
                    place, all.size() - 1, length));
  const auto size = static_cast<size_t>(length);
  result.tokens.assign(size, tokenizer.end_of_text());
  result.targets.assign(size, kIgnored);
  for (size_t i = 0; i + 1 < all.size(); ++i) {
    result.tokens[i] = all[i];
    if (i + 1 >= before) result.targets[i] = all[i + 1];
  }
  return result;
}

}  // namespace plimsoll
