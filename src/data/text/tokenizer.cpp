#include "data/text/tokenizer.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <charconv>

#include "base/hash.h"
#include "base/json.h"
#include "base/text.h"
#include "data/text/gpt2_tokenizer.h"
#include "data/text/huggingface_tokenizer.h"
#include "data/text/sentencepiece_tokenizer.h"
#include "data/text/tokenizer_facts.h"
#include "plimsoll/bytes.h"
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

namespace {

using Json = nlohmann::json;

constexpr int64_t kMaxFolderJsonBytes = 32 * MiB;  // tokenizer_config.json of Gemma has 4 MiB: its added tokens
constexpr const char *kTokenizerConfig = "tokenizer_config.json", *kEosToken = "eos_token", *kEosId = "eos_token_id";

/// Returns the object in a file of the folder; an empty one if there is no such file.
Json read_if_there(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return Json::object();
  return read_python_json_file(file, kMaxFolderJsonBytes);
}

/// Returns the content of a token: a text, or an object with one.
std::optional<std::string> content_of(const Json& token) {
  if (token.is_string()) return token.get<std::string>();
  if (token.is_object() && token.contains("content") && token["content"].is_string())
    return token["content"].get<std::string>();
  return std::nullopt;
}

/// Returns whether the tokenizer.json has a token with this id and this content.
bool has_token(const Json& tokenizer, int64_t id, const std::string& content) {
  const Json none = Json::array();
  for (const Json& each :
       tokenizer.contains("added_tokens") && tokenizer["added_tokens"].is_array() ? tokenizer["added_tokens"] : none)
    if (each.is_object() && each.contains("id") && each["id"] == id && content_of(each) == content) return true;
  const auto model = tokenizer.find("model");
  if (model == tokenizer.end() || !model->is_object() || !model->contains("vocab")) return false;
  const Json& words = (*model)["vocab"];
  return words.is_object() && words.contains(content) && words[content] == id;
}

/// Calls visit(part) for each step of a normalizer or a pre-tokenizer, in sequences too.
template <typename Visit>
void for_each_step(const Json& step, const Visit& visit, int depth = 0) {
  if (!step.is_object() || depth > 8) return;
  visit(step);
  for (const char* key : {"normalizers", "pretokenizers"})
    if (step.contains(key) && step[key].is_array())
      for (const Json& each : step[key]) for_each_step(each, visit, depth + 1);
}

/// Throws UserError if the config's `key` is a boolean, and steps of the type `type` have another one as `name`.
void require_same(const JsonFields& config, const Json& steps, const char* key, const char* type, const char* name) {
  if (!config.at(key).is_boolean()) return;
  for_each_step(steps, [&](const Json& step) {
    if (step.value("type", Json()) == type && step.contains(name) && step[name].is_boolean() &&
        step[name] != config.at(key))
      config.refuse_value(key, fmt::format("tokenizer.json has {} {}: {}; make them agree", type, name,
                                           step[name].get<bool>() ? "true" : "false"));
  });
}

}  // namespace

std::optional<NamedEnd> named_end_in(const std::filesystem::path& folder) {
  for (const char* name : {kTokenizerConfig, "special_tokens_map.json"}) {
    const std::filesystem::path file = folder / name;
    const Json json = read_if_there(file);
    const JsonFields fields(json, file.string());
    if (fields.at(kEosToken).is_null()) continue;
    const auto content = content_of(fields.at(kEosToken));
    if (!content) fields.refuse_value(kEosToken, "it must be a token");
    return NamedEnd{fmt::format("{}: {} is {}", file.string(), kEosToken, in_quotes(*content)), content};
  }
  for (const char* name : {"generation_config.json", "config.json"}) {
    const std::filesystem::path file = folder / name;
    const Json json = read_if_there(file);
    const JsonFields fields(json, file.string());
    const Json* id = &fields.at(kEosId);
    if (id->is_array() && !id->empty()) id = &id->front();
    if (id->is_null() || *id == -1) continue;
    if (!id->is_number_unsigned() || id->get<uint64_t>() > uint64_t{1} << 31)
      fields.refuse_value(kEosId, "it must be the number of a token");
    return NamedEnd{fmt::format("{}: {} is {}", file.string(), kEosId, id->dump()), std::nullopt, id->get<int64_t>()};
  }
  return std::nullopt;
}

void check_tokenizer_config(const std::filesystem::path& folder, const Json& tokenizer) {
  const std::filesystem::path file = folder / kTokenizerConfig;
  const Json json = read_if_there(file);
  const JsonFields fields(json, file.string());
  if (fields.boolean("split_special_tokens", false))
    fields.refuse_value("split_special_tokens", "special tokens in a text are found here");
  const Json &normalizer = tokenizer.value("normalizer", Json()), &before = tokenizer.value("pre_tokenizer", Json());
  require_same(fields, before, "add_prefix_space", "ByteLevel", "add_prefix_space");
  require_same(fields, normalizer, "do_lower_case", "BertNormalizer", "lowercase");
  require_same(fields, normalizer, "strip_accents", "BertNormalizer", "strip_accents");
  require_same(fields, normalizer, "tokenize_chinese_chars", "BertNormalizer", "handle_chinese_chars");
  if (!fields.at("added_tokens_decoder").is_object()) return;
  for (const auto& [key, token] : fields.at("added_tokens_decoder").items()) {
    int64_t id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    const auto content = content_of(token);
    if (error != std::errc() || end != key.data() + key.size() || !content)
      fields.refuse(fmt::format("added_tokens_decoder: {} is no token", in_quotes(key)));
    if (!has_token(tokenizer, id, *content))
      fields.refuse(
          fmt::format("added_tokens_decoder has the token {} {}, which tokenizer.json does not have; save the "
                      "tokenizer again",
                      id, in_quotes(*content)));
  }
}

}  // namespace plimsoll
