// Writes the completion scripts of bash, zsh and fish.
#pragma once

#include <string>

#include "cli/about/program_words.h"

namespace plimsoll::cli {

/// Each returns a script that completes commands, options and their values, job files, job keys and their values.
/// A shell can load the script from a file of its completions, or evaluate it.
std::string bash_completion(const ProgramWords& words);
std::string zsh_completion(const ProgramWords& words);
std::string fish_completion(const ProgramWords& words);

}  // namespace plimsoll::cli
