#include "data/tokenizers/charsmap_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/unicode_text.h"

namespace plimsoll {
namespace {

constexpr size_t kUnitsOfBlock = 256;    // units, one for each byte
constexpr uint32_t kMaxNestedKeys = 32;  // libsentencepiece's Normalizer::kMaxTrieResultsSize
constexpr size_t kMaxGrowth = 16;

// A unit of darts-clone: the fields of an array element of 32 bits.
uint32_t label_of(uint32_t unit) {
  return unit & (uint32_t{1} << 31 | 0xff);
}
bool has_leaf(uint32_t unit) {
  return (unit >> 8 & 1) != 0;
}
uint32_t offset_of(uint32_t unit) {
  return unit >> 10 << ((unit & uint32_t{1} << 9) >> 6);
}
uint32_t value_of(uint32_t unit) {
  return unit & ((uint32_t{1} << 31) - 1);
}

/// A walk over all states that a text can lead to. A state is the position to which the next byte is added (exclusive
/// or).
class CharsmapWalk {
 public:
  CharsmapWalk(std::vector<uint32_t> units, std::string_view replacements)
      : units_(std::move(units)),
        replacements_(replacements),
        depth_(units_.size(), kUnseen),
        edges_in_(units_.size()),
        nested_(units_.size()) {}

  std::string problem() {
    if (units_.empty() || units_.size() % kUnitsOfBlock != 0) return "its trie is not of whole blocks";
    if (!reach(offset_of(units_[0]), 0)) return problem_;
    for (size_t i = 0; i < states_.size(); ++i)
      if (!each_edge(states_[i], [&](uint32_t unit, uint32_t next) {
            if (!reach(next, depth_[states_[i]] + 1)) return false;
            ++edges_in_[next];
            return !has_leaf(unit) || leaf(next);
          }))
        return problem_;
    return nested_problem();
  }

 private:
  static constexpr uint32_t kUnseen = UINT32_MAX;

  /// Calls visit(unit, next state) for each byte that continues a state, until it returns false.
  template <typename Visit>
  bool each_edge(uint32_t state, Visit&& visit) {
    for (uint32_t byte = 0; byte < kUnitsOfBlock; ++byte) {
      const uint32_t at = state ^ byte, unit = units_[at];
      if (label_of(unit) == byte && !visit(unit, at ^ offset_of(unit))) return false;
    }
    return true;
  }

  /// States are found in order of their depth, so the first depth is the least.
  bool reach(uint32_t state, uint32_t depth) {
    if (state >= units_.size()) {  // blocks are whole: the state's other bytes are inside, too
      problem_ = fmt::format("its trie leads to unit {} of {}", state, units_.size());
      return false;
    }
    if (depth_[state] == kUnseen) {
      depth_[state] = depth;
      states_.push_back(state);
    }
    return true;
  }

  bool leaf(uint32_t state) {
    if (nested_[state] > 0) return true;  // verified before
    nested_[state] = 1;
    const size_t at = value_of(units_[state]);
    const size_t end = at < replacements_.size() ? replacements_.find('\0', at) : std::string_view::npos;
    if (end == std::string_view::npos) {
      problem_ = fmt::format("its replacement at byte {} does not end in its {} bytes", at, replacements_.size());
      return false;
    }
    if (end - at > kMaxGrowth * depth_[state]) {
      problem_ = fmt::format("it replaces {} bytes by {}; at most {} a byte", depth_[state], end - at, kMaxGrowth);
      return false;
    }
    for (std::string_view rest = replacements_.substr(at, end - at); !rest.empty();) {
      const Character first = first_character(rest);
      if (!first.valid) {
        problem_ = "one of its replacements is not valid UTF-8";
        return false;
      }
      rest.remove_prefix(first.bytes);
    }
    return true;
  }

  /// Visits the states in topological order and counts the keys on the way; states of a cycle are never free.
  std::string nested_problem() {
    std::vector<uint32_t> free;
    std::vector<uint32_t> before(units_.size());
    const uint32_t root = states_.front();
    if (edges_in_[root] == 0) free.push_back(root);
    size_t taken = 0;
    for (; !free.empty(); ++taken) {
      const uint32_t state = free.back();
      free.pop_back();
      // If one unit that leads to a state ends a key and another does not, the key counts for both: an upper bound.
      const uint32_t keys = before[state] + nested_[state];
      if (keys > kMaxNestedKeys)
        return fmt::format("more than {} of its keys begin one another, more than the library has room for",
                           kMaxNestedKeys);
      each_edge(state, [&](uint32_t, uint32_t next) {
        before[next] = std::max(before[next], keys);
        if (--edges_in_[next] == 0) free.push_back(next);
        return true;
      });
    }
    return taken == states_.size() ? "" : "its trie has a cycle";
  }

  std::vector<uint32_t> units_;
  std::string_view replacements_;
  std::vector<uint32_t> depth_, edges_in_, nested_;  // for each state; nested: 1 if a key ends there
  std::vector<uint32_t> states_;
  std::string problem_;
};

}  // namespace

std::string charsmap_problem(std::string_view charsmap) {
  uint32_t bytes = 0;
  if (charsmap.size() < sizeof bytes) return "it has no size";
  std::memcpy(&bytes, charsmap.data(), sizeof bytes);
  charsmap.remove_prefix(sizeof bytes);
  if (bytes > charsmap.size()) return fmt::format("its trie has {} bytes, and {} are left", bytes, charsmap.size());
  if (bytes % sizeof(uint32_t) != 0) return "its trie is not of whole units";
  std::vector<uint32_t> units(bytes / sizeof(uint32_t));
  std::memcpy(units.data(), charsmap.data(), bytes);
  return CharsmapWalk(std::move(units), charsmap.substr(bytes)).problem();
}

}  // namespace plimsoll
