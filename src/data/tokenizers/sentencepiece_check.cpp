#include "data/tokenizers/sentencepiece_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/unicode_text.h"
#include "data/tokenizers/charsmap_check.h"

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

}  // namespace plimsoll
