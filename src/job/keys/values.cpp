#include "job/keys/values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "base/names.h"
#include "base/text.h"
#include "job/keys/aliases.h"
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

namespace {

bool contains(const std::vector<std::string>& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

std::string did_you_mean(std::string_view word) {
  return fmt::format("; did you mean '{}'?", word);
}

/// Returns true for "1,000" and "12,345,678": commas between groups of three digits.
bool has_groups_of_thousands(std::string_view text) {
  const size_t first = text.find(',');
  if (first == 0 || first > 3 || text.front() == '0') return false;
  for (size_t at = first; at < text.size(); at += 4) {
    const std::string_view group = text.substr(at);
    if (group.size() < 4 || group[0] != ',') return false;
    if (!std::all_of(group.begin() + 1, group.begin() + 4, [](unsigned char c) { return std::isdigit(c) != 0; }))
      return false;
  }
  return true;
}

// A word that means a model, a format or a file in other programs, and our kind for it.
struct OtherWord {
  std::string_view key, foreign, ours;
};
constexpr std::array<OtherWord, 34> kOtherWords = {{
    {"model.type", "causal_lm", "decoder"},
    {"model.type", "gemma", "decoder"},
    {"model.type", "gemma2", "decoder"},
    {"model.type", "gpt", "decoder"},
    {"model.type", "gpt2", "decoder"},
    {"model.type", "llama", "decoder"},
    {"model.type", "llm", "decoder"},
    {"model.type", "mistral", "decoder"},
    {"model.type", "qwen2", "decoder"},
    {"model.type", "qwen3", "decoder"},
    {"model.type", "transformer", "decoder"},
    {"model.type", "llava", "video_llm"},
    {"model.type", "vlm", "video_llm"},
    {"model.type", "ssm", "mamba"},
    {"model.activation", "silu", "swiglu"},
    {"model.activation", "swish", "swiglu"},
    {"model.activation", "gelu_new", "gelu_tanh"},
    {"model.activation", "gelu_pytorch_tanh", "gelu_tanh"},
    {"model.positions", "rotary", "rope"},
    {"model.positions", "absolute", "learned"},
    {"data.type", "csv", "text"},
    {"data.type", "file", "text"},
    {"data.type", "jsonl", "text"},
    {"data.type", "txt", "text"},
    {"data.type", "dummy", "synthetic"},
    {"data.type", "fake", "synthetic"},
    {"data.type", "random", "synthetic"},
    {"data.type", "video", "clips"},
    {"data.tokenizer", "byte", "bytes"},
    {"data.tokenizer", "tiktoken", "gpt2"},
    {"quantize.format", "4bit", "nf4"},
    {"quantize.format", "fp4", "nf4"},
    {"quantize.format", "int4", "nf4"},
    {"quantize.format", "8bit", "int8"},
}};

}  // namespace

std::optional<double> parse_informal_number(std::string_view text) {
  std::string plain;
  for (const char c : text)
    if (c != '_' && c != ' ') plain += c;
  double times = 1;
  if (!plain.empty()) {
    const char last = static_cast<char>(std::tolower(static_cast<unsigned char>(plain.back())));
    if (last == '%') times = 0.01;
    if (last == 'k') times = 1e3;
    if (last == 'm') times = 1e6;
    if (times != 1) plain.pop_back();
  }
  if (std::ranges::count(plain, ',') > 0) {
    if (has_groups_of_thousands(plain))
      std::erase(plain, ',');
    else if (std::ranges::count(plain, ',') == 1)
      std::ranges::replace(plain, ',', '.');
  }
  double number = 0;
  const auto [end, error] = std::from_chars(plain.data(), plain.data() + plain.size(), number);
  if (error != std::errc() || end != plain.data() + plain.size() || !std::isfinite(number)) return std::nullopt;
  // 5 / 100 is closer to 0.05 than 5 x 0.01.
  return times < 1 ? number / 100 : number * times;
}

std::string suggest_boolean(const Value& value) {
  for (const char* yes : {"y", "1", "enabled"})
    if (value.is(yes)) return did_you_mean("true");
  for (const char* no : {"n", "0", "disabled", "none"})
    if (value.is(no)) return did_you_mean("false");
  return "";
}

std::string suggest_dtype(std::string_view text, const std::vector<std::string>& allowed) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 10> types = {{{"fp32", "float32"},
                                                                                    {"f32", "float32"},
                                                                                    {"float", "float32"},
                                                                                    {"bf16", "bfloat16"},
                                                                                    {"fp16", "float16"},
                                                                                    {"f16", "float16"},
                                                                                    {"half", "float16"},
                                                                                    {"int8", "8bit"},
                                                                                    {"fp8", "8bit"},
                                                                                    {"int4", "4bit"}}};
  std::string name = ascii_lower_case(text);
  if (name.starts_with("torch.")) name.erase(0, 6);
  if (contains(allowed, name)) return did_you_mean(name);
  for (const auto& [foreign, ours] : types)
    if (foreign == name && contains(allowed, ours)) return did_you_mean(ours);
  return "";
}

std::string suggest_word(const Value& value, const std::vector<std::string>& allowed) {
  if (value.node->kind != Node::Kind::scalar || value.node->text.empty()) return "";
  const std::string& text = value.node->text;
  // A file or a model of a hub, but the key needs the kind of tokenizer.
  if (value.key == "data.tokenizer" && text.find_first_of("/.\\") != std::string::npos)
    return "; this says the kind, data.tokenizer_file names the file";
  if (const auto word = canonical_value(value); word && contains(allowed, *word)) return did_you_mean(*word);
  const std::string small = ascii_lower_case(text);
  for (const OtherWord& other : kOtherWords)
    if (other.key == value.key && other.foreign == small && contains(allowed, other.ours))
      return did_you_mean(other.ours);
  if (const std::string type = suggest_dtype(text, allowed); !type.empty()) return type;
  if (const auto near = nearest(text, allowed)) return did_you_mean(*near);
  // "cuda:0", "linear_with_warmup"
  for (const std::string& word : allowed)
    if (small.size() > word.size() && small.starts_with(word) &&
        std::isalnum(static_cast<unsigned char>(small[word.size()])) == 0)
      return did_you_mean(word);
  return "";
}

std::string for_example(const std::vector<int64_t>& numbers) {
  return numbers.empty() ? "" : fmt::format(" (for example {})", fmt::join(numbers, " or "));
}

}  // namespace plimsoll::job
