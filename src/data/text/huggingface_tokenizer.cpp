#include "data/text/huggingface_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "base/hash.h"
#include "base/json.h"
#include "base/text.h"
#include "data/text/bpe_ranks.h"
#include "data/text/subword_model.h"
#include "data/text/text_steps.h"
#include "data/text/token_trie.h"
#include "data/text/tokenizer.h"
#include "data/text/tokenizer_facts.h"
#include "files/data_memory.h"
#include "files/file_kind.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr int kJsonBytesOfByte = 64;          // upper bound of the memory for a byte of the file, in bytes
                                              // (huggingface_tokenizer.h)
constexpr int kMaxDepth = 16;                 // of parts within parts, as of any JSON that is read
constexpr int64_t kMaxFileBytes = 128 * MiB;  // the largest known file, Gemma's, has 33 MiB

/// Returns true if U+2581 follows another character in a token: tokens then cross spaces.
bool crosses_words(const std::string& token) {
  for (size_t at = 0; (at = token.find(kLowLine, at)) != std::string::npos; at += kLowLine.size())
    if (at > 0 && !std::string_view(token).substr(0, at).ends_with(kLowLine)) return true;
  return false;
}

/// Returns true if a text with this token cannot be cut before each space that follows a visible character.
bool spans_a_cut(const AddedToken& token) {
  const std::string& text = token.content;
  for (size_t at = 1; at < text.size(); ++at)
    if (text[at] == ' ' && text[at - 1] != ' ') return true;
  return token.rstrip;
}

/// Throws UserError for a key of a part of the file that no row of tokenizer_json::kFacts has, unless it is null or
/// false.
void check_keys(const nlohmann::json& part, const std::string& place, std::string_view format, int depth = 0) {
  if (!part.is_object() || depth > kMaxDepth) return;  // the reader of the part says what it must be
  for (const auto& [key, value] : part.items()) {
    const bool known = std::ranges::any_of(tokenizer_json::kFacts, [&, &name = key](const FileFact& fact) {
      return fact.format == format && has_field(fact, name);
    });
    if (!known && !value.is_null() && value != false)
      throw UserError(without_controls(fmt::format("{}: {} is not known here, so the tokens may be others; if it is "
                                                   "without effect, remove it",
                                                   place, in_quotes(key))),
                      UserError::Kind::failure);
    if ((key == "normalizers" || key == "pretokenizers") && value.is_array())
      for (const nlohmann::json& each : value) check_keys(each, place, format, depth + 1);
  }
}

class HuggingFaceTokenizer final : public Tokenizer {
 public:
  /// `end`: the end of a text as the folder of the file names it.
  HuggingFaceTokenizer(const nlohmann::json& json, const std::string& name, uint64_t fingerprint,
                       const std::optional<NamedEnd>& end)
      : fingerprint_(fingerprint) {
    const JsonFields fields(json, name);
    check_keys(json, name, tokenizer_json::kFile);
    check_keys(fields.at("normalizer"), name + ": normalizer", tokenizer_json::kNormalizer);
    check_keys(fields.at("pre_tokenizer"), name + ": pre_tokenizer", tokenizer_json::kPreTokenizer);
    check_keys(fields.at("model"), name + ": model", tokenizer_json::kModel);
    normalizer_ = read_normalizer(fields.at("normalizer"), name, traits_);
    pre_tokenizer_ = read_pre_tokenizer(fields.at("pre_tokenizer"), name, traits_);
    model_ = read_subword_model(fields.at("model"), name);
    const std::vector<std::string>& texts = model_->vocabulary().texts();
    vocab_size_ = static_cast<int64_t>(texts.size());
    const std::vector<AddedToken> added = read_added_tokens(fields.at("added_tokens"), name);
    std::vector<AddedTokenFinder::Sought> before, after;
    for (const AddedToken& token : added) {
      if (token.normalized)
        after.push_back({token, normalized(token, name)});
      else
        before.push_back({token, token.content});
      added_[token.id] = token.content;
      vocab_size_ = std::max<int64_t>(vocab_size_, token.id + 1);
      if (spans_a_cut(token)) traits_.can_be_cut = false;
    }
    before_ = AddedTokenFinder(std::move(before));
    after_ = AddedTokenFinder(std::move(after));
    words_apart_ =
        traits_.replaces_spaces && model_->vocabulary().id(kLowLine) >= 0 && std::ranges::none_of(texts, crosses_words);
    if (!traits_.splits_words && !words_apart_) traits_.can_be_cut = false;
    find_end_of_text(end, name);
  }

