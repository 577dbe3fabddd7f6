// Declares access to the model's weights in a checkpoint, one at a time, with quantized weights dequantized and
// adapters merged; their export to a safetensors file, and the loading of such a file.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_state.h"
#include "plimsoll/export.h"
#include "plimsoll/options.h"
#include "safetensors/safetensors.h"

namespace plimsoll {

/// Writes the model's weights of a checkpoint, all or none; quantized weights are dequantized. Merged weights are
/// summed in float32 and rounded once. The extra bits of 16-bit weights (`optimizer.weight_update`) are used if the
/// requested type differs from the type that the weights are held in. Holds one weight at a time in memory. Throws
/// UserError (failure) if the file is damaged or no checkpoint of ours. Throws UserError (usage) if adapters are to be
/// merged and the checkpoint has none.
/// Throws UserError (does_not_fit) if the largest weight exceeds the process budget.
ExportReport export_weights(const std::filesystem::path& checkpoint, const std::filesystem::path& out,
                            const ExportOptions& options, const Budget& budget = {});

/// Copies the weights of `file` into `state`, Training::state(), cast and quantized to the format of the state. The
/// extra bits of 16-bit weights are taken from the file too. Adapters that the file does not have stay unchanged; half
/// of an adapter is refused. Tensors that are not floating have the same type in both. Throws UserError if the file is
/// damaged or its tensors are not the model's, naming them; nothing is written then. Also throws UserError if the file
/// loses bytes while it is read, which may be after some weights were written.
/// `key` is the job's key that names the file. `sliced`: the tensors of `state` of which this rank has slices.
void load_weights(const std::filesystem::path& file, const NamedTensors& state,
                  const std::string& key = "model.weights", const SlicedState& sliced = {});

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
  /// Throws UserError (does_not_fit) if the process budget has no room to make one of the tensors. `beside` returns
  /// what a tensor of that name and number of elements takes once it is made, in bytes.
  void require_room(const Budget& budget,
                    const std::function<int64_t(const std::string& name, int64_t numbers)>& beside) const;
  int64_t adapters() const { return adapters_; }  ///< number of adapters in the checkpoint

 private:
  struct MakingBytes {
    int64_t numbers;  // of the tensor
    int64_t peak;     // while it is made
    int64_t made;
  };

  const StoredTensor& stored(const std::string& name) const;
  void add(const std::string& name);
  MakingBytes making_of(const std::string& name, const std::string& codes_of, const std::string& merged,
                        DType type) const;
  int64_t stored_bytes(const std::string& name) const;
  at::Tensor whole(const std::string& name) const;
  at::Tensor dequantized(const std::string& owner) const;
  at::Tensor with_adapter(const std::string& owner, const at::Tensor& weight) const;

  std::filesystem::path path_;
  ExportOptions options_;
  SafetensorsFile file_;
  std::vector<std::pair<std::string, std::function<at::Tensor()>>> made_;
  std::vector<MakingBytes> making_;  // of each of made_
  int64_t adapters_ = 0;
  double scale_ = 0;
};

}  // namespace plimsoll
