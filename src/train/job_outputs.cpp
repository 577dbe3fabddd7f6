#include "train/job_outputs.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "base/atomic_file.h"
#include "base/file_error.h"
#include "plimsoll/error.h"
#include "train/key_errors.h"

namespace plimsoll {
namespace {

void prepare_checkpoints(const std::filesystem::path& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) throw_file_error("make the folder", directory, error.value());
  const AtomicFile probe(directory / "step-00000000.safetensors");  // never committed: leaves nothing
}

void prepare_metrics(const Job& job) {
  const std::filesystem::path& metrics = job.log.metrics_file;
  std::error_code ignored;
  for (const std::filesystem::path& file : job.data.files)
    if (std::filesystem::equivalent(file, metrics, ignored))
      throw UserError(fmt::format("log.metrics_file is {}, which is one of data.files", metrics.string()));
  if (!std::filesystem::exists(metrics, ignored)) of_key("log.metrics_file", [&] { const AtomicFile probe(metrics); });
}

}  // namespace

void prepare_outputs(const Job& job) {
  if (!job.checkpoint.directory.empty())
    of_key("checkpoint.directory", [&] { prepare_checkpoints(job.checkpoint.directory); });
  if (!job.log.metrics_file.empty()) prepare_metrics(job);
}

}  // namespace plimsoll
