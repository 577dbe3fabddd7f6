#include "data/text/subword_model.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/json.h"
#include "base/text.h"
#include "data/text/bpe_ranks.h"
#include "data/text/token_trie.h"
#include "data/text/tokenizer.h"

namespace plimsoll {
namespace {

constexpr size_t kMaxMerges = size_t{1} << 24;
constexpr size_t kMaxParts = size_t{1} << 31;  // parts of a piece: positions are numbers of 32 bits
constexpr int64_t kMaxWordLength = 1000;  // characters of a word that WordPiece encodes: its effort grows with their
                                          // square
constexpr size_t kMaxMarkLength = 64;  // bytes of the mark of a token's position in a word: each character may get one

/// Reads the mark `key` of a model, such as "##" or "</w>".
std::string mark(const JsonFields& fields, const char* key, const char* fallback) {
  std::string text = fields.text(key, fallback);
  if (text.size() > kMaxMarkLength)
    fields.refuse(fmt::format("{} has {} bytes; at most {}", key, text.size(), kMaxMarkLength));
  return text;
}

/// Byte-pair encoding with merges by their rank (Sennrich et al. 2016), as in the tokenizers package: merges name both
/// halves, and several pairs may make one token.
class BytePairs final : public SubwordModel {
 public:
  BytePairs(const JsonFields& fields, const std::string& name) : vocabulary_(fields.at("vocab"), name) {
    if (!fields.at("dropout").is_null() && fields.at("dropout") != 0.0)
      fields.refuse_value("dropout", "tokens are the same every time here: set it to null");
    prefix_ = mark(fields, "continuing_subword_prefix", "");
    suffix_ = mark(fields, "end_of_word_suffix", "");
    fuse_unknown_ = fields.boolean("fuse_unk", false);
    whole_first_ = fields.boolean("ignore_merges", false);
    if (const std::string unknown = fields.text("unk_token", ""); !unknown.empty()) {
      unknown_ = vocabulary_.id(unknown);
      if (unknown_ < 0) fields.refuse_value("unk_token", "it is not in the vocabulary");
    }
    const bool fallback = fields.boolean("byte_fallback", false);
    for (int byte = 0; byte < 256; ++byte) {
      byte_ids_[static_cast<size_t>(byte)] = fallback ? vocabulary_.id(fmt::format("<0x{:02X}>", byte)) : -1;
      if (byte_ids_[static_cast<size_t>(byte)] >= 0)
        bytes_[byte_ids_[static_cast<size_t>(byte)]] = static_cast<char>(byte);
    }
    read_merges(fields);
  }

  void encode(std::string_view piece, std::vector<int32_t>& out) const override {
    if (whole_first_)
      if (const int32_t whole = vocabulary_.id(piece); whole >= 0) return out.push_back(whole);
    std::vector<int32_t> parts;
    int32_t waiting = -1;  // an unknown token that more may be fused with
    const auto flush = [&] {
      if (waiting >= 0) parts.push_back(waiting);
      waiting = -1;
    };
    std::string letter;
    for (size_t at = 0; at < piece.size();) {
      const size_t bytes = first_character(piece.substr(at)).bytes;
      const std::string_view plain = piece.substr(at, bytes);
      letter = at > 0 ? prefix_ : std::string();
      letter += plain;
      at += bytes;
      if (at == piece.size()) letter += suffix_;
      if (const int32_t id = vocabulary_.id(letter); id >= 0) {
        flush();
        parts.push_back(id);
        continue;
      }
      // Bytes are added before a pending unknown token, as in the package.
      if (in_bytes(letter, parts)) continue;
      if (unknown_ < 0) continue;  // without an unknown token the character is left out
      if (!fuse_unknown_) flush();
      waiting = unknown_;
    }
    flush();
    merge(parts, out);
  }

  const Vocabulary& vocabulary() const override { return vocabulary_; }

