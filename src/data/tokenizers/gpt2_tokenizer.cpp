#include "data/tokenizers/gpt2_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/hash.h"
#include "data/tokenizers/bpe_ranks.h"
#include "data/tokenizers/pcre2_handles.h"
#include "data/tokenizers/piece_cache.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

// GPT-2's pattern, '(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+, with two changes that do
// not change the pieces. \s is written out as Unicode's White_Space, because PCRE2's \s also has U+180E. Repeats that
// never give a character back are possessive (++), so a run of a million letters needs no stack. `ends` lists the
// characters before which a run of white space keeps its last character, in addition to the end of the text: none, or
// digits if each digit is a piece of its own.
#define PLIMSOLL_WHITE_SPACE \
  "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define PLIMSOLL_PATTERN(digits, ends)                          \
  "'(?:[sdmt]|ll|ve|re)"                                        \
  "| ?\\p{L}++"                                                 \
  "|" digits "| ?[^" PLIMSOLL_WHITE_SPACE                       \
  "\\p{L}\\p{N}]++"                                             \
  "|[" PLIMSOLL_WHITE_SPACE "]+(?![^" ends PLIMSOLL_WHITE_SPACE \
  "])"                                                          \
  "|[" PLIMSOLL_WHITE_SPACE "]++"
constexpr std::string_view kPattern = PLIMSOLL_PATTERN(" ?\\p{N}++", "");
constexpr std::string_view kDigitsApart = PLIMSOLL_PATTERN("\\p{N}", "\\p{N}");
#undef PLIMSOLL_PATTERN
#undef PLIMSOLL_WHITE_SPACE

}  // namespace

/// A pattern that cuts text into pieces. Not in the anonymous namespace: the tokenizer's Impl has one as a member.
class Gpt2Splitter {
 public:
  explicit Gpt2Splitter(std::string_view pattern) {
    int error = 0;
    PCRE2_SIZE at = 0;
    // Anchored at compile time and not at match time: the second would rule out the JIT.
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF | PCRE2_ANCHORED,
                              &error, &at, nullptr));
    if (!code_) throw InternalError(fmt::format("GPT-2's pattern at {}: {}", at, pcre2_error_text(error)));
    pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);  // without JIT, matching is slower and has the same results
    match_.reset(pcre2_match_data_create_from_pattern(code_.get(), nullptr));
    check(match_ != nullptr, "no memory for PCRE2's match data");
  }

  template <typename Visit>
  void split(std::string_view text, Visit&& visit) {
    while (!text.empty()) {
      const std::string_view valid = valid_prefix(text);
      for (std::size_t at = 0; at < valid.size();) {
        const int result = match(valid, at, PCRE2_NO_UTF_CHECK);
        if (result < 0)
          throw InternalError(fmt::format("GPT-2's pattern does not match: {}", pcre2_error_text(result)));
        const PCRE2_SIZE end = pcre2_get_ovector_pointer(match_.get())[1];
        check(end > at, "GPT-2's pattern matched nothing");
        visit(valid.substr(at, end - at));
        at = end;
      }
      text.remove_prefix(valid.size());
      if (text.empty()) return;
      visit(text.substr(0, 1));
      text.remove_prefix(1);
    }
  }

 private:
  int match(std::string_view text, std::size_t at, uint32_t options) {
    return pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at, options, match_.get(),
                       nullptr);
  }

  /// Returns the longest start of `text` that is valid UTF-8. PCRE2 checks before it matches, and stops at the first
  /// faulty byte; so each byte is checked once, however many are invalid.
  std::string_view valid_prefix(std::string_view text) {
    const int result = match(text, 0, 0);
    const bool invalid = result <= PCRE2_ERROR_UTF8_ERR1 && result >= PCRE2_ERROR_UTF8_ERR21;
    return invalid ? text.substr(0, pcre2_get_startchar(match_.get())) : text;
  }

  Pcre2Code code_;
  Pcre2Match match_;
};

namespace {

/// Returns true if the character before a cut, which ends with this byte, may be white space. Only the last byte is
/// tested: a few other characters count as white space, and the cut is then made at another position.
bool may_end_white_space(unsigned char byte) {
  if (byte < 0x80) return byte == ' ' || (byte >= '\t' && byte <= '\r');
  return byte <= 0x8a || byte == 0x9f || byte == 0xa0 || byte == 0xa8 || byte == 0xa9 || byte == 0xaf;
}

}  // namespace

