#include "data/text/gpt2_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/text.h"
#include "data/text/bpe_ranks.h"
#include "data/text/split_pattern.h"
#include "data/text/tokenizer.h"
#include "data/text/tokenizer_facts.h"
#include "files/data_memory.h"
#include "files/file_kind.h"
#include "files/gguf.h"
#include "plimsoll/error.h"
#include "safetensors/safetensors_header.h"

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

namespace {

constexpr int kGgufBytesOfByte = 32;  // upper bound of the memory for a byte of the lists, in bytes

/// Throws UserError for a key of the tokenizer that is not known, or that says what the tokenizer does not do.
void check_keys_of_tokenizer(const GgufFile& file) {
  for (const std::string& key : file.keys()) {
    if (!key.starts_with("tokenizer.ggml.")) continue;
    const auto* fact =
        std::ranges::find_if(gguf_tokenizer::kFacts, [&](const FileFact& each) { return has_field(each, key); });
    const bool known = fact != std::end(gguf_tokenizer::kFacts);
    const std::string value = file.shown(key);
    if (known && (fact->treatment != "refused" || value == "false")) continue;
    throw UserError(
        fmt::format("{}: {} is {}; {}; take the model's tokenizer.json (data.tokenizer: huggingface)", file.path(),
                    one_line(key), one_line(value), known ? fact->note : "this setting is not known here"),
        UserError::Kind::failure);
  }
}

}  // namespace

std::unique_ptr<Tokenizer> open_gguf_tokenizer(const std::filesystem::path& path) {
  if (path.empty()) throw UserError("data.tokenizer_file: tokenizer 'gguf' needs a GGUF file");
  const GgufFile file = GgufFile::open(path);
  const auto kind = file.text("tokenizer.ggml.model").value_or(""), pre = file.text("tokenizer.ggml.pre").value_or("");
  if (kind != "gpt2" || (pre != "gpt-2" && pre != "smollm"))
    throw UserError(fmt::format("{}: its tokenizer is {} {}; known are gpt2 with gpt-2 or smollm", path.string(),
                                in_quotes(kind), in_quotes(pre)));
  check_keys_of_tokenizer(file);
  const auto letters = file.texts("tokenizer.ggml.tokens"), merges = file.texts("tokenizer.ggml.merges");
  if (!letters || !merges || letters->empty() || std::ssize(*letters) > kMaxVocabularyTokens ||
      merges->size() > letters->size())
    throw corrupt_file(file.path(), "its tokenizer lacks tokens or merges, or has too many");
  size_t bytes = 0;
  for (const auto* list : {&*letters, &*merges})
    for (const std::string_view text : *list) bytes += sizeof text + text.size();
  require_data_memory(
      path.string(),
      fmt::format("has {} bytes of tokens and merges, which take at most {} each", bytes, kGgufBytesOfByte),
      kGgufBytesOfByte * static_cast<double>(bytes));
  // The merges make adjacent tokens, in this order, so a token's number says when it is merged. Tokens before or after
  // them that no merge makes are single bytes, or are never found.
  const auto made_by = [&](size_t merge) {
    const std::string_view text = (*merges)[merge];
    const size_t space = text.find(' ');
    return space == std::string_view::npos ? std::string()
                                           : std::string(text.substr(0, space)).append(text.substr(space + 1));
  };
  const size_t last = letters->size() - merges->size();
  size_t first = 0;
  if (!merges->empty()) {
    const std::string made_first = made_by(0);  // once: a merge may be as long as the file
    while (first < last && (*letters)[first] != made_first) ++first;
  }
  std::vector<std::string> tokens(letters->size());
  for (size_t i = 0; i < letters->size(); ++i) {
    std::string bytes;
    const bool read = append_bytes_of_letters((*letters)[i], bytes);
    if (i < first || i >= first + merges->size()) {
      if (read && bytes.size() == 1) tokens[i] = std::move(bytes);
      continue;
    }
    if (!read || made_by(i - first) != (*letters)[i])
      throw UserError(
          fmt::format("{}: its token {} is not what merge {} makes; tokens that are not in the order of their "
                      "merges are not read from GGUF files: take the model's tokenizer.json "
                      "(data.tokenizer: huggingface)",
                      file.path(), i, i - first),
          UserError::Kind::failure);
    tokens[i] = std::move(bytes);
  }
  const auto special = [&](const char* key) -> int32_t {
    const int64_t token = file.integer(key).value_or(0);
    if (token < 0 || token >= static_cast<int64_t>(letters->size()))
      throw corrupt_file(file.path(), fmt::format("{} is {}, and it has {} tokens", key, token, letters->size()));
    return static_cast<int32_t>(token);
  };
  const int32_t unknown = special("tokenizer.ggml.unknown_token_id");
  BpeVariant variant{"gguf", pre == "smollm", std::nullopt, std::nullopt};
  // The file says which token ends a text. Only without this key a name does.
  if (file.integer("tokenizer.ggml.eos_token_id")) {
    variant.end_of_text = special("tokenizer.ggml.eos_token_id");
  } else {
    for (size_t i = 0; i < letters->size(); ++i)
      if ((*letters)[i] == "<|endoftext|>") variant.end_of_text = static_cast<int32_t>(i);
    if (!variant.end_of_text)
      note_data(path, fmt::format("names no end of text: documents end with a new token, {}", letters->size()));
  }
  // Some files name the end of text as the unknown token too. Inside a document it would separate text that belongs
  // together. Such a byte is therefore left out, as by tokenizers without an unknown token.
  if (file.integer("tokenizer.ggml.unknown_token_id") && variant.end_of_text != unknown) variant.unknown_byte = unknown;
  file.require_whole();  // the tokens and merges were read in the file
  return std::make_unique<Gpt2Tokenizer>(BpeRanks::of_tokens(std::move(tokens), file.path()), std::move(variant));
}

}  // namespace plimsoll
