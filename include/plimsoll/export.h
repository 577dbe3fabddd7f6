// Declares the export of a checkpoint's weights for other programs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/trace.h"

namespace plimsoll {

struct Job;  // plimsoll/job.h

/// Choices of an export.
struct ExportOptions {
  bool merge = false;          ///< add the adapters to the weights that they adapt, and omit the adapters
  std::optional<DType> dtype;  ///< dtype of all floating-point weights; empty: as stored, quantized weights as bfloat16
};

/// Form of the exported weights.
enum class ExportFormat : uint8_t {
  safetensors,  ///< one file with Plimsoll's names
  huggingface,  ///< a folder that Hugging Face's transformers loads
};

/// A summary of an export.
struct ExportReport {
  int64_t step = 0;                ///< steps that the checkpoint had been trained for
  int64_t tensors = 0;             ///< tensors written
  int64_t merged = 0;              ///< written tensors to which an adapter was added
  int64_t bytes = 0;               ///< bytes of the written tensors
  std::vector<std::string> notes;  ///< Files that the export leaves out, a sentence each
};

/// Writes the model's weights of a checkpoint of the job to `out`: a file, or a folder that is empty or is created. A
/// file is written completely or not at all. Holds one weight at a time in memory. Throws UserError (failure) for a
/// file that is no checkpoint or is damaged. Throws UserError (usage) for a checkpoint of another model, for a merge
/// without adapters, and for a model that the format cannot hold. With a process budget, throws UserError
/// (does_not_fit) before anything is written if the largest weight exceeds it.
ExportReport export_job(const Job& job, const std::filesystem::path& checkpoint, const std::filesystem::path& out,
                        ExportFormat format, const ExportOptions& options);

/// Returns the dtype with this name if weights can be exported in it. Throws UserError (usage) with `key` and the
/// allowed names otherwise.
DType export_dtype(const std::string& name, const std::string& key);

}  // namespace plimsoll
