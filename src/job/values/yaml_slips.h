// What is wrong with a text that is no YAML, in the words of whoever wrote it. The parser says where it noticed, and in
// its own terms: "illegal map value".
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace plimsoll::job {

struct Slip {
  int line = 0;  ///< from 1
  std::string what;
};

/// The likeliest slip in `text`, which the parser refused at `line` (from 1): a tab that indents, a bracket or quote
/// that is left open, a space missing behind a colon, a line without a colon, a line indented for no reason. Nothing
/// where none of them is seen.
std::optional<Slip> find_slip(std::string_view text, int line);

/// Whether the quote that opens at `line` and `column` (from 1, in characters) is closed again; true where there is no
/// quote at that place. The parser takes one that is not for closed at the end of the text.
bool quote_is_closed(std::string_view text, int line, int column);

/// Why `text` is no text file at all ("it is a safetensors file", "byte 12 is 0"); "" where it may be one.
std::string not_text(std::string_view text);

}  // namespace plimsoll::job
