// Parses YAML text to a tree with positions, safe for text from an untrusted source, and describes errors in a text
// that is not YAML.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::job {

/// A value of a document and its start. Lines and columns count from 1.
struct Node {
  enum class Kind : uint8_t { null, scalar, list, mapping };
  /// An entry of a mapping; the position is the key's.
  struct Entry {
    std::string key;
    const Node* value = nullptr;
    int line = 0;
    int column = 0;
  };

  Kind kind = Kind::null;
  std::string text;                ///< text of a scalar; of a null as written: "null", "~", or "" if there is no text
  std::vector<const Node*> items;  ///< items of a list
  std::vector<Entry> entries;      ///< entries of a mapping, in the order of the text; keys are unique
  int line = 0;
  int column = 0;
};

/// A document, which owns its nodes in one list. An alias points at the node of its anchor. Therefore memory is
/// proportional to the text, and nothing is destroyed recursively.
struct Document {
  std::deque<Node> nodes;
  const Node* root = nullptr;  ///< nullptr: the text has no value
};

/// The source of a text, for messages.
struct Source {
  std::string name;           ///< "job.yaml", or "command line: seed=7"
  bool command_line = false;  ///< true: positions inside the text are of no use to the user

  /// Returns "job.yaml:7"; for the command line only the name.
  std::string at(int line) const;
  /// Returns "job.yaml:7:3"; for the command line only the name.
  std::string at(int line, int column) const;
};

/// Returns the one YAML document in `text`. Throws UserError, with line and column, for text that is not YAML, a key
/// given twice, a key that is not a scalar, a second document, more than 32 levels of nesting and more than 1 MiB of
/// text.
Document load_document(const std::string& text, const Source& source);

/// Largest number of bytes that load_document accepts.
constexpr size_t kMaxDocumentLength = size_t{1} << 20;

/// An error in a text that is not YAML, in the user's terms. The parser reports only the place where it noticed the
/// error, in terms of its own: "illegal map value".
struct YamlDiagnostic {
  int line = 0;  ///< from 1
  std::string what;
};

/// Returns the likeliest error in `text`, which the parser refused at `line` (from 1): a tab that indents, an open
/// bracket or quote, a missing space after a colon, a line without a colon, an unexpected indent. Returns nullopt if
/// none of them is found.
std::optional<YamlDiagnostic> diagnose_yaml(std::string_view text, int line);

/// Returns true if the quote that opens at `line` and `column` (from 1, in characters) is closed; true too if there is
/// no quote at that place. The parser treats an open quote as closed at the end of the text.
bool quote_is_closed(std::string_view text, int line, int column);

/// Returns the reason why `text` is not a text file ("it is a safetensors file", "byte 12 is 0"); "" if it may be one.
std::string not_text(std::string_view text);

}  // namespace plimsoll::job