  std::string text_of(int32_t token) const override {
    if (const auto byte = bytes_.find(token); byte != bytes_.end()) return {byte->second};
    std::string text = vocabulary_.texts()[static_cast<size_t>(token)];
    if (!prefix_.empty() && text.starts_with(prefix_)) text.erase(0, prefix_.size());
    if (!suffix_.empty() && text.ends_with(suffix_)) text.replace(text.size() - suffix_.size(), suffix_.size(), " ");
    return text;
  }

 private:
  struct Merge {
    int32_t rank, made;
  };

  static uint64_t key(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }

  void read_merges(const JsonFields& fields) {
    const nlohmann::json& list = fields.list("merges", kMaxMerges);
    merges_.reserve(list.size());
    int32_t rank = 0;
    for (const nlohmann::json& each : list) {
      std::string left, right;
      if (each.is_array() && each.size() == 2 && each[0].is_string() && each[1].is_string()) {
        left = each[0].get<std::string>();
        right = each[1].get<std::string>();
      } else if (each.is_string()) {
        const auto text = each.get<std::string>();
        const size_t space = text.find(' ');
        if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos)
          fields.refuse(fmt::format("merge {} is {}, which is no pair", rank, in_quotes(text)));
        left = text.substr(0, space);
        right = text.substr(space + 1);
      } else {
        fields.refuse(fmt::format("merge {} is no pair of texts", rank));
      }
      const std::string_view rest = std::string_view(right).substr(right.starts_with(prefix_) ? prefix_.size() : 0);
      const int32_t a = vocabulary_.id(left), b = vocabulary_.id(right),
                    made = vocabulary_.id(left + std::string(rest));
      if (a < 0 || b < 0 || made < 0)
        fields.refuse(fmt::format("merge {} of {} and {} is not of tokens to a token of the vocabulary", rank,
                                  in_quotes(left), in_quotes(right)));
      merges_[key(a, b)] = {rank++, made};  // the later of two equal merges is valid, as in the package
    }
  }

  bool in_bytes(std::string_view letter, std::vector<int32_t>& parts) const {
    for (const char c : letter)
      if (byte_ids_[static_cast<unsigned char>(c)] < 0) return false;
    for (const char c : letter) parts.push_back(byte_ids_[static_cast<unsigned char>(c)]);
    return true;
  }

  void merge(std::vector<int32_t>& parts, std::vector<int32_t>& out) const {
    if (parts.size() > kMaxParts)
      throw UserError(fmt::format("a text has {} bytes without a place to split it; at most {}; use another tokenizer",
                                  parts.size(), kMaxParts),
                      UserError::Kind::failure);
    const auto merge_of = [&](size_t left, size_t right) { return merges_.find(key(parts[left], parts[right])); };
    const std::vector<uint32_t> ends = merge_pairs<uint32_t>(
        static_cast<uint32_t>(parts.size()),
        [&](uint32_t left, uint32_t middle, uint32_t) -> std::optional<int32_t> {
          const auto found = merge_of(left, middle);
          return found == merges_.end() ? std::nullopt : std::optional(found->second.rank);
        },
        [&](uint32_t left, uint32_t middle, uint32_t) { parts[left] = merge_of(left, middle)->second.made; });
    for (uint32_t i = 0; i < parts.size(); i = ends[i]) out.push_back(parts[i]);
  }

  Vocabulary vocabulary_;
  std::unordered_map<uint64_t, Merge> merges_;
  std::string prefix_, suffix_;
  int32_t unknown_ = -1;
  bool fuse_unknown_ = false, whole_first_ = false;
  std::array<int32_t, 256> byte_ids_{};
  std::unordered_map<int32_t, char> bytes_;
};

/// WordPiece: the longest token that begins the word, then the longest that continues it (Schuster and Nakajima 2012).
class WordPieces final : public SubwordModel {
 public:
  WordPieces(const JsonFields& fields, const std::string& name) : vocabulary_(fields.at("vocab"), name) {
    prefix_ = mark(fields, "continuing_subword_prefix", "##");
    longest_ = fields.at("max_input_chars_per_word").is_null()
                   ? 100
                   : fields.integer("max_input_chars_per_word", 1, kMaxWordLength);
    unknown_ = vocabulary_.id(fields.text("unk_token", "[UNK]"));
    if (unknown_ < 0) fields.refuse("its unk_token is not in the vocabulary");
    std::vector<TokenTrie::Entry> first, later;
    const std::vector<std::string>& texts = vocabulary_.texts();
    for (size_t i = 0; i < texts.size(); ++i) {
      if (texts[i].empty()) continue;
      const auto id = static_cast<int32_t>(i);
      first.push_back({texts[i], id});
      if (texts[i].starts_with(prefix_)) later.push_back({texts[i].substr(prefix_.size()), id});
    }
    first_ = TokenTrie(std::move(first));
    later_ = TokenTrie(std::move(later));
  }

