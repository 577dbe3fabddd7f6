#include <fmt/format.h>

#include "checkpoint/checkpoint.h"
#include "job/origin.h"
#include "job/values/suggestions.h"
#include "plimsoll/error.h"
#include "plimsoll/export.h"
#include "plimsoll/job.h"
#include "weights/huggingface_export.h"
#include "weights/weights_file.h"

namespace plimsoll {

ExportReport export_job(const Job& job, const std::filesystem::path& checkpoint, const std::filesystem::path& out,
                        ExportFormat format, const ExportOptions& options) {
  require_same_model(job::origin_of(job, nullptr), checkpoint);
  return format == ExportFormat::huggingface
             ? export_huggingface(job.model, job.data.sequence_length, checkpoint, out, options)
             : export_weights(checkpoint, out, options);
}

DType export_dtype(const std::string& name, const std::string& key) {
  for (DType each : {DType::float32, DType::bfloat16, DType::float16})
    if (name == name_of(each)) return each;
  throw UserError(fmt::format("{} is '{}'; allowed: float32, bfloat16, float16{}", key, name,
                              job::suggest_dtype(name, {"float32", "bfloat16", "float16"})));
}

}  // namespace plimsoll
