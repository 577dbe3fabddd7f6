#include "data/slices/slice_prompt.h"

#include <fmt/format.h>

#include "base/quoted.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr int64_t kIgnoredTarget = -100;

std::string with_name(std::string text, const std::string& name) {
  const size_t at = text.find("{}");
  return at == std::string::npos ? text : text.replace(at, 2, name);
}

}  // namespace

SlicePrompt make_slice_prompt(const std::string& prompt, const std::string& answer, const std::string& name,
                              int64_t length, const Tokenizer& tokenizer) {
  const std::string question = with_name(prompt, name), reply = with_name(answer, name);
  // Encoded separately, so that the answer begins with its own token.
  std::vector<int32_t> tokens = tokenizer.encode(question);
  const auto requested = std::ssize(tokens);
  const std::vector<int32_t> replied = tokenizer.encode(reply);
  tokens.insert(tokens.end(), replied.begin(), replied.end());
  const auto end = std::ssize(tokens);
  if (end + 1 > length)
    throw UserError(
        fmt::format("data.prompt and data.answer for {} have {} tokens with the end of text; "
                    "model.prompt_length is {}: raise it to that, or shorten them",
                    in_quotes(name), end + 1, length));
  SlicePrompt made;
  made.tokens.assign(static_cast<size_t>(length), tokenizer.end_of_text());
  made.targets.assign(static_cast<size_t>(length), kIgnoredTarget);
  made.read_at.assign(static_cast<size_t>(length), 0.0f);
  std::copy(tokens.begin(), tokens.end(), made.tokens.begin());
  for (int64_t i = std::max<int64_t>(0, requested - 1); i < end; ++i)
    made.targets[static_cast<size_t>(i)] = made.tokens[static_cast<size_t>(i) + 1];
  std::fill_n(made.read_at.begin(), end + 1, 1 / static_cast<float>(end + 1));
  return made;
}

}  // namespace plimsoll
