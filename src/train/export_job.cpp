#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "checkpoint/checkpoint.h"
#include "job/keys/data_kind.h"
#include "job/keys/values.h"
#include "job/shared_keys.h"
#include "plimsoll/error.h"
#include "plimsoll/export.h"
#include "plimsoll/job.h"
#include "weights/checkpoint_weights.h"
#include "weights/huggingface_export.h"

namespace plimsoll {
namespace {

/// Returns the file of the tokenizer that the job encodes its texts with; empty: one that transformers cannot load;
/// nullopt: the job encodes no texts.
std::optional<std::filesystem::path> tokenizer_of(const Job& job) {
  const bool encodes = std::ranges::any_of(job::data_kind(job.data.type).keys,
                                           [](const job::Key& each) { return each.help.key == "data.tokenizer"; });
  if (!encodes) return std::nullopt;
  if (job.data.tokenizer != "huggingface" && job.data.tokenizer != "sentencepiece") return std::filesystem::path();
  std::error_code error;
  const std::filesystem::path& file = job.data.tokenizer_file;
  if (!std::filesystem::is_directory(file, error)) return file;
  return file / (job.data.tokenizer == "huggingface" ? "tokenizer.json" : "tokenizer.model");
}

}  // namespace

ExportReport export_job(const Job& job, const std::filesystem::path& checkpoint, const std::filesystem::path& out,
                        ExportFormat format, const ExportOptions& options) {
  require_same_model(job::origin_of(job, nullptr), checkpoint);
  return format == ExportFormat::huggingface ? export_huggingface(job.model, job.data.sequence_length, checkpoint, out,
                                                                  options, kShardBytes, tokenizer_of(job))
                                             : export_weights(checkpoint, out, options);
}

DType export_dtype(const std::string& name, const std::string& key) {
  for (DType each : {DType::float32, DType::bfloat16, DType::float16})
    if (name == name_of(each)) return each;
  throw UserError(fmt::format("{} is '{}'; allowed: float32, bfloat16, float16{}", key, name,
                              job::suggest_dtype(name, {"float32", "bfloat16", "float16"})));
}

}  // namespace plimsoll
