// Declares small checkpoints in transformers' format (tests/weights/families, made by
// scripts/make-weights-fixtures.py), and helpers that change them.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "files/gguf_file.h"
#include "ops/libtorch_types.h"
#include "safetensors/safetensors.h"
#include "test_files.h"
#include "weights/families.h"

namespace plimsoll {

inline const std::filesystem::path kFamilies =
    std::filesystem::path(PLIMSOLL_SOURCE_DIR) / "tests" / "weights" / "families";

inline nlohmann::json read_json(const std::filesystem::path& file) {
  return nlohmann::json::parse(get_file(file));
}

inline NamedTensors parameters_of(torch::nn::Module& model) {
  NamedTensors named;
  for (const auto& entry : model.named_parameters()) named.emplace_back(entry.key(), entry.value().detach());
  return named;
}

inline std::map<std::string, at::Tensor> tensors_in(const std::filesystem::path& path) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  std::map<std::string, at::Tensor> tensors;
  for (const auto& [name, stored] : file.tensors()) {
    tensors[name] = at::empty(stored.sizes, scalar_type_of(stored.dtype));
    std::memcpy(tensors[name].mutable_data_ptr(), stored.bytes.data(), stored.bytes.size());
  }
  return tensors;
}

/// Returns the bytes of all files of a folder.
inline std::map<std::string, at::Tensor> tensors_in_folder(const std::filesystem::path& folder) {
  std::map<std::string, at::Tensor> tensors;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".safetensors") tensors.merge(tensors_in(entry.path()));
  return tensors;
}

inline void write_tensors(const std::filesystem::path& path, const std::map<std::string, at::Tensor>& tensors) {
  std::vector<TensorDeclaration> declarations;
  for (const auto& [name, tensor] : tensors)
    declarations.push_back({name, dtype_of(tensor.scalar_type()), tensor.sizes().vec(), {}});
  SafetensorsWriter writer(path, declarations, {{"format", "pt"}});
  for (const auto& [name, tensor] : tensors)
    writer.write(name, {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()});
  writer.commit();
}

inline double relative_error(const at::Tensor& got, const at::Tensor& want) {
  return (got.to(at::kDouble) - want).abs().max().item<double>() / want.abs().max().item<double>();
}

/// Copies a family's folder to `folder`, for changes; its tensors are in one file.
inline std::filesystem::path single_file_copy(const std::string& family, const TempFolder& folder) {
  const std::filesystem::path to = folder / family;
  std::filesystem::remove_all(to);
  std::filesystem::create_directory(to);
  write_tensors(to / "model.safetensors", tensors_in_folder(kFamilies / family));
  for (const auto& entry : std::filesystem::directory_iterator(kFamilies / family))
    if (entry.path().extension() == ".json" && !entry.path().string().ends_with("index.json"))
      put_file(to / entry.path().filename().string(), get_file(entry.path()));
  return to;
}

/// Returns the llama folder as llama.cpp's converter does: other names, rows of queries' and keys' heads in pairs.
inline GgufText llama_gguf() {
  const DecoderConfig config = weights::read_architecture(kFamilies / "llama").config;
  const std::map<std::string, std::string> names = {
      {"input_layernorm", "attn_norm"}, {"post_attention_layernorm", "ffn_norm"},
      {"self_attn.q_proj", "attn_q"},   {"self_attn.k_proj", "attn_k"},
      {"self_attn.v_proj", "attn_v"},   {"self_attn.o_proj", "attn_output"},
      {"mlp.gate_proj", "ffn_gate"},    {"mlp.up_proj", "ffn_up"},
      {"mlp.down_proj", "ffn_down"}};
  GgufText text;
  text.word("general.architecture", "llama");
  text.whole("llama.embedding_length", 16).whole("llama.block_count", 2).whole("llama.feed_forward_length", 24);
  text.whole("llama.attention.head_count", 4).whole("llama.attention.head_count_kv", 2);
  text.number("llama.attention.layer_norm_rms_epsilon", 2e-5f);
  for (auto& [name, tensor] : tensors_in(kFamilies / "llama" / "model.safetensors")) {
    std::string expected = name;
    if (name == "model.embed_tokens.weight") expected = "token_embd.weight";
    if (name == "model.norm.weight") expected = "output_norm.weight";
    if (name.starts_with("model.layers.")) expected = "blk." + name.substr(std::string("model.layers.").size());
    for (const auto& [from, to] : names)
      if (const size_t at = expected.find(from); at != std::string::npos) expected.replace(at, from.size(), to);
    at::Tensor data = tensor;
    if (expected.find("attn_q.") != std::string::npos || expected.find("attn_k.") != std::string::npos)
      data = data.view({-1, 2, config.head_dim / 2, 16}).transpose(1, 2).contiguous();
    text.tensor(expected, tensor.sizes().vec(), 0,
                {static_cast<const char*>(data.const_data_ptr()), static_cast<size_t>(data.nbytes())});
  }
  return text;
}

}  // namespace plimsoll
