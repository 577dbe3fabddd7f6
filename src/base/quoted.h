// Prepares text from outside for one line of an error message.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

/// Returns `text` on one line: characters that without_controls() replaces become '?', and a text of more than 60 bytes
/// is cut (between UTF-8 characters) and ends in "...".
std::string one_line(std::string_view text);

/// Returns one_line() of `text` between single quotes.
std::string in_quotes(std::string_view text);

/// Returns the first 12 of `names`, each through one_line(), separated by ", "; ", ..." replaces the rest.
std::string few_names(const std::vector<std::string>& names);

}  // namespace plimsoll
