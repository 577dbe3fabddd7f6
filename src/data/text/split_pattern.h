// Declares the regular expressions by which tokenizers split text, written for Oniguruma and matched by PCRE2.
//
// Bounds: a pattern has at most 16 KiB. One attempt to match takes at most 10 000 000 of PCRE2's steps and 256 MiB of
// heap. The just-in-time code runs in 32 KiB of stack; beyond them PCRE2's interpreter takes over. All attempts of a
// pattern together take at most 1 second of a processor and 1 microsecond a matched byte of text; the attempt that
// exceeds this doubles it at most. Encoding with published patterns took 0.2 microseconds a byte in total.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace plimsoll {

class SplitPattern {
 public:
  /// Throws UserError that begins with `name` for a text that is no pattern, for a construct that the two libraries
  /// interpret differently, and for \C, \G and verbs such as (*COMMIT).
  SplitPattern(const std::string& pattern, std::string name);
  ~SplitPattern();
  SplitPattern(SplitPattern&&) noexcept;

  /// Calls visit(begin, end) for each match in `text`, valid UTF-8, from front to back. Matches do not overlap, and may
  /// be empty. Throws UserError that names the pattern if matching takes more than its bounds. Only one thread may call
  /// at a time. `visit` must not call each_match() of the same pattern.
  void each_match(std::string_view text, const std::function<void(size_t begin, size_t end)>& visit) const;

 private:
  struct Compiled;

  bool next_match(std::string_view text, size_t at) const;

  std::string name_;
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace plimsoll

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <memory>
#include <string>

namespace plimsoll {

struct FreePcre2 {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
using Pcre2Code = std::unique_ptr<pcre2_code, FreePcre2>;
using Pcre2Match = std::unique_ptr<pcre2_match_data, FreePcre2>;
using Pcre2MatchContext = std::unique_ptr<pcre2_match_context, FreePcre2>;

/// Returns PCRE2's message for an error code of its functions.
inline std::string pcre2_error_text(int code) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

}  // namespace plimsoll
