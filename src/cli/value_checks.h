// Implements options whose value is an amount, and checks of option values, for all commands.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/App.hpp>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/names.h"
#include "base/text.h"

namespace plimsoll::cli {

/// Returns a check that the value is not empty: in a script, the variable for it may not be set.
inline CLI::Validator not_empty() {
  return {[](std::string& given) { return given.empty() ? std::string("an empty value; write one") : std::string(); },
          ""};
}

/// Returns a check that the value names a file: neither empty nor -, which is standard output for --json only.
inline CLI::Validator names_a_file() {
  return {[](std::string& given) {
            if (given.empty()) return std::string("an empty value; name a file");
            return given == "-" ? std::string("it writes a file; standard output is for --json -") : std::string();
          },
          ""};
}

/// Returns a check that the value is one of `words`.
inline CLI::Validator one_of(std::vector<std::string> words) {
  return {[words = std::move(words)](std::string& given) {
            if (std::ranges::find(words, given) != words.end()) return std::string();
            const auto meant = nearest(given, words);
            return fmt::format("{} is none; allowed: {}{}", in_quotes(given), fmt::join(words, ", "),
                               meant ? fmt::format("; did you mean '{}'?", *meant) : "");
          },
          ""};
}

/// Returns a check that the value is a number in [min, max]; a whole number if `Number` is an integer type.
template <typename Number>
CLI::Validator between(Number min, Number max) {
  return {[=](std::string& given) {
            Number number{};
            const char* const end = given.data() + given.size();
            const auto [stop, error] = std::from_chars(given.data(), end, number);
            if (error == std::errc() && stop == end && number >= min && number <= max) return std::string();
            return fmt::format("{} is no {}number from {} to {}", in_quotes(given),
                               std::is_integral_v<Number> ? "whole " : "", min, max);
          },
          fmt::format("from {} to {}", min, max)};
}

/// Adds an option for bytes: "1MiB", "4096", at least 1 byte. It is parsed as strictly as the job file's values, with
/// the same messages. `target` keeps its value if the option is not given.
CLI::Option* add_bytes_option(CLI::App& command, const std::string& name, int64_t& target, const std::string& meaning);

/// Adds an option for a whole number in decimal, at least `min`.
CLI::Option* add_number_option(CLI::App& command, const std::string& name, int64_t min, int64_t& target,
                               const std::string& meaning);

}  // namespace plimsoll::cli