  void encode(std::string_view piece, std::vector<int32_t>& out) const override {
    int64_t characters = 0;
    for (size_t at = 0; at < piece.size(); at += first_character(piece.substr(at)).bytes)
      if (++characters > longest_) return out.push_back(unknown_);
    const size_t before = out.size();
    for (std::string_view rest = piece; !rest.empty();) {
      // Tokens are whole characters, so the longest match ends between two.
      const TokenTrie::Match found = (rest.size() == piece.size() ? first_ : later_).longest(rest);
      if (found.bytes == 0) {
        out.resize(before);
        return out.push_back(unknown_);
      }
      out.push_back(found.value);
      rest.remove_prefix(found.bytes);
    }
  }

  const Vocabulary& vocabulary() const override { return vocabulary_; }

  std::string text_of(int32_t token) const override {
    const std::string& text = vocabulary_.texts()[static_cast<size_t>(token)];
    return text.starts_with(prefix_) ? text.substr(prefix_.size()) : " " + text;
  }

 private:
  Vocabulary vocabulary_;
  std::string prefix_;
  TokenTrie first_, later_;  // tokens at the beginning of a word, and tokens after it, without the prefix
  int64_t longest_ = 100;
  int32_t unknown_ = -1;
};

}  // namespace

Vocabulary::Vocabulary(const nlohmann::json& json, const std::string& name) {
  const auto refuse = [&](const std::string& what) {
    throw UserError(fmt::format("{}: {}", name, what), UserError::Kind::failure);
  };
  if (!json.is_object() || json.empty() || static_cast<int64_t>(json.size()) > kMaxVocabularyTokens)
    refuse("its model has no vocabulary, an object of tokens and their numbers");
  // Gaps are allowed, and must not take memory for numbers without a token.
  const int64_t most = std::min(kMaxVocabularyTokens, 4 * static_cast<int64_t>(json.size()) + 65536);
  std::vector<bool> taken;
  for (const auto& [text, id] : json.items()) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= static_cast<uint64_t>(most))
      refuse(fmt::format("the number of the token {} is none from 0 to {}", in_quotes(text), most - 1));
    const auto number = id.get<size_t>();
    if (number >= texts_.size()) {
      texts_.resize(number + 1);
      taken.resize(number + 1);
    }
    if (taken[number]) refuse(fmt::format("two tokens have the number {}", number));
    taken[number] = true;
    texts_[number] = text;
  }
  ids_.reserve(json.size());
  for (size_t i = 0; i < texts_.size(); ++i)
    if (taken[i]) ids_.emplace(texts_[i], static_cast<int32_t>(i));
}

std::unique_ptr<SubwordModel> read_subword_model(const nlohmann::json& json, const std::string& name) {
  const JsonFields fields(json, name + ": model");
  // Files from before the key "type" hold BPE.
  const std::string type = fields.text("type", json.contains("merges") ? "BPE" : "");
  if (type == "BPE") return std::make_unique<BytePairs>(fields, name);
  if (type == "WordPiece") return std::make_unique<WordPieces>(fields, name);
  fields.refuse_value("type", type == "Unigram"
                                  ? "known are BPE and WordPiece; with the model's SentencePiece file take "
                                    "data.tokenizer: sentencepiece"
                                  : "known are BPE and WordPiece");
}

}  // namespace plimsoll
