// Describes errors of the command-line parser in terms of the typed arguments.
#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

namespace plimsoll::cli {

/// Returns one message, without the program's name: the error, the probable intention, and where to read more. `words`
/// are the arguments as typed, without the program.
std::string describe_parse_error(const CLI::App& app, const CLI::ParseError& error,
                                 const std::vector<std::string>& words);

}  // namespace plimsoll::cli
