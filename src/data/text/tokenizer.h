// Declares a tokenizer, and how it is opened from a file or a folder.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace plimsoll {

/// Maximum number of tokens of a vocabulary that is read from a file.
constexpr int64_t kMaxVocabularyTokens = int64_t{1} << 24;

/// A tokenizer with tokens [0, vocab_size()). All calls may come from any thread.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Returns the tokens of `text`, any bytes; decode() returns the same bytes. The end of text is never among them,
  /// except if a "huggingface" tokenizer finds it written in the text.
  virtual std::vector<int32_t> encode(std::string_view text) const = 0;

  /// Returns the bytes of `tokens`; end of text has none. Throws UserError for a token outside the vocabulary.
  virtual std::string decode(std::span<const int32_t> tokens) const = 0;

  virtual int64_t vocab_size() const = 0;

  /// Returns the token between documents: the last one, unless the vocabulary has one of its own.
  virtual int32_t end_of_text() const { return static_cast<int32_t>(vocab_size() - 1); }

  /// Returns the name in the job file: "bytes", "gpt2", "sentencepiece", "gguf", "huggingface".
  virtual std::string name() const = 0;

  /// Returns a value that differs between tokenizers with different tokens, even if both have one name: the key of
  /// cached tokens.
  virtual uint64_t fingerprint() const = 0;

  /// Returns the largest p at which `text` may be cut, so that a long text is encoded block by block: encode(text[0,
  /// p)) and encode(text[p, end) + more) together are encode(text + more), for any `more`. 0: only the start.
  virtual std::size_t last_cut(std::string_view text) const = 0;
};

/// Returns the tokenizer's name and fingerprint, "gpt2 (0123456789abcdef)": a checkpoint stores it.
std::string tokenizer_text(const Tokenizer& tokenizer);

/// Makes the tokenizer that `data.tokenizer` names: "bytes" (256 bytes and end of text), "gpt2" (gpt2_tokenizer.h;
/// `file` is its rank file), "sentencepiece" (sentencepiece_tokenizer.h; `file` is its model), "gguf"
/// (gpt2_tokenizer.h; `file` is a model's) or "huggingface" (huggingface_tokenizer.h; `file` is its tokenizer.json, or
/// the folder of one). Throws UserError for another name and for a file that is missing or malformed.
std::unique_ptr<Tokenizer> make_tokenizer(const std::string& name, const std::filesystem::path& file);

constexpr size_t kMaxCachedPieceLength = 64;  ///< bytes: words; longer pieces rarely come twice
constexpr size_t kCachedPieces = 1 << 16;     ///< about 10 MiB when full

/// A hash of a std::string and a std::string_view alike, so that a look-up copies no text.
struct PieceHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

/// The cache of a tokenizer: a map from each piece of text to its tokens. The tokenizer empties it at kCachedPieces.
using PieceCache = std::unordered_map<std::string, std::vector<int32_t>, PieceHash, std::equal_to<>>;

/// The end of a text as a file names it: by its content or by its id.
struct NamedEnd {
  std::string place;                   ///< file and key, for messages
  std::optional<std::string> content;  ///< "<eos>"
  int64_t id = -1;                     ///< without a content
};

/// Returns the end of a text: `eos_token` of tokenizer_config.json or of special_tokens_map.json, or else the (first)
/// `eos_token_id` of generation_config.json or config.json; nullopt if no file in the folder names one. Throws
/// UserError for a file that cannot be read, and for a key that is neither.
std::optional<NamedEnd> named_end_in(const std::filesystem::path& folder);

/// Throws UserError (failure) if tokenizer_config.json in the folder says something else than the tokenizer.json
/// `tokenizer`: added tokens that it lacks, another prefix space or case, special tokens that are not to be found.
void check_tokenizer_config(const std::filesystem::path& folder, const nlohmann::json& tokenizer);

}  // namespace plimsoll
