#include "data/text/tokenizer.h"

#include <fmt/format.h>

#include "base/hash.h"
#include "base/text.h"
#include "data/text/gpt2_tokenizer.h"
#include "data/text/huggingface_tokenizer.h"
#include "data/text/sentencepiece_tokenizer.h"
#include "data/text/tokenizer_facts.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

class ByteTokenizer : public Tokenizer {
 public:
  std::vector<int32_t> encode(std::string_view text) const override {
    std::vector<int32_t> tokens;
    tokens.reserve(text.size());
    for (char c : text) tokens.push_back(static_cast<unsigned char>(c));
    return tokens;
  }

  std::string decode(std::span<const int32_t> tokens) const override {
    std::string text;
    text.reserve(tokens.size());
    for (int32_t token : tokens) {
      if (token == end_of_text()) continue;
      if (token < 0 || token > 255)
        throw UserError(fmt::format("token {} is not in the vocabulary of tokenizer 'bytes' (0 to 256)", token));
      text.push_back(static_cast<char>(token));
    }
    return text;
  }

  int64_t vocab_size() const override { return 257; }
  std::string name() const override { return "bytes"; }
  uint64_t fingerprint() const override { return hash_bytes(name()); }
  std::size_t last_cut(std::string_view text) const override { return text.size(); }
};

/// Returns the kind of tokenizer that files of this name hold; "" if the name does not tell.
std::string_view kind_of_file(const std::filesystem::path& file) {
  const std::filesystem::path ending = file.extension();
  if (ending == ".json") return "huggingface";
  if (ending == ".model") return "sentencepiece";
  if (ending == ".gguf") return "gguf";
  if (ending == ".tiktoken") return "gpt2";
  return "";
}

std::unique_ptr<Tokenizer> open_tokenizer(const std::string& name, const std::filesystem::path& file) {
  if (name == "bytes") return std::make_unique<ByteTokenizer>();
  if (name == "gpt2") return std::make_unique<Gpt2Tokenizer>(file);
  if (name == "sentencepiece") return std::make_unique<SentencePieceTokenizer>(file);
  if (name == "gguf") return open_gguf_tokenizer(file);
  if (name == "huggingface") return open_huggingface_tokenizer(file);
  throw UserError(fmt::format(
      "data.tokenizer: '{}' is unknown; allowed are bytes, gpt2, sentencepiece, gguf and huggingface", name));
}

}  // namespace

std::string tokenizer_text(const Tokenizer& tokenizer) {
  return fmt::format("{} ({:016x})", tokenizer.name(), tokenizer.fingerprint());
}

std::unique_ptr<Tokenizer> make_tokenizer(const std::string& name, const std::filesystem::path& file) {
  try {
    return open_tokenizer(name, file);
  } catch (const UserError& error) {
    // Tokens, patterns and names of the file may hold any bytes.
    const std::string message = without_controls(error.what());
    const std::string_view kind = kind_of_file(file);
    throw UserError(fmt::format("{}{}{}", message.starts_with("data.tokenizer") ? "" : "data.tokenizer_file: ", message,
                                kind.empty() || kind == name
                                    ? ""
                                    : fmt::format("; data.tokenizer is '{}', did you mean '{}'?", name, kind)),
                    error.kind());
  }
}

}  // namespace plimsoll
