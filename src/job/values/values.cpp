#include "job/values/values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/quoted.h"
#include "job/values/suggestions.h"
#include "plimsoll/error.h"

namespace plimsoll::job {
namespace {

/// Parses all of `text` as a number in decimal notation.
template <typename Number>
std::optional<Number> number_in(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// Returns a value for a message: numbers unchanged, other text quoted.
std::string found(const Node& node) {
  switch (node.kind) {
    case Node::Kind::null:
      return node.text.empty() ? "empty" : node.text;
    case Node::Kind::list:
      return fmt::format("a list of {}", node.items.size());
    case Node::Kind::mapping:
      return "a mapping";
    case Node::Kind::scalar:
      break;
  }
  const bool short_number = node.text.size() <= 40 && number_in<double>(node.text) && !std::isalpha(node.text.back());
  return short_number ? node.text : in_quotes(node.text);
}

}  // namespace

void Value::refuse(std::string_view allowed, std::string_view advice) const {
  if (node->kind == Node::Kind::null && node->text.empty() && source->command_line)
    refuse_since(fmt::format(
        "has no value (perhaps a shell variable is not set); allowed: {}{}", allowed,
        allowed.find("\"\"") == std::string_view::npos ? "" : fmt::format(", which a shell takes as '{}=\"\"'", key)));
  refuse_since(fmt::format("is {}; allowed: {}{}", found(*node), allowed, advice));
}

void Value::refuse_since(std::string_view what) const {
  throw UserError(fmt::format("{}: {} {}", source->at(node->line), key, what));
}

bool Value::is(std::string_view word) const {
  if (node->kind == Node::Kind::null) return !node->text.empty() && word == "none";
  return node->kind == Node::Kind::scalar &&
         std::equal(node->text.begin(), node->text.end(), word.begin(), word.end(),
                    [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); });
}

std::string IntegerRange::text() const {
  return fmt::format("integer from {} to {}{}", min, max, none ? " or none" : "");
}

std::string NumberRange::text() const {
  const char* const word = none ? " or none" : "";
  if (std::isinf(max)) return fmt::format("number {} {}{}", min_open ? ">" : ">=", min, word);
  return fmt::format("number in {}{}, {}{}{}", min_open ? "(" : "[", min, max, max_open ? ")" : "]", word);
}

std::string joined(const std::vector<std::string>& words, std::string_view separator) {
  return fmt::format("{}", fmt::join(words, separator));
}

int64_t read_integer(const Value& value, const IntegerRange& range, std::string_view also) {
  if (range.none && value.is("none")) return 0;
  if (value.node->kind == Node::Kind::scalar) {
    const std::optional<int64_t> number = number_in<int64_t>(value.node->text);
    if (number && *number >= range.min && *number <= range.max) return *number;
  }
  std::string advice;
  if (value.node->kind == Node::Kind::scalar)
    if (const std::optional<double> meant = parse_informal_number(value.node->text);
        meant && std::trunc(*meant) == *meant && *meant >= static_cast<double>(range.min) &&
        *meant <= static_cast<double>(range.max))
      advice = fmt::format("; did you mean {:.0f}?", *meant);
  value.refuse(also.empty() ? range.text() : fmt::format("{}, {}", also, range.text()), advice);
}

double read_number(const Value& value, const NumberRange& range) {
  if (range.none && value.is("none")) return 0;
  const auto allowed = [&](double number) {
    return std::isfinite(number) && (range.min_open ? number > range.min : number >= range.min) &&
           (range.max_open ? number < range.max : number <= range.max);
  };
  std::string advice;
  if (value.node->kind == Node::Kind::scalar) {
    const std::optional<double> number = number_in<double>(value.node->text);
    if (number && allowed(*number)) return *number;
    if (const std::optional<double> meant = parse_informal_number(value.node->text);
        meant && !number && allowed(*meant))
      advice = fmt::format("; did you mean {}?", *meant);
  }
  value.refuse(range.text(), advice);
}

std::optional<bool> boolean_in(const Value& value) {
  for (const char* yes : {"true", "yes", "on"})
    if (value.is(yes)) return true;
  for (const char* no : {"false", "no", "off"})
    if (value.is(no)) return false;
  return std::nullopt;
}

bool read_boolean(const Value& value) {
  if (const std::optional<bool> stated = boolean_in(value)) return *stated;
  value.refuse("true, false", suggest_boolean(value));
}

std::string read_word(const Value& value, const std::vector<std::string>& allowed) {
  // Other programs write AdamW, BFloat16 or SGD.
  for (const std::string& word : allowed)
    if (value.node->kind == Node::Kind::scalar && value.is(word)) return word;
  value.refuse(joined(allowed, ", "), suggest_word(value, allowed));
}

std::string read_text(const Value& value, std::string_view allowed) {
  if (value.node->kind != Node::Kind::scalar || value.node->text.find('\0') != std::string::npos) value.refuse(allowed);
  return value.node->text;
}

}  // namespace plimsoll::job
