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
#include "ops/dtypes.h"
#include "safetensors/safetensors.h"
#include "test_files.h"

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

}  // namespace plimsoll
