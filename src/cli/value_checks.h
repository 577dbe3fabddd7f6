// Implements checks of option values, for all commands.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <charconv>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/nearest.h"
#include "base/quoted.h"

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

/// Returns a check that the value is a number in [least, most]; a whole number if `Number` is an integer type.
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

}  // namespace plimsoll::cli
