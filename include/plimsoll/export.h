// Exports the weights of a checkpoint for other programs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "plimsoll/trace.h"

namespace plimsoll {

struct Job;  // plimsoll/job.h

/// Choices of an export.
struct ExportOptions {
  bool merge = false;          ///< add the adapters to the weights that they stand beside, and leave them out
  std::optional<DType> dtype;  ///< of all floating-point weights; empty: as they are held, quantized ones bfloat16
};

/// Form of the exported weights.
enum class ExportFormat : uint8_t {
  safetensors,  ///< one file with Plimsoll's names
  huggingface,  ///< a folder that Hugging Face's transformers loads
};

/// Result of an export.
struct ExportReport {
  int64_t step = 0;     ///< steps that the checkpoint had been trained for
  int64_t tensors = 0;  ///< written
  int64_t merged = 0;   ///< of these, with an adapter added
  int64_t bytes = 0;    ///< of the tensors
};

/// Writes the model's weights of a checkpoint of the job to `out`, a file or a folder that is empty or is made. Writes
/// a file whole or not at all. Holds one weight at a time in memory. Throws UserError: a file that is no checkpoint or
/// is damaged (failure); a checkpoint of another model, one without adapters where they are to be merged, a model that
/// the format has no place for (usage).
ExportReport export_job(const Job& job, const std::filesystem::path& checkpoint, const std::filesystem::path& out,
                        ExportFormat format, const ExportOptions& options);

/// Returns the dtype of this name, one of those that weights may be exported in. Throws UserError (usage) that names
/// `key` and what is allowed.
DType export_dtype(const std::string& name, const std::string& key);

}  // namespace plimsoll
