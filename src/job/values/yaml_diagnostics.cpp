#include "job/values/yaml_diagnostics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <vector>

#include "base/quoted.h"
#include "base/trimmed.h"

namespace plimsoll::job {
namespace {

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

std::string_view indentation_of(std::string_view line) {
  return line.substr(0, std::min(line.find_first_not_of(" \t"), line.size()));
}

/// Returns the content of a line without its indentation and comment; quotes are respected.
std::string_view content_of(std::string_view line) {
  line.remove_prefix(indentation_of(line).size());
  char quote = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    if (quote != 0) {
      if (line[i] == quote) quote = 0;
    } else if (line[i] == '"' || line[i] == '\'') {
      quote = line[i];
    } else if (line[i] == '#' && (i == 0 || line[i - 1] == ' ')) {
      line = line.substr(0, i);
    }
  }
  while (line.ends_with(' ') || line.ends_with('\t')) line.remove_suffix(1);
  return line;
}

bool is_word(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '.' || c == '-';
  });
}

/// An open bracket or quote, the innermost one, at the end of lines[0 .. last].
struct Open {
  char what = 0;  ///< 0: nothing is open
  size_t line = 0;
};

Open open_at_end(const std::vector<std::string_view>& lines, size_t count) {
  std::vector<Open> open;
  for (size_t at = 0; at < count; ++at) {
    const std::string_view line = content_of(lines[at]);
    for (size_t i = 0; i < line.size(); ++i) {
      const char c = line[i];
      const bool in_quote = !open.empty() && (open.back().what == '"' || open.back().what == '\'');
      if (in_quote) {
        if (c == '\\' && open.back().what == '"')
          ++i;
        else if (c == open.back().what)
          open.pop_back();
        continue;
      }
      // A quote within a word is a plain character.
      const bool begins = i == 0 || std::string_view(" [{,:").find(line[i - 1]) != std::string_view::npos;
      if (c == '{' || c == '[' || ((c == '"' || c == '\'') && begins)) open.push_back({c, at});
      if ((c == '}' || c == ']') && !open.empty()) open.pop_back();
    }
  }
  return open.empty() ? Open() : open.back();
}

/// Finds a line of a block with invalid syntax, at or shortly before the one that the parser refused.
std::optional<YamlDiagnostic> line_that_is_none(const std::vector<std::string_view>& lines, size_t count) {
  constexpr size_t furthest = 4;
  for (size_t at = count; at-- > 0 && at + furthest >= count;) {
    const std::string_view content = content_of(lines[at]);
    const bool plain = !content.starts_with("- ") && content.find_first_of("{}[]\"'|>") == std::string_view::npos;
    if (content.empty() || (!plain && at + 1 == count)) continue;
    if (!plain) break;
    const size_t colon = content.find(':');
    const auto number = static_cast<int>(at) + 1;
    if (colon == std::string_view::npos) {
      const size_t cut = content.find_first_of(" =\t");
      const std::string_view key = content.substr(0, cut);
      const size_t value = cut == std::string_view::npos ? cut : content.find_first_not_of(" =\t", cut);
      if (!is_word(key) || value == std::string_view::npos)
        return YamlDiagnostic{number, fmt::format("{} is no 'key: value'", in_quotes(content))};
      return YamlDiagnostic{
          number, fmt::format("a colon is missing: write {}: {}", one_line(key), one_line(content.substr(value)))};
    }
    if (colon + 1 < content.size() && content[colon + 1] != ' ' && is_word(content.substr(0, colon)) &&
        content.find(": ") == std::string_view::npos)
      return YamlDiagnostic{
          number, fmt::format("a space is missing behind the colon: write {}: {}", one_line(content.substr(0, colon)),
                              one_line(content.substr(colon + 1)))};
  }
  return std::nullopt;
}