  std::vector<int32_t> encode(std::string_view text) const override {
    const std::lock_guard lock(mutex_);
    const std::string valid = valid_utf8(text);
    std::vector<int32_t> tokens;
    const auto add = [&](int32_t id) { tokens.push_back(id); };
    NormalizedRoom room(valid.size());
    before_.split(
        valid,
        [&](std::string_view part) {
          const std::string normal = normalizer_(std::string(part), room);
          bool first = part.data() == valid.data();
          after_.split(
              normal,
              [&](std::string_view between) { encode_part(between, first && between.data() == normal.data(), tokens); },
              add);
        },
        add);
    return tokens;
  }

  std::string decode(std::span<const int32_t> tokens) const override {
    std::string text;
    for (const int32_t token : tokens) {
      if (token == end_of_text_) continue;
      const auto& texts = model_->vocabulary().texts();
      if (token < 0 || token >= vocab_size_)
        throw UserError(fmt::format("token {} is not in the vocabulary of tokenizer '{}' (0 to {})", token, name(),
                                    vocab_size_ - 1));
      if (const auto added = added_.find(token); added != added_.end())
        text += added->second;
      else if (token < static_cast<int64_t>(texts.size()))
        append_plain(model_->text_of(token), text);
    }
    return text;
  }

  int64_t vocab_size() const override { return vocab_size_; }
  int32_t end_of_text() const override { return end_of_text_; }
  std::string name() const override { return "huggingface"; }
  uint64_t fingerprint() const override { return fingerprint_; }

  std::size_t last_cut(std::string_view text) const override {
    // Before a space that follows a visible ASCII character: no step and no token crosses it.
    if (!traits_.can_be_cut) return 0;
    for (size_t at = text.size(); at-- > 1;)
      if (text[at] == ' ' && text[at - 1] > ' ' && text[at - 1] < 0x7f) return at;
    return 0;
  }

 private:
  /// Returns the token of this content, or -1.
  int32_t find(std::string_view content) const {
    for (const auto& [id, each] : added_)
      if (each == content) return id;
    return model_->vocabulary().id(content);
  }

  void find_end_of_text(const std::optional<NamedEnd>& end, const std::string& name) {
    int32_t by_name = -1;
    for (const std::string_view each : {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "[SEP]"})
      if (by_name < 0) by_name = find(each);
    end_of_text_ = by_name;
    if (end) {
      if (end->content)
        end_of_text_ = find(*end->content);
      else
        end_of_text_ = end->id < vocab_size_ ? static_cast<int32_t>(end->id) : -1;
      if (end_of_text_ < 0)
        throw UserError(
            without_controls(fmt::format("{}, and {} has no such token; name one of its tokens", end->place, name)),
            UserError::Kind::failure);
      // The end is part of the cached tokens of a text.
      if (end_of_text_ != by_name) fingerprint_ = hash_bytes(fmt::format("end {}", end_of_text_), fingerprint_);
    }
    if (end_of_text_ >= 0) return;
    end_of_text_ = static_cast<int32_t>(vocab_size_++);
    note_data(name, fmt::format("names no end of text: documents end with a new token, {}; to name one of its tokens, "
                                "add a tokenizer_config.json with eos_token",
                                end_of_text_));
  }

