// Refuses arguments of a command line that are neither the job file, nor KEY=VALUE, nor an option.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace plimsoll::cli {

/// Throws UserError for the first item of `overrides` that is not KEY=VALUE, and for a job file that is KEY=VALUE. The
/// message has the probable intention and its syntax.
void reject_unexpected_arguments(const std::string& file, const std::vector<std::string>& overrides);

}  // namespace plimsoll::cli
