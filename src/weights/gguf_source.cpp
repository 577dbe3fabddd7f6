#include "weights/gguf_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/text.h"
#include "files/gguf.h"
#include "models/config_checks.h"
#include "plimsoll/error.h"
#include "safetensors/safetensors_header.h"
#include "weights/config_reader.h"
#include "weights/families.h"

namespace plimsoll::weights {
namespace {

class GgufSource : public Source {
 public:
  explicit GgufSource(const std::filesystem::path& path) : file_(GgufFile::open(path)) {
    for (const auto& [name, tensor] : file_.tensors())
      tensors_.emplace(name, Tensor{tensor.sizes, dtype_of(tensor.type)});
  }

  std::span<const std::byte> rows(const std::string& name, int64_t begin, int64_t end,
                                  std::vector<std::byte>& buffer) const override {
    const GgufTensor& tensor = file_.tensors().at(name);
    const bool whole = begin == 0 && end == tensor.sizes[0];
    const bool quantized = is_quantized(tensor.type);
    // A matrix's rows are whole blocks. The values of a vector are not, so a vector is read in one piece.
    if (quantized && tensor.sizes.size() == 1 && !whole)
      throw UserError(fmt::format("{}: {} is a vector in blocks of several numbers, which is not read here in parts",
                                  file_.path(), in_quotes(name)),
                      UserError::Kind::failure);
    const size_t row = tensor.bytes.size() / static_cast<size_t>(tensor.sizes[0]);
    const auto part =
        whole ? tensor.bytes
              : tensor.bytes.subspan(static_cast<size_t>(begin) * row, static_cast<size_t>(end - begin) * row);
    if (!quantized) return part;
    const GgmlBlock block = block_of(tensor.type);
    const size_t numbers = part.size() / static_cast<size_t>(block.bytes) * static_cast<size_t>(block.elements);
    int64_t wanted = end - begin;
    for (size_t i = 1; i < tensor.sizes.size(); ++i) wanted *= tensor.sizes[i];
    check(static_cast<int64_t>(numbers) == wanted, "blocks of another number of elements than the tensor's");
    buffer.resize(numbers * sizeof(float));
    dequantize_blocks(tensor.type, part, {reinterpret_cast<float*>(buffer.data()), numbers});
    return buffer;
  }

  void release_pages(const std::string& name) const override {
    MappedFile::release_pages(file_.tensors().at(name).bytes);
  }
  void require_whole(const std::string&) const override { file_.require_whole(); }

 private:
  static DType dtype_of(GgmlType type) {
    return type == GgmlType::f16 ? DType::float16 : type == GgmlType::bf16 ? DType::bfloat16 : DType::float32;
  }

