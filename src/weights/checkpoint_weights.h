// The model's weights in a checkpoint, one at a time: quantised ones taken apart, adapters merged.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "safetensors/safetensors.h"
#include "weights/weights_file.h"

namespace plimsoll {

/// A copy: what lies in a file is aligned to nothing.
at::Tensor tensor_of(const StoredTensor& stored);

/// Of a contiguous tensor.
inline std::span<const std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

class CheckpointWeights {
 public:
  /// Throws UserError: no checkpoint of ours or damaged (failure), one without adapters where they are to be merged
  /// (usage).
  CheckpointWeights(const std::filesystem::path& checkpoint, const ExportOptions& options);
  CheckpointWeights(const CheckpointWeights&) = delete;
  CheckpointWeights& operator=(const CheckpointWeights&) = delete;

  /// Names and what makes their tensors, each of the type that is asked for, contiguous, on its own.
  const std::vector<std::pair<std::string, std::function<at::Tensor()>>>& all() const { return made_; }
  int64_t adapters() const { return adapters_; }  ///< that the checkpoint holds

 private:
  const StoredTensor& stored(const std::string& name) const;
  void add(const std::string& name);
  at::Tensor whole(const std::string& name) const;
  at::Tensor taken_apart(const std::string& owner) const;
  at::Tensor with_adapter(const std::string& owner, const at::Tensor& weight) const;

  std::filesystem::path path_;
  ExportOptions options_;
  SafetensorsFile file_;
  std::vector<std::pair<std::string, std::function<at::Tensor()>>> made_;
  int64_t adapters_ = 0;
  double scale_ = 0;
};

}  // namespace plimsoll
