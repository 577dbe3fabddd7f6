#include "data/gguf_tokenizer.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <vector>

#include "base/quoted.h"
#include "data/bpe_ranks.h"
#include "data/gguf.h"
#include "data/gpt2_tokenizer.h"
#include "data/safetensors_header.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr size_t kMostTokens = size_t{1} << 24;

/// GPT-2 writes tokens in letters that can be seen: a byte that is a printable Latin-1 character is that one, the
/// others are U+0100 on, in their order. The byte of each of those letters, or -1.
constexpr auto kByteOf = [] {
  std::array<int16_t, 0x144> bytes{};
  bytes.fill(-1);
  int other = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool seen = (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
    bytes[static_cast<size_t>(seen ? byte : other++)] = static_cast<int16_t>(byte);
  }
  return bytes;
}();

/// Appends the bytes that such letters stand for; false where there is another letter among them.
bool append_bytes(std::string_view letters, std::string& bytes) {
  for (size_t i = 0; i < letters.size();) {
    const auto first = static_cast<unsigned char>(letters[i++]);
    size_t code = first;
    if (first >= 0x80) {  // these letters take two bytes
      if (first < 0xc0 || first >= 0xe0 || i == letters.size()) return false;
      code = (first & 0x1fu) << 6 | (static_cast<unsigned char>(letters[i++]) & 0x3fu);
    }
    if (code >= kByteOf.size() || kByteOf[code] < 0) return false;
    bytes.push_back(static_cast<char>(kByteOf[code]));
  }
  return true;
}

}  // namespace

std::unique_ptr<Tokenizer> open_gguf_tokenizer(const std::filesystem::path& path) {
  if (path.empty()) throw UserError("data.tokenizer_file: tokenizer 'gguf' needs a GGUF file");
  const GgufFile file = GgufFile::open(path);
  const auto kind = file.text("tokenizer.ggml.model").value_or(""), pre = file.text("tokenizer.ggml.pre").value_or("");
  if (kind != "gpt2" || (pre != "gpt-2" && pre != "smollm"))
    throw UserError(fmt::format("{}: its tokenizer is {} {}; known are gpt2 with gpt-2 or smollm", path.string(),
                                in_quotes(kind), in_quotes(pre)));
  const auto letters = file.texts("tokenizer.ggml.tokens"), merges = file.texts("tokenizer.ggml.merges");
  if (!letters || !merges || letters->empty() || letters->size() > kMostTokens || merges->size() > letters->size())
    throw corrupt_file(file.path(), "its tokenizer lacks tokens or merges, or has too many");
  // The merges make the last tokens, in this order; so a token's number says when it is merged, and a token that no
  // merge makes is a single byte or never found.
  const size_t first = letters->size() - merges->size();
  std::vector<std::string> tokens(letters->size());
  for (size_t i = 0; i < letters->size(); ++i) {
    std::string bytes;
    const bool read = append_bytes((*letters)[i], bytes);
    if (i < first) {
      if (read && bytes.size() == 1) tokens[i] = std::move(bytes);
      continue;
    }
    const std::string_view merge = (*merges)[i - first];
    const size_t space = merge.find(' ');
    if (!read || space == std::string_view::npos ||
        std::string(merge.substr(0, space)).append(merge.substr(space + 1)) != (*letters)[i])
      throw corrupt_file(file.path(), fmt::format("its token {} is not what merge {} makes", i, i - first));
    tokens[i] = std::move(bytes);
  }
  const auto special = [&](const char* key) -> int32_t {
    const int64_t token = file.integer(key).value_or(0);
    if (token < 0 || token >= static_cast<int64_t>(letters->size()))
      throw corrupt_file(file.path(), fmt::format("{} is {}, and it has {} tokens", key, token, letters->size()));
    return static_cast<int32_t>(token);
  };
  BpeVariant variant{"gguf", pre == "smollm", special("tokenizer.ggml.unknown_token_id"),
                     special("tokenizer.ggml.unknown_token_id")};
  // Documents of a pretraining text are parted by <|endoftext|>, whatever ends a turn of a chat.
  for (size_t i = 0; i < first; ++i)
    if ((*letters)[i] == "<|endoftext|>") variant.end_of_text = static_cast<int32_t>(i);
  return std::make_unique<Gpt2Tokenizer>(BpeRanks::of_tokens(std::move(tokens), file.path()), std::move(variant));
}

}  // namespace plimsoll
