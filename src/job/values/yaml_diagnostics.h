// Describes errors in a text that is not YAML, in the user's terms. The parser reports only the place where it noticed
// the error, in terms of its own: "illegal map value".
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace plimsoll::job {

struct YamlDiagnostic {
  int line = 0;  ///< from 1
  std::string what;
};

/// Returns the likeliest error in `text`, which the parser refused at `line` (from 1): a tab that indents, an open
/// bracket or quote, a missing space after a colon, a line without a colon, an unexpected indent. Returns nullopt if
/// none of them is found.
std::optional<YamlDiagnostic> diagnose_yaml(std::string_view text, int line);

/// Returns true if the quote that opens at `line` and `column` (from 1, in characters) is closed; true too if there is
/// no quote at that place. The parser treats an open quote as closed at the end of the text.
bool quote_is_closed(std::string_view text, int line, int column);

/// Returns the reason why `text` is not a text file ("it is a safetensors file", "byte 12 is 0"); "" if it may be one.
std::string not_text(std::string_view text);

}  // namespace plimsoll::job
