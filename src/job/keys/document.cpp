#include "job/keys/document.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <sstream>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/text.h"
#include "plimsoll/error.h"

namespace plimsoll::job {
namespace {

constexpr size_t kMaxDepth = 32;

/// A builder of the tree from the parser's events. The parser recurses once for each level, so refusing a level here
/// also bounds its stack.
class Builder : public YAML::EventHandler {
 public:
  Builder(Document& document, const Source& source, std::string_view text)
      : document_(document), source_(source), text_(text) {}

  /// Returns the begin of the last quoted scalar, if any: only that one can lack its end.
  const YAML::Mark& last_quote() const { return last_quote_; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ > 0) refuse(mark, "a second document starts here; a job file holds one");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Node* node = add(mark, Node::Kind::null, anchor, null_at(mark));
    if (!node->text.empty()) return;
    if (open_.empty() || open_.back().node->entries.empty()) return;
    // The parser notices a missing value only at the next token, so the key's position is used instead.
    const Node::Entry& entry = open_.back().node->entries.back();
    if (entry.value == node) node->line = entry.line, node->column = entry.column;
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    if (tag == "!") last_quote_ = mark;
    add(mark, Node::Kind::scalar, anchor, text);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override { attach(mark, anchors_.at(anchor)); }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, Node::Kind::list, anchor);
  }
  void OnSequenceEnd() override { open_.pop_back(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, Node::Kind::mapping, anchor);
  }
  void OnMapEnd() override { open_.pop_back(); }

 private:
  /// A list or mapping whose end was not read yet.
  struct Level {
    Node* node;
    bool after_key = false;            ///< a mapping whose last entry waits for its value
    std::map<std::string, int> lines;  ///< line of each key of a mapping
  };

  [[noreturn]] void refuse(const YAML::Mark& mark, const std::string& what) const {
    throw UserError(fmt::format("{}: {}", source_.at(mark.line + 1, mark.column + 1), what));
  }

  Node* add(const YAML::Mark& mark, Node::Kind kind, YAML::anchor_t anchor, std::string text = {}) {
    Node& node = document_.nodes.emplace_back();
    node.kind = kind;
    node.text = std::move(text);
    node.line = mark.line + 1;
    node.column = mark.column + 1;
    if (anchor != YAML::NullAnchor) anchors_[anchor] = &node;
    attach(mark, &node);
    return &node;
  }

  /// Returns "null" or "~" if it is written there. The parser reports only that there is no value. For a missing value,
  /// the mark is the start of the next key.
  std::string null_at(const YAML::Mark& mark) const {
    if (mark.pos < 0 || static_cast<size_t>(mark.pos) >= text_.size()) return "";
    const std::string_view rest = text_.substr(static_cast<size_t>(mark.pos));
    for (const std::string_view word : {"null", "Null", "NULL", "~"})
      if (rest.starts_with(word) && (rest.size() == word.size() ||
                                     std::string_view(" \t\r\n,]}").find(rest[word.size()]) != std::string_view::npos))
        return std::string(word);
    return "";
  }

  void open(const YAML::Mark& mark, Node::Kind kind, YAML::anchor_t anchor) {
    if (open_.size() == kMaxDepth) refuse(mark, fmt::format("more than {} levels of nesting", kMaxDepth));
    Node* node = add(mark, kind, anchor);
    open_.push_back({node, false, {}});
  }

  /// Adds a value at its place in the text: to the open list, or as the key or value of the open mapping.
  void attach(const YAML::Mark& mark, const Node* node) {
    if (open_.empty()) {
      document_.root = node;
      return;
    }
    Level& level = open_.back();
    if (level.node->kind == Node::Kind::list) {
      level.node->items.push_back(node);
    } else if (level.after_key) {
      level.node->entries.back().value = node;
      level.after_key = false;
    } else {
      if (node->kind != Node::Kind::scalar)
        refuse(mark,
               "a key must be a word or a number; a list or a mapping begins here (a closing bracket or a comma may be "
               "missing)");
      const auto [first, is_new] = level.lines.emplace(node->text, mark.line + 1);
      if (!is_new)
        refuse(mark, fmt::format("the key {} is given twice{}", in_quotes(node->text),
                                 source_.command_line ? "" : fmt::format("; the first is on line {}", first->second)));
      level.node->entries.push_back({node->text, nullptr, mark.line + 1, mark.column + 1});
      level.after_key = true;
    }
  }

  Document& document_;
  const Source& source_;
  std::string_view text_;
  int documents_ = 0;
  YAML::Mark last_quote_ = YAML::Mark::null_mark();
  std::vector<Level> open_;
  std::unordered_map<YAML::anchor_t, const Node*> anchors_;
};

/// Returns the parser's message with a remedy, if one is known.
std::string describe_yaml_error(const std::string& message, const std::string& text) {
  if (message.find("sequence flow") != std::string::npos && text.find(".[") != std::string::npos)
    return "a pattern that has brackets stands in quotes: 'layers.[0-3]'";
  if (message.find("map flow") != std::string::npos) return "a comma is missing, or the } that ends it";
  if (message.find("sequence flow") != std::string::npos) return "a comma is missing, or the ] that ends it";
  if (message.find("escape") != std::string::npos)
    return message + "; between double quotes a backslash begins an escape: use single quotes or none";
  // YAML takes text that begins with * for a reference; here it is a pattern without its quotes.
  if (message.find("anchor") != std::string::npos)
    return message + "; a pattern that begins with * stands in quotes: '*.qkv'";
  return message;
}

UserError not_yaml(const std::string& text, const Source& source, const YAML::Exception& error) {
  const bool nowhere = error.mark.is_null();
  if (error.msg.find("anchor") == std::string::npos && error.msg.find("escape") == std::string::npos)
    if (const auto diagnostic = diagnose_yaml(text, nowhere ? static_cast<int>(text.size()) : error.mark.line + 1))
      return UserError(fmt::format("{}: not valid YAML: {}", source.at(diagnostic->line), diagnostic->what));
  return UserError(fmt::format("{}: not valid YAML: {}",
                               nowhere ? source.name : source.at(error.mark.line + 1, error.mark.column + 1),
                               describe_yaml_error(error.msg, text)));
}

}  // namespace

std::string Source::at(int line) const {
  return command_line ? name : fmt::format("{}:{}", name, line);
}

std::string Source::at(int line, int column) const {
  return command_line ? name : fmt::format("{}:{}:{}", name, line, column);
}

Document load_document(const std::string& text, const Source& source) {
  if (text.size() > kMaxDocumentLength)
    throw UserError(fmt::format("{}: longer than {} bytes: this is not a job file", source.name, kMaxDocumentLength));
  if (const std::string why = not_text(text); !why.empty())
    throw UserError(fmt::format("{}: {}; a job file is text, YAML", source.name, why));
  Document document;
  Builder builder(document, source, text);
  std::istringstream stream(text);
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& error) {
    throw not_yaml(text, source, error);
  }
  if (const YAML::Mark& quote = builder.last_quote();
      !quote.is_null() && !quote_is_closed(text, quote.line + 1, quote.column + 1))
    throw UserError(fmt::format("{}: not valid YAML: the quote that opens here is not closed",
                                source.at(quote.line + 1, quote.column + 1)));
  return document;
}

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
