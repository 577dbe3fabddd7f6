// YAML text as a tree with positions, safe for text that nobody has looked at yet.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace plimsoll::job {

/// One value of a document and where it starts. Lines and columns count from 1.
struct Node {
  enum class Kind : uint8_t { null, scalar, list, mapping };
  /// One line of a mapping; the position is the key's.
  struct Entry {
    std::string key;
    const Node* value = nullptr;
    int line = 0;
    int column = 0;
  };

  Kind kind = Kind::null;
  std::string text;                ///< of a scalar; of a null as it is written: "null", "~", or "" where nothing is
  std::vector<const Node*> items;  ///< of a list
  std::vector<Entry> entries;      ///< of a mapping, in the order of the text; keys are unique
  int line = 0;
  int column = 0;
};

/// Owns the nodes. They are kept side by side, not inside each other: an alias points at the node of its anchor, so
/// nothing is ever copied out of proportion to the text, and nothing is destroyed recursively.
struct Document {
  std::deque<Node> nodes;
  const Node* root = nullptr;  ///< nullptr: the text holds no value
};

/// Where a text comes from, as messages name it.
struct Source {
  std::string name;           ///< "job.yaml", or "command line: seed=7"
  bool command_line = false;  ///< positions inside the text are of no use to the reader

  /// "job.yaml:7"; for the command line the name alone.
  std::string at(int line) const;
  /// "job.yaml:7:3"; for the command line the name alone.
  std::string at(int line, int column) const;
};

/// The one YAML document in `text`. Throws UserError, with line and column, for text that is not YAML, a key given
/// twice, a key that is not a scalar, a second document, more than 32 levels of nesting and more than 1 MiB of text.
Document load_document(const std::string& text, const Source& source);

/// Bytes that load_document accepts.
constexpr size_t kLongestDocument = size_t{1} << 20;

}  // namespace plimsoll::job
