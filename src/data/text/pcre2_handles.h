// Declares owning handles for PCRE2's objects, and the text of its errors.
#pragma once

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
