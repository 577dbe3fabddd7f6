// Declares access to the model's weights in a checkpoint, one at a time: quantized weights dequantized, adapters
// merged.
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

/// Returns a copy, because tensors in a file are not aligned.
at::Tensor tensor_of(const StoredTensor& stored);

/// Returns the bytes of a contiguous tensor.
inline std::span<const std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

class CheckpointWeights {
 public:
  /// Throws UserError (failure) if the file is damaged or no checkpoint of ours. Throws UserError (usage) if adapters
  /// are to be merged and it has none.
  CheckpointWeights(const std::filesystem::path& checkpoint, const ExportOptions& options);
  CheckpointWeights(const CheckpointWeights&) = delete;
  CheckpointWeights& operator=(const CheckpointWeights&) = delete;

  /// Returns names and functions that make their tensors. Each tensor is of the requested type, contiguous, and owns
  /// its memory.
  const std::vector<std::pair<std::string, std::function<at::Tensor()>>>& all() const { return made_; }
  int64_t adapters() const { return adapters_; }  ///< number of adapters in the checkpoint

 private:
  const StoredTensor& stored(const std::string& name) const;
  void add(const std::string& name);
  at::Tensor whole(const std::string& name) const;
  at::Tensor dequantized(const std::string& owner) const;
  at::Tensor with_adapter(const std::string& owner, const at::Tensor& weight) const;

  std::filesystem::path path_;
  ExportOptions options_;
  SafetensorsFile file_;
  std::vector<std::pair<std::string, std::function<at::Tensor()>>> made_;
  int64_t adapters_ = 0;
  double scale_ = 0;
};

}  // namespace plimsoll
