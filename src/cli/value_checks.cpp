#include "cli/value_checks.h"

#include <fmt/format.h>

#include <charconv>

#include "base/text.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"

namespace plimsoll::cli {

CLI::Option* add_bytes_option(CLI::App& command, const std::string& name, int64_t& target, const std::string& meaning) {
  const auto read = [&target, name](const std::string& text) {
    try {
      target = parse_bytes(text);
    } catch (const UserError& error) {
      throw CLI::ValidationError(name, error.what());
    }
    if (target < 1)
      throw CLI::ValidationError(name, fmt::format("{} is too little; 1 byte or more is allowed", in_quotes(text)));
  };
  return command.add_option_function<std::string>(name, read, meaning);
}

CLI::Option* add_number_option(CLI::App& command, const std::string& name, int64_t min, int64_t& target,
                               const std::string& meaning) {
  // CLI11 would read "010" as 8, and a number out of range as the largest one.
  const auto read = [&target, name, min](const std::string& text) {
    int64_t value = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || stop != end || value < min)
      throw CLI::ValidationError(name, fmt::format("{} is not a whole number of {} or more", in_quotes(text), min));
    target = value;
  };
  return command.add_option_function<std::string>(name, read, meaning);
}

}  // namespace plimsoll::cli
