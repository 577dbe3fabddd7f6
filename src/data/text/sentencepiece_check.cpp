#include "data/text/sentencepiece_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/text.h"

namespace plimsoll {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers of the wire format are little endian");

constexpr size_t kMaxPieces = size_t{1} << 20;  // Gemma has 2^18
constexpr size_t kMaxPieceLength = 1024;
constexpr size_t kMaxNestedSymbols = 64;  // room of libsentencepiece's PrefixMatcher
constexpr size_t kMaxSelfTestBytes = size_t{1} << 16;

struct Problem {
  std::string what;
};

/// A field of a message: a number, or bytes in the model.
struct Field {
  uint64_t number = 0;
  enum Type : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 } type = varint;
  uint64_t whole = 0;      ///< value of a varint
  std::string_view value;  ///< value of the other types
};

/// A reader of a message's fields. Throws Problem for a field that ends after the message.
class Fields {
 public:
  explicit Fields(std::string_view message) : left_(message) {}

  bool next(Field& field) {
    if (left_.empty()) return false;
    const uint64_t tag = varint();
    field.number = tag >> 3;
    field.type = static_cast<Field::Type>(tag & 7);
    if (field.number == 0 || field.number >> 29 != 0) throw Problem{"a field has no number"};
    switch (field.type) {
      case Field::varint:
        field.whole = varint();
        return true;
      case Field::fixed64:
        field.value = take(8);
        return true;
      case Field::bytes:
        field.value = take(varint());
        return true;
      case Field::fixed32:
        field.value = take(4);
        return true;
    }
    throw Problem{fmt::format("a field is of the wire type {}", tag & 7)};
  }

 private:
  std::string_view take(uint64_t bytes) {
    if (bytes > left_.size()) throw Problem{fmt::format("a field has {} bytes, and {} are left", bytes, left_.size())};
    const std::string_view taken = left_.substr(0, bytes);
    left_.remove_prefix(bytes);
    return taken;
  }
  uint64_t varint() {
    uint64_t number = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      number |= static_cast<uint64_t>(byte & 0x7fu) << shift;
      if (byte < 0x80) return number;
    }
    throw Problem{"a number does not end"};
  }

  std::string_view left_;
};

class ModelCheck {
 public:
  void check(std::string_view model) {
    Field field;
    size_t self_test_bytes = 0;
    for (Fields fields(model); fields.next(field);) {
      if (field.type != Field::bytes) continue;
      if (field.number == 1) piece(field.value);
      if (field.number == 3 || field.number == 5) normalizer(field.value);
      if (field.number == 4) self_test_bytes += field.value.size();
    }
    if (pieces_ == 0) throw Problem{"it has no pieces"};
    if (self_test_bytes > kMaxSelfTestBytes)
      throw Problem{fmt::format("it has {} bytes of self tests; at most {}", self_test_bytes, kMaxSelfTestBytes)};
    nested_symbols();
  }

 private:
  static constexpr uint64_t kUserDefined = 4, kLastType = 6;

  void piece(std::string_view message) {
    if (++pieces_ > kMaxPieces) throw Problem{fmt::format("it has more than {} pieces", kMaxPieces)};
    std::string_view text;
    float score = 0;
    uint64_t type = 1;
    Field field;
    for (Fields fields(message); fields.next(field);) {
      if (field.number == 1 && field.type == Field::bytes) text = field.value;
      if (field.number == 2 && field.type == Field::fixed32) std::memcpy(&score, field.value.data(), sizeof score);
      if (field.number == 3 && field.type == Field::varint) type = field.whole;
    }
    const auto fault = [&](const std::string& what) { throw Problem{fmt::format("piece {} {}", pieces_ - 1, what)}; };
    if (text.empty() || text.size() > kMaxPieceLength)
      fault(fmt::format("has {} bytes; allowed are 1 to {}", text.size(), kMaxPieceLength));
    if (!std::isfinite(score)) fault("has a score that is not finite");
    if (type < 1 || type > kLastType) fault(fmt::format("is of the type {}; allowed are 1 to {}", type, kLastType));
    for (std::string_view rest = text; !rest.empty();) {
      const Character first = first_character(rest);
      if (!first.valid || first.code == 0) fault("is not valid UTF-8 without zero bytes");
      rest.remove_prefix(first.bytes);
    }
    if (type == kUserDefined) symbols_.push_back(text);
  }

  static void normalizer(std::string_view message) {
    Field field;
    for (Fields fields(message); fields.next(field);)
      if (field.number == 2 && field.type == Field::bytes && !field.value.empty())
        if (const std::string problem = charsmap_problem(field.value); !problem.empty())
          throw Problem{"precompiled_charsmap: " + problem};
  }

  /// In sorted order, the prefixes of a symbol come before it: the open ones are a stack.
  void nested_symbols() {
    std::ranges::sort(symbols_);
    std::vector<std::string_view> open;
    for (const std::string_view each : symbols_) {
      while (!open.empty() && !each.starts_with(open.back())) open.pop_back();
      open.push_back(each);
      if (open.size() > kMaxNestedSymbols)
        throw Problem{fmt::format("more than {} of its symbols begin one another, more than the library has room for",
                                  kMaxNestedSymbols)};
    }
  }

  size_t pieces_ = 0;
  std::vector<std::string_view> symbols_;  // user-defined symbols
};

}  // namespace

std::string sentencepiece_model_problem(std::string_view model) {
  try {
    ModelCheck().check(model);
  } catch (const Problem& problem) {
    return problem.what;
  }
  return "";
}

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
