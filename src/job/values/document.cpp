#include "job/values/document.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <map>
#include <sstream>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/quoted.h"
#include "job/values/yaml_diagnostics.h"
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

}  // namespace plimsoll::job
