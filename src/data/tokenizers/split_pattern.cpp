#include "data/tokenizers/split_pattern.h"

#include <fmt/format.h>

#include "base/quoted.h"
#include "base/unicode_text.h"
#include "data/tokenizers/pcre2_handles.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr size_t kLongestPattern = 16384;
constexpr uint32_t kMostEffort = 10'000'000;  // PCRE2's own default: steps of one match

UserError refused(const std::string& name, const std::string& why) {
  return UserError(fmt::format("{}: {}", name, why), UserError::Kind::failure);
}

/// \s spelt out as Unicode's White_Space: PCRE2's has U+180E more.
std::string in_pcre2_words(const std::string& pattern, const std::string& name) {
  constexpr std::string_view white =
      "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}";
  std::string made;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char what = pattern[++i];
      if (what == 's') {
        made += in_class ? std::string(white) : fmt::format("[{}]", white);
      } else if (what == 'S' && !in_class) {
        made += fmt::format("[^{}]", white);
      } else {
        made += c;
        made += what;
      }
      continue;
    }
    if (in_class && pattern.compare(i, 2, "&&") == 0)
      throw refused(name,
                    fmt::format("the pattern {} has a class with &&, which is not known here", in_quotes(pattern)));
    if (c == '[' && in_class && pattern.compare(i, 2, "[:") != 0)
      throw refused(name,
                    fmt::format("the pattern {} has a class in a class, which is not known here", in_quotes(pattern)));
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    made += c;
  }
  return made;
}

}  // namespace

struct SplitPattern::Compiled {
  Pcre2Code code;
  Pcre2Match match;
  Pcre2MatchContext context;
};

SplitPattern::SplitPattern(const std::string& pattern, std::string name)
    : name_(std::move(name)), compiled_(std::make_unique<Compiled>()) {
  if (pattern.empty() || pattern.size() > kLongestPattern)
    throw refused(name_, fmt::format("a pattern has {} bytes; allowed are 1 to {}", pattern.size(), kLongestPattern));
  const std::string words = in_pcre2_words(pattern, name_);
  int error = 0;
  PCRE2_SIZE at = 0;
  compiled_->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(words.data()), words.size(), PCRE2_UTF | PCRE2_UCP,
                                      &error, &at, nullptr));
  if (!compiled_->code)
    throw refused(
        name_, fmt::format("the pattern {} is none that PCRE2 knows: {}", in_quotes(pattern), pcre2_error_text(error)));
  pcre2_jit_compile(compiled_->code.get(), PCRE2_JIT_COMPLETE);  // where there is no JIT it is slower and the same
  compiled_->match.reset(pcre2_match_data_create_from_pattern(compiled_->code.get(), nullptr));
  compiled_->context.reset(pcre2_match_context_create(nullptr));
  check(compiled_->match && compiled_->context, "no memory for PCRE2's match data");
  pcre2_set_match_limit(compiled_->context.get(), kMostEffort);
}

SplitPattern::~SplitPattern() = default;
SplitPattern::SplitPattern(SplitPattern&&) noexcept = default;

void SplitPattern::each_match(std::string_view text, const std::function<void(size_t begin, size_t end)>& visit) const {
  for (size_t at = 0; at <= text.size();) {
    const auto match = [&](uint32_t options) {
      return pcre2_match(compiled_->code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                         PCRE2_NO_UTF_CHECK | options, compiled_->match.get(), compiled_->context.get());
    };
    int result = match(0);
    if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = match(PCRE2_NO_JIT);
    if (result == PCRE2_ERROR_NOMATCH) return;
    if (result < 0) throw refused(name_, fmt::format("a pattern cannot be matched: {}", pcre2_error_text(result)));
    const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(compiled_->match.get());
    // \K in a lookahead may end a match before it begins.
    if (ends[1] < ends[0] || ends[0] < at) throw refused(name_, "a pattern's match ends before it begins");
    visit(ends[0], ends[1]);
    if (ends[1] > ends[0])
      at = ends[1];
    else if (ends[1] < text.size())
      at = ends[1] + first_character(text.substr(ends[1])).bytes;
    else
      return;
  }
}

}  // namespace plimsoll
