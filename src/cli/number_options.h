// Declares options whose value is an amount. They are parsed as strictly as the job file's values, with the same
// messages.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <string>

namespace plimsoll::cli {

/// Adds an option for bytes: "1MiB", "4096", at least 1 byte. `target` keeps its value if the option is not given.
CLI::Option* add_bytes_option(CLI::App& command, const std::string& name, int64_t& target, const std::string& meaning);

/// Adds an option for a whole number in decimal, at least `min`.
CLI::Option* add_number_option(CLI::App& command, const std::string& name, int64_t min, int64_t& target,
                               const std::string& meaning);

}  // namespace plimsoll::cli
