#include "weights/tensor_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>

#include "base/text.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"
#include "weights/families.h"
#include "weights/gguf_source.h"
#include "weights/mamba_family.h"
#include "weights/source.h"

namespace plimsoll::weights {
namespace {

/// The names of a decoder's tensors in one program's files. Names of layers' tensors follow `layer`.
struct DecoderNames {
  const char *embedding, *head, *norm, *layer;
  const char *attention_norm, *mlp_norm, *attention_post_norm, *mlp_post_norm;
  const char *q, *k, *v, *out, *q_norm, *k_norm, *gate, *up, *down;
};

constexpr DecoderNames kLlama{"model.embed_tokens.weight",
                              "lm_head.weight",
                              "model.norm.weight",
                              "model.layers",
                              "input_layernorm",
                              "post_attention_layernorm",
                              nullptr,
                              nullptr,
                              "self_attn.q_proj",
                              "self_attn.k_proj",
                              "self_attn.v_proj",
                              "self_attn.o_proj",
                              "self_attn.q_norm",
                              "self_attn.k_norm",
                              "mlp.gate_proj",
                              "mlp.up_proj",
                              "mlp.down_proj"};

constexpr DecoderNames kGguf{"token_embd.weight",
                             "output.weight",
                             "output_norm.weight",
                             "blk",
                             "attn_norm",
                             "ffn_norm",
                             nullptr,
                             nullptr,
                             "attn_q",
                             "attn_k",
                             "attn_v",
                             "attn_output",
                             "attn_q_norm",
                             "attn_k_norm",
                             "ffn_gate",
                             "ffn_up",
                             "ffn_down"};

DecoderNames names_of(const std::string& family) {
  if (family == "gguf") return kGguf;
  DecoderNames names = kLlama;
  if (family == "gemma2") {
    names.attention_post_norm = "post_attention_layernorm";
    names.mlp_norm = "pre_feedforward_layernorm";
    names.mlp_post_norm = "post_feedforward_layernorm";
  }
  return names;
}

std::vector<Parameter> llama_like(const std::string& family, const DecoderConfig& c) {
  const DecoderNames names = names_of(family);
  const bool less_one = family == "gemma2";
  const int64_t queries = c.num_heads * c.head_dim, keys = c.num_kv_heads * c.head_dim;
  std::vector<Parameter> all = {{"embedding", {{names.embedding, {c.vocab_size, c.hidden_size}}}}};
  for (int64_t i = 0; i < c.num_layers; ++i) {
    const auto ours = [&](const char* name) { return fmt::format("layers.{}.{}", i, name); };
    const auto stored = [&](const char* name, const char* ending) {
      return fmt::format("{}.{}.{}.{}", names.layer, i, name, ending);
    };
    const auto norm = [&](const char* name, const char* of_file, int64_t size) {
      all.push_back({ours(name), {{stored(of_file, "weight"), {size}}}, less_one});
    };
    // In GGUF files of this architecture the rows of queries' and keys' heads are in pairs.
    const int64_t q_pairs = family == "gguf" ? c.num_heads : 0, k_pairs = family == "gguf" ? c.num_kv_heads : 0;
    const auto linear = [&](const char* name, int64_t in, bool bias, const auto&... parts) {
      all.push_back(
          {ours(name) + ".weight", {Piece{stored(parts.name, "weight"), {parts.rows, in}, false, parts.pairs}...}});
      if (bias)
        all.push_back({ours(name) + ".bias", {Piece{stored(parts.name, "bias"), {parts.rows}, false, parts.pairs}...}});
    };
    struct Part {
      const char* name;
      int64_t rows, pairs = 0;
    };
    norm("attention_norm.weight", names.attention_norm, c.hidden_size);
    linear("attention.qkv", c.hidden_size, c.attention_bias || c.qkv_bias, Part{names.q, queries, q_pairs},
           Part{names.k, keys, k_pairs}, Part{names.v, keys});
    linear("attention.out", queries, c.attention_bias, Part{names.out, c.hidden_size});
    if (c.qk_norm) {
      norm("attention.q_norm.weight", names.q_norm, c.head_dim);
      norm("attention.k_norm.weight", names.k_norm, c.head_dim);
    }
    norm("mlp_norm.weight", names.mlp_norm, c.hidden_size);
    linear("mlp.up", c.hidden_size, c.mlp_bias, Part{names.gate, c.intermediate_size},
           Part{names.up, c.intermediate_size});
    linear("mlp.down", c.intermediate_size, c.mlp_bias, Part{names.down, c.hidden_size});
    if (c.post_norms) {
      norm("attention_post_norm.weight", names.attention_post_norm, c.hidden_size);
      norm("mlp_post_norm.weight", names.mlp_post_norm, c.hidden_size);
    }
  }
  all.push_back({"norm.weight", {{names.norm, {c.hidden_size}}}, less_one});
  if (!c.tie_embeddings) all.push_back({"head", {{names.head, {c.vocab_size, c.hidden_size}}}});
  return all;
}

std::vector<Parameter> gpt2(const DecoderConfig& c) {
  const int64_t width = c.hidden_size;
  std::vector<Parameter> all = {{"embedding", {{"transformer.wte.weight", {c.vocab_size, width}}}},
                                {"positions", {{"transformer.wpe.weight", {c.max_positions, width}}}}};
  const auto norm = [&](const std::string& ours, const std::string& stored) {
    for (const char* part : {".weight", ".bias"}) all.push_back({ours + part, {{stored + part, {width}}}});
  };
  for (int64_t i = 0; i < c.num_layers; ++i) {
    const std::string ours = fmt::format("layers.{}.", i), stored = fmt::format("transformer.h.{}.", i);
    const auto linear = [&](const char* name, const char* of_file, int64_t in, int64_t out) {
      all.push_back({ours + name + ".weight", {{stored + of_file + ".weight", {in, out}, /*transposed=*/true}}});
      all.push_back({ours + name + ".bias", {{stored + of_file + ".bias", {out}}}});
    };
    norm(ours + "attention_norm", stored + "ln_1");
    linear("attention.qkv", "attn.c_attn", width, 3 * width);
    linear("attention.out", "attn.c_proj", width, width);
    norm(ours + "mlp_norm", stored + "ln_2");
    linear("mlp.up", "mlp.c_fc", width, c.intermediate_size);
    linear("mlp.down", "mlp.c_proj", c.intermediate_size, width);
  }
  norm("norm", "transformer.ln_f");
  if (!c.tie_embeddings) all.push_back({"head", {{"lm_head.weight", {c.vocab_size, width}}}});
  return all;
}

/// Returns the frequencies without scaling, which is how versions of transformers that saved them did.
std::vector<double> rotary_frequencies_of(const DecoderConfig& config) {
  std::vector<double> all;
  if (config.positions != "rope") return all;
  for (int64_t i = 0; i < config.head_dim / 2; ++i)
    all.push_back(std::pow(config.rope_theta, -2.0 * static_cast<double>(i) / static_cast<double>(config.head_dim)));
  return all;
}

}  // namespace

std::vector<Parameter> parameters_of(const std::string& family, const DecoderConfig& config) {
  return family == "gpt2" ? gpt2(config) : llama_like(family, config);
}

Layout layout_of(const std::string& family, const DecoderConfig& config) {
  const bool tied = config.tie_embeddings;
  return {parameters_of(family, config),
          family == "gguf"   ? ""
          : family == "gpt2" ? "transformer."
                             : "model.",
          [tied](std::string_view name) {
            if (tied && (name == "lm_head.weight" || name == "output.weight")) return true;
            // Buffers that older versions of transformers saved: the causal mask, its fill value, rotary frequencies.
            constexpr std::array endings = {".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq"};
            return std::ranges::any_of(endings, [&](const char* ending) { return name.ends_with(ending); });
          },
          rotary_frequencies_of(config)};
}

namespace {

constexpr int64_t kComparedAtATime = 4 * MiB;

bool are_equal(const Source& source, const std::string& one, const std::string& other) {
  const Source::Tensor &first = source.tensors().at(one), &second = source.tensors().at(other);
  if (first.sizes != second.sizes || first.dtype != second.dtype || first.sizes.empty()) return false;
  int64_t row_bytes = element_bytes(first.dtype);
  for (size_t i = 1; i < first.sizes.size(); ++i) row_bytes *= first.sizes[i];
  const int64_t count = first.sizes[0], step = std::max<int64_t>(1, kComparedAtATime / std::max<int64_t>(1, row_bytes));
  std::vector<std::byte> first_buffer, second_buffer;
  bool equal = true;
  for (int64_t begin = 0; begin < count && equal; begin += step) {
    const int64_t end = std::min(count, begin + step);
    equal =
        std::ranges::equal(source.rows(one, begin, end, first_buffer), source.rows(other, begin, end, second_buffer));
  }
  source.require_whole(one);
  source.require_whole(other);
  source.release_pages(one);
  source.release_pages(other);
  return equal;
}

std::string note_on_head(const std::filesystem::path& path, const std::string& head) {
  return fmt::format("{}: {} differs from the embedding and is used, although tie_word_embeddings is true",
                     path.string(), head);
}

}  // namespace

std::string untied_head(const std::filesystem::path& path, const Layout& layout) {
  constexpr const char* kHead = "lm_head.weight";
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return "";
  try {
    const std::unique_ptr<Source> source = open_source(path);
    std::string embedding = layout.parameters.front().pieces.front().name;
    if (!source->tensors().contains(kHead)) return "";
    if (!source->tensors().contains(embedding) && embedding.starts_with(layout.optional_prefix))
      embedding = embedding.substr(layout.optional_prefix.size());
    if (!source->tensors().contains(embedding)) return "";
    return are_equal(*source, kHead, embedding) ? "" : kHead;
  } catch (const UserError&) {
    return "";
  }
}

void compare_with_weights(const std::filesystem::path& path, Architecture& found) {
  std::error_code error;
  const bool folder = std::filesystem::is_directory(path, error), gguf = is_gguf(path);
  if (found.config.tie_embeddings && !gguf) {
    const std::string head = untied_head(path, layout_of(found.family, found.config));
    found.config.tie_embeddings = head.empty();
    if (!head.empty()) found.notes.push_back(note_on_head(path, head));
  }
  const std::vector<std::string> unread = notes_on_unread_weights(path);
  found.notes.insert(found.notes.end(), unread.begin(), unread.end());
  if (!gguf && !(folder && std::filesystem::exists(path / "config.json", error))) return;
  std::vector<std::string> others;
  try {
    const Architecture own = gguf ? read_gguf_architecture(path) : read_architecture(path);
    others = differences(own.config, found.config);
    std::erase_if(others, [&](const std::string& each) { return each.starts_with("tie_embeddings:") && !gguf; });
  } catch (const UserError& problem) {
    others.emplace_back(problem.what());
  }
  if (!others.empty())
    found.notes.push_back(fmt::format("model.config is used in place of the settings in {}, which differ: {}",
                                      path.string(), few_names(others)));
}

void compare_with_weights(const std::filesystem::path& path, MambaConfig& found, std::vector<std::string>* notes) {
  if (found.tie_embeddings) {
    const std::string head = untied_head(path, mamba_layout_of(found));
    found.tie_embeddings = head.empty();
    if (!head.empty() && notes) notes->push_back(note_on_head(path, head));
  }
  if (!notes) return;
  const std::vector<std::string> unread = notes_on_unread_weights(path);
  notes->insert(notes->end(), unread.begin(), unread.end());
}

}  // namespace plimsoll::weights