struct Gpt2Tokenizer::Impl {
  Impl(BpeRanks vocabulary, BpeVariant what)
      : ranks(std::move(vocabulary)),
        variant(std::move(what)),
        splitter(variant.digits_apart ? kDigitsApart : kPattern) {}

  void encode_piece(std::string_view piece, std::vector<int32_t>& out) {
    if (const int32_t whole = ranks.rank(piece); whole >= 0) return out.push_back(whole);
    if (piece.size() > kMaxCachedPieceLength) return merge(piece, out);
    auto found = cache.find(piece);
    if (found == cache.end()) {
      if (cache.size() >= kCachedPieces) cache.clear();
      std::vector<int32_t> tokens;
      merge(piece, tokens);
      found = cache.emplace(std::string(piece), std::move(tokens)).first;
    }
    out.insert(out.end(), found->second.begin(), found->second.end());
  }

  void merge(std::string_view piece, std::vector<int32_t>& out) const {
    const auto begin = static_cast<std::ptrdiff_t>(out.size());
    ranks.merge(piece, out);
    if (variant.unknown_byte)
      std::replace(out.begin() + begin, out.end(), -1, *variant.unknown_byte);
    else
      out.erase(std::remove(out.begin() + begin, out.end(), -1), out.end());
  }

  const BpeRanks ranks;
  const BpeVariant variant;
  std::mutex mutex;  // guards the members below: encode() calls of several threads run one after the other
  Gpt2Splitter splitter;
  PieceCache cache;
};

Gpt2Tokenizer::Gpt2Tokenizer(const std::filesystem::path& rank_file) : Gpt2Tokenizer(BpeRanks::read(rank_file), {}) {}
Gpt2Tokenizer::Gpt2Tokenizer(BpeRanks ranks, BpeVariant variant)
    : impl_(std::make_unique<Impl>(std::move(ranks), std::move(variant))) {}

Gpt2Tokenizer::~Gpt2Tokenizer() = default;

std::vector<int32_t> Gpt2Tokenizer::encode(std::string_view text) const {
  const std::lock_guard lock(impl_->mutex);
  std::vector<int32_t> tokens;
  tokens.reserve(text.size() / 3);
  impl_->splitter.split(text, [&](std::string_view piece) { impl_->encode_piece(piece, tokens); });
  return tokens;
}

std::string Gpt2Tokenizer::decode(std::span<const int32_t> tokens) const {
  std::string text;
  for (int32_t token : tokens) {
    if (token == end_of_text()) continue;
    if (token < 0 || token >= impl_->ranks.size())
      throw UserError(fmt::format("token {} is not in the vocabulary of tokenizer '{}' (0 to {})", token, name(),
                                  vocab_size() - 1));
    text += impl_->ranks.bytes(token);
  }
  return text;
}

int64_t Gpt2Tokenizer::vocab_size() const {
  return impl_->ranks.size() + (impl_->variant.end_of_text ? 0 : 1);
}

int32_t Gpt2Tokenizer::end_of_text() const {
  return impl_->variant.end_of_text.value_or(static_cast<int32_t>(impl_->ranks.size()));
}

std::string Gpt2Tokenizer::name() const {
  return impl_->variant.name;
}

uint64_t Gpt2Tokenizer::fingerprint() const {
  const BpeVariant& variant = impl_->variant;
  if (variant.name == "gpt2") return hash_bytes(variant.name, impl_->ranks.fingerprint());
  return hash_bytes(fmt::format("{} {} {} {}", variant.name, variant.digits_apart, variant.end_of_text.value_or(-1),
                                variant.unknown_byte.value_or(-1)),
                    impl_->ranks.fingerprint());
}

std::size_t Gpt2Tokenizer::last_cut(std::string_view text) const {
  // A cut between a character that is no white space and a space or a line feed: no piece has both. The end of the
  // piece before it does not depend on the text after it.
  for (std::size_t at = text.size(); at-- > 1;)
    if ((text[at] == ' ' || text[at] == '\n') && !may_end_white_space(static_cast<unsigned char>(text[at - 1])))
      return at;
  return 0;
}

}  // namespace plimsoll
