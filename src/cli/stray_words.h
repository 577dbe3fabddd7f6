// Words of a command line that are neither the job file, nor KEY=VALUE, nor an option.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace plimsoll::cli {

/// Throws UserError for the first word of `overrides` that is no KEY=VALUE, and for a job file that is one: what was
/// probably meant, and how it is written.
void refuse_stray_words(const std::string& file, const std::vector<std::string>& overrides);

}  // namespace plimsoll::cli
