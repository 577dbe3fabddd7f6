// What values of options must be, whatever the command.
#pragma once

#include <CLI/App.hpp>
#include <string>

namespace plimsoll::cli {

/// Of an option whose value may not be empty: a script's variable that was to hold it is not set.
inline CLI::Validator not_empty() {
  return {[](std::string& given) { return given.empty() ? std::string("an empty value; write one") : std::string(); },
          ""};
}

/// Of an option that names a file: neither empty nor -, which is standard output for --json alone.
inline CLI::Validator names_a_file() {
  return {[](std::string& given) {
            if (given.empty()) return std::string("an empty value; name a file");
            return given == "-" ? std::string("it writes a file; standard output is for --json -") : std::string();
          },
          ""};
}

}  // namespace plimsoll::cli
