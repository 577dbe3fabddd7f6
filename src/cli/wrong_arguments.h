// What the parser of the command line refuses, in the words of whoever typed it.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

namespace plimsoll::cli {

/// One message, without the program's name: what is wrong, what was probably meant, where to read more. `words` are the
/// arguments as they were typed, without the program.
std::string words_for(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& words);

}  // namespace plimsoll::cli