  std::string normalized(const AddedToken& token, const std::string& name) const {
    NormalizedRoom room(token.content.size());
    std::string made = normalizer_(valid_utf8(token.content), room);
    if (made.size() > kMaxAddedLength)
      throw UserError(fmt::format("{}: added_tokens: the normalized token {} has {} bytes; at most {}", name, token.id,
                                  made.size(), kMaxAddedLength),
                      UserError::Kind::failure);
    return made;
  }

  void encode_part(std::string_view part, bool first, std::vector<int32_t>& tokens) const {
    pre_tokenizer_(part, first, [&](std::string_view rest, bool) {
      // If no token crosses a space, words can be encoded one by one, and their tokens cached.
      while (words_apart_ && !rest.empty()) {
        size_t end = rest.find_first_not_of(kLowLine) == std::string_view::npos ? rest.size() : 1;
        while (end < rest.size() &&
               !(rest.substr(end).starts_with(kLowLine) && !rest.substr(0, end).ends_with(kLowLine)))
          ++end;
        encode_piece(rest.substr(0, end), tokens);
        rest.remove_prefix(end);
      }
      if (!rest.empty()) encode_piece(rest, tokens);
    });
  }

  void encode_piece(std::string_view piece, std::vector<int32_t>& tokens) const {
    if (piece.size() > kMaxCachedPieceLength) return model_->encode(piece, tokens);
    auto found = cache_.find(piece);
    if (found == cache_.end()) {
      if (cache_.size() >= kCachedPieces) cache_.clear();
      std::vector<int32_t> made;
      model_->encode(piece, made);
      found = cache_.emplace(std::string(piece), std::move(made)).first;
    }
    tokens.insert(tokens.end(), found->second.begin(), found->second.end());
  }

  /// Appends the token's text with bytes and spaces instead of the letters for them.
  void append_plain(const std::string& token, std::string& text) const {
    if (traits_.byte_letters) {
      std::string bytes;
      text += append_bytes_of_letters(token, bytes) ? bytes : token;
      return;
    }
    for (size_t at = 0; at < token.size();) {
      const bool space = traits_.replaces_spaces && std::string_view(token).substr(at).starts_with(kLowLine);
      text.push_back(space ? ' ' : token[at]);
      at += space ? kLowLine.size() : 1;
    }
  }

  StepTraits traits_;
  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  std::unique_ptr<SubwordModel> model_;
  AddedTokenFinder before_, after_;  // for texts before and after the normalizer
  std::unordered_map<int32_t, std::string> added_;
  bool words_apart_ = false;
  int64_t vocab_size_ = 0;
  int32_t end_of_text_ = -1;
  uint64_t fingerprint_;
  mutable std::mutex mutex_;  // guards the members below and the patterns' match data: encode() calls of several
                              // threads run one after the other
  mutable PieceCache cache_;
};

}  // namespace

std::unique_ptr<Tokenizer> open_huggingface_tokenizer(const std::filesystem::path& path) {
  if (path.empty()) throw UserError("data.tokenizer_file: tokenizer 'huggingface' needs a tokenizer.json");
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return open_huggingface_tokenizer(path / "tokenizer.json");
  if (const auto bytes = std::filesystem::file_size(path, error); !error)
    require_data_memory(path.string(), fmt::format("has {} bytes, which take at most {} each", bytes, kJsonBytesOfByte),
                        kJsonBytesOfByte * static_cast<double>(bytes));
  uint64_t hash = 0;
  const nlohmann::json json = read_json_file(
      path, kMaxFileBytes, [&](std::string_view text) { hash = hash_bytes(text, hash_bytes("huggingface")); });
  // Files next to a file of another name may belong to another tokenizer.
  std::optional<NamedEnd> end;
  if (path.filename() == "tokenizer.json") {
    check_tokenizer_config(path.parent_path(), json);
    end = named_end_in(path.parent_path());
  }
  return std::make_unique<HuggingFaceTokenizer>(json, without_controls(path.string()), hash, end);
}

}  // namespace plimsoll
