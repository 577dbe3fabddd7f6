// Options whose value is an amount: read as strictly as the job file's, refused in the same words.
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <string>

namespace plimsoll::cli {

/// "1MiB", "4096": 1 byte or more. `target` keeps its value where the option is not given.
CLI::Option* add_bytes_option(CLI::App& command, const std::string& name, int64_t& target, const std::string& meaning);

/// A whole number in decimal, at least `least`.
CLI::Option* add_number_option(CLI::App& command, const std::string& name, int64_t least, int64_t& target,
                               const std::string& meaning);

}  // namespace plimsoll::cli
