// Text from outside, made fit for a line of an error message.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

/// Returns `text` on one line: characters that without_controls() replaces become '?', and a text of more than 60 bytes
/// is cut (between UTF-8 characters) and ends in "...".
std::string one_line(std::string_view text);

/// The same between single quotes.
std::string in_quotes(std::string_view text);

/// Returns the first 12 of `names`, each as one_line() has it, with ", " between them; ", ..." stands for the others.
std::string few_names(const std::vector<std::string>& names);

}  // namespace plimsoll