std::optional<YamlDiagnostic> indented_for_no_reason(const std::vector<std::string_view>& lines, size_t count) {
  if (count < 2) return std::nullopt;
  size_t before = count - 1;
  while (before > 0 && content_of(lines[before - 1]).empty()) --before;
  if (before == 0) return std::nullopt;
  const std::string_view line = lines[count - 1], above = lines[before - 1];
  if (indentation_of(line).size() > indentation_of(above).size() && !content_of(above).ends_with(':'))
    return YamlDiagnostic{
        static_cast<int>(count),
        fmt::format("the line is indented further than line {}, which is no section (that would end in a colon)",
                    before)};
  if (indentation_of(line).size() < indentation_of(above).size())
    return YamlDiagnostic{static_cast<int>(count), "the line is indented otherwise than those that it belongs to"};
  return std::nullopt;
}

}  // namespace

std::optional<YamlDiagnostic> diagnose_yaml(std::string_view text, int line) {
  const std::vector<std::string_view> lines = lines_of(text);
  const size_t count = std::min(lines.size(), static_cast<size_t>(std::max(line, 1)));
  for (size_t at = 0; at < count; ++at)
    if (indentation_of(lines[at]).find('\t') != std::string_view::npos && !content_of(lines[at]).empty())
      return YamlDiagnostic{static_cast<int>(at) + 1, "the line is indented with a tab; YAML takes spaces alone"};
  if (const Open open = open_at_end(lines, lines.size()); open.what != 0)
    return YamlDiagnostic{static_cast<int>(open.line) + 1,
                          fmt::format("the {} that opens here is not closed", open.what)};
  if (auto diagnostic = line_that_is_none(lines, count)) return diagnostic;
  return indented_for_no_reason(lines, count);
}

bool quote_is_closed(std::string_view text, int line, int column) {
  const std::vector<std::string_view> lines = lines_of(text);
  if (line < 1 || static_cast<size_t>(line) > lines.size()) return true;
  std::string_view rest = lines[static_cast<size_t>(line) - 1];
  // yaml-cpp's columns count bytes, without a byte order mark.
  size_t byte = static_cast<size_t>(std::max(column, 1)) - 1;
  if (line == 1 && rest.starts_with(kByteOrderMark)) byte += kByteOrderMark.size();
  if (byte >= rest.size() || (rest[byte] != '"' && rest[byte] != '\'')) return true;
  const char quote = rest[byte];
  rest = text.substr(static_cast<size_t>(rest.data() - text.data()) + byte + 1);
  for (size_t i = 0; i < rest.size(); ++i) {
    if (quote == '"' && rest[i] == '\\')
      ++i;
    else if (rest[i] == quote && quote == '\'' && i + 1 < rest.size() && rest[i + 1] == quote)
      ++i;
    else if (rest[i] == quote)
      return true;
  }
  return false;
}

std::string not_text(std::string_view text) {
  using namespace std::string_view_literals;
  if (text.starts_with("GGUF"sv)) return "it is a GGUF file, a model's weights";
  if (text.starts_with("PK\x03\x04"sv)) return "it is a zip archive, as a PyTorch checkpoint is";
  if (text.starts_with("\x1f\x8b"sv)) return "it is compressed by gzip";
  if (text.starts_with("\x80\x02"sv) || text.starts_with("\x80\x04"sv)) return "it is a pickle of Python";
  if (text.size() > 8 && text.substr(0, 8).find('\0') != std::string_view::npos && text.substr(8).starts_with("{\""))
    return "it is a safetensors file, a model's weights";
  // YAML may be in UTF-16 or UTF-32, which the parser reads.
  if (text.starts_with("\xff\xfe"sv) || text.starts_with("\xfe\xff"sv) || text.starts_with("\0\0\xfe\xff"sv)) return "";
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if ((c < ' ' && c != '\n' && c != '\r' && c != '\t' && c != '\f') || c == 0x7f)
      return fmt::format("its byte {} is {:#04x}, which no text has", i, c);
  }
  return "";
}

}  // namespace plimsoll::job