  GgufFile file_;
};

int64_t size_of(const GgufFile& file, const std::string& key, int64_t max, std::optional<int64_t> fallback = {}) {
  const std::optional<int64_t> found = file.integer(key);
  if (!found && fallback) return *fallback;
  if (!found) throw corrupt_file(file.path(), fmt::format("its metadata lack {}", key));
  if (*found < 1 || *found > max)
    throw corrupt_file(file.path(), fmt::format("{} is {}; it must be from 1 to {}", key, *found, max));
  return *found;
}

[[noreturn]] void refuse(const GgufFile& file, const std::string& what) {
  throw UserError(fmt::format("{}: {}", file.path(), what), UserError::Kind::failure);
}

/// Values of a refused key that are accepted, separated by |.
struct AllowedMetadata {
  std::string_view key, values;
};
constexpr AllowedMetadata kAllowedMetadata[] = {{"general.type", "model"},
                                                {"split.count", "1|0"},
                                                {"llama.rope.scaling.type", "none"},
                                                {"llama.rope.scaling.factor", "1|0"},
                                                {"llama.rope.scaling.attn_factor", "1|0"},
                                                {"llama.rope.scale_linear", "1|0"},
                                                {"llama.attention.causal", "true"},
                                                {"llama.attention.sliding_window", "0"},
                                                {"llama.use_parallel_residual", "false"},
                                                {"llama.expert_count", "0"},
                                                {"llama.expert_used_count", "0"},
                                                {"llama.tensor_data_layout", "Meta AI original pth"}};

bool is_of_row(std::string_view key, const FileFact& fact) {
  const std::string_view field = fact.field;
  return field.ends_with('*') ? key.starts_with(field.substr(0, field.size() - 1)) : has_field(fact, key);
}

bool is_allowed(std::string_view value, std::string_view allowed) {
  while (true) {
    const size_t bar = allowed.find('|');
    if (value == allowed.substr(0, bar)) return true;
    if (bar == std::string_view::npos) return false;
    allowed.remove_prefix(bar + 1);
  }
}

/// Returns the keys of other programs that no row has. Throws UserError for those that are refused.
std::vector<std::string> check_metadata(const GgufFile& file) {
  std::vector<std::string> unknown;
  for (const std::string& key : file.keys()) {
    const auto* fact = std::ranges::find_if(gguf::kFacts, [&](const FileFact& each) { return is_of_row(key, each); });
    const std::string where = fmt::format("{} is {}", one_line(key), one_line(file.shown(key)));
    if (fact == std::end(gguf::kFacts)) {
      if (key.starts_with("llama."))
        refuse(file, where + "; this setting is not known here; take the safetensors files");
      unknown.push_back(key);
    } else if (fact->treatment == gguf::kRefused) {
      const auto* allowed = std::ranges::find(kAllowedMetadata, std::string_view(key), &AllowedMetadata::key);
      if (allowed == std::end(kAllowedMetadata) || !is_allowed(file.shown(key), allowed->values))
        refuse(file, fmt::format("{}; {}", where, reason_to_refuse(*fact)));
    }
  }
  return unknown;
}

}  // namespace

std::unique_ptr<Source> open_gguf_source(const std::filesystem::path& path) {
  return std::make_unique<GgufSource>(path);
}

Architecture read_gguf_architecture(const std::filesystem::path& path) {
  const GgufFile file = GgufFile::open(path);
  const std::string kind = file.text("general.architecture").value_or("");
  if (kind != "llama") refuse(file, fmt::format("its general.architecture is {}; known is llama", in_quotes(kind)));
  const auto embedding = file.tensors().find("token_embd.weight");
  if (embedding == file.tensors().end() || embedding->second.sizes.size() != 2)
    throw corrupt_file(file.path(), "it has no matrix token_embd.weight");
  const std::vector<std::string> unknown = check_metadata(file);
  if (file.tensors().contains("rope_freqs.weight"))
    refuse(file,
           "rope_freqs.weight scales its rotary frequencies, which is not read from GGUF files; take the safetensors "
           "files");
  DecoderConfig config;
  config.vocab_size = embedding->second.sizes[0];
  config.hidden_size = size_of(file, "llama.embedding_length", model::kMaxWidth);
  config.num_layers = size_of(file, "llama.block_count", model::kMaxLayers);
  config.num_heads = size_of(file, "llama.attention.head_count", model::kMaxHeads);
  config.num_kv_heads = size_of(file, "llama.attention.head_count_kv", model::kMaxHeads, config.num_heads);
  config.intermediate_size = size_of(file, "llama.feed_forward_length", model::kMaxFeedForward);
  if (config.vocab_size > model::kMaxVocabulary || config.num_heads % config.num_kv_heads != 0)
    throw corrupt_file(file.path(), "its heads do not divide, or its vocabulary is out of bounds");
  if (!file.integer("llama.attention.key_length") && config.hidden_size % config.num_heads != 0)
    throw corrupt_file(file.path(), "its heads do not divide its width");
  config.head_dim =
      size_of(file, "llama.attention.key_length", model::kMaxWidth, config.hidden_size / config.num_heads);
  if (size_of(file, "llama.attention.value_length", model::kMaxWidth, config.head_dim) != config.head_dim)
    refuse(file, fmt::format("llama.attention.value_length is {}, and keys have {}; they must be equal here",
                             file.shown("llama.attention.value_length"), config.head_dim));
  if (size_of(file, "llama.vocab_size", model::kMaxVocabulary, config.vocab_size) != config.vocab_size)
    refuse(file, fmt::format("llama.vocab_size is {}, and token_embd.weight has {} rows",
                             file.shown("llama.vocab_size"), config.vocab_size));
  if (config.head_dim % 2 != 0 ||
      size_of(file, "llama.rope.dimension_count", model::kMaxWidth, config.head_dim) != config.head_dim)
    refuse(file, "its positions turn a part of each head only; all of it is turned here");
  config.norm_eps = file.number("llama.attention.layer_norm_rms_epsilon").value_or(1e-5);
  config.rope_theta = file.number("llama.rope.freq_base").value_or(10000.0);
  if (!(config.norm_eps > 0 && config.norm_eps < 1) || !(config.rope_theta >= 1))
    throw corrupt_file(file.path(), "its layer_norm_rms_epsilon or freq_base is out of bounds");
  config.tie_embeddings = !file.tensors().contains("output.weight");
  const auto has = [&](const char* tensor) { return file.tensors().contains(std::string("blk.0.") + tensor); };
  config.attention_bias = has("attn_output.bias");
  config.qkv_bias = has("attn_q.bias");
  config.mlp_bias = has("ffn_down.bias");
  Architecture found{"gguf", canonical(config), {}};
  if (!unknown.empty()) found.notes.push_back(unused_keys_note(path.string(), unknown));
  return found;
}

}  // namespace plimsoll::weights
