#include "train/job_outputs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <system_error>

#include "base/atomic_file.h"
#include "base/file_error.h"
#include "checkpoint/checkpoint.h"
#include "job/keys/kinds.h"
#include "job/keys/values.h"
#include "job/shared_keys.h"
#include "plimsoll/error.h"
#include "plimsoll/export.h"
#include "plimsoll/job.h"
#include "plimsoll/train_job.h"
#include "weights/checkpoint_weights.h"
#include "weights/huggingface_export.h"

namespace plimsoll {
namespace {

constexpr const char* kDirectoryKey = "checkpoint.directory";
constexpr const char* kMetricsKey = "log.metrics_file";
constexpr size_t kNamePart = 200;  ///< bytes of the metrics' name in that of its lock: a name has at most 255 bytes

/// Returns the missing folders on the path to `folder`, the outermost first.
std::vector<std::filesystem::path> missing_folders(std::filesystem::path folder) {
  std::vector<std::filesystem::path> missing;
  std::error_code ignored;
  if (!folder.has_filename()) folder = folder.parent_path();  // "run/"
  for (; !folder.empty() && !std::filesystem::exists(folder, ignored); folder = folder.parent_path())
    missing.insert(missing.begin(), folder);
  return missing;
}

void require_not_read(const Job& job) {
  std::error_code ignored;
  for (const std::filesystem::path& file : job.data.files)
    if (std::filesystem::equivalent(file, job.log.metrics_file, ignored))
      throw UserError(fmt::format("{} is {}, which is one of data.files", kMetricsKey, job.log.metrics_file.string()));
}

}  // namespace

RunOutputs::RunOutputs(const Job& job) {
  try {
    if (!job.checkpoint.directory.empty()) of_key(kDirectoryKey, [&] { lock_folder(job); });
    if (!job.log.metrics_file.empty()) {
      require_not_read(job);
      of_key(kMetricsKey, [&] { lock_metrics(job); });
    }
    if (job::data_kind(job.data.type).uses_cache_folder) of_key("data.cache_dir", [&] { make(job.data.cache_dir); });
    if (job.budget.disk > 0)
      of_key("disk_path", [&] { const AtomicFile probe(options_of(job).disk_path / "plimsoll-disk"); });
  } catch (...) {
    remove_empty();
    throw;
  }
}

RunOutputs::~RunOutputs() {
  remove_empty();
}

void RunOutputs::make(const std::filesystem::path& folder) {
  if (folder.empty()) return;
  std::ranges::copy(missing_folders(folder), std::back_inserter(made_));
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw_file_error("make the folder", folder, error.value());
}

void RunOutputs::lock_folder(const Job& job) {
  const std::filesystem::path& directory = job.checkpoint.directory;
  make(directory);
  locks_.emplace_back(directory.lexically_normal().string(), directory / ".lock", job.file);
  const AtomicFile probe(directory / "step-00000000.safetensors");  // never committed: leaves nothing
}

void RunOutputs::lock_metrics(const Job& job) {
  const std::filesystem::path& metrics = job.log.metrics_file;
  std::error_code error;
  const bool there = std::filesystem::exists(metrics, error);
  if (there && std::filesystem::is_directory(metrics, error)) throw_file_error("write", metrics, EISDIR);
  if (there && ::access(metrics.c_str(), W_OK) != 0) throw_file_error("write", metrics, errno);
  if (there && !std::filesystem::is_regular_file(metrics, error))
    return;  // a pipe, a terminal: another program reads
             // it
  if (!there) const AtomicFile probe(metrics);
  std::filesystem::path file = std::filesystem::weakly_canonical(metrics, error);
  if (error) file = metrics;
  // A file may be writable in a folder in which no new file can be made.
  if (there && ::access(file.parent_path().c_str(), W_OK) != 0) return;
  locks_.emplace_back(metrics.lexically_normal().string(),
                      file.parent_path() / fmt::format(".{}.lock", file.filename().string().substr(0, kNamePart)),
                      job.file);
}

void RunOutputs::remove_empty() {
  locks_.clear();                                                          // removes the lock files
  for (; !made_.empty(); made_.pop_back()) ::rmdir(made_.back().c_str());  // fails if the folder is not empty
}

void RunMetrics::open(const Job& job, int64_t resumed_step) {
  if (job.log.metrics_file.empty()) return;
  std::optional<int64_t> rewritten;
  if (resumed_step > 0) rewritten = resumed_step + 1;
  of_key("log.metrics_file", [&] { log_.emplace(job.log.metrics_file, rewritten); });
}

void RunMetrics::log(const Job& job, const TrainProgress& progress, int64_t tokens, int64_t position) {
  tokens_since_log_ += tokens;
  if (!log_ || progress.step % job.log.every_n_steps != 0) return;
  const double now = seconds_now();
  write(progress.step, {{"loss", progress.loss},
                        {"gradient_norm", progress.gradient_norm},
                        {"learning_rate", progress.learning_rate},
                        {"epoch", progress.epoch},
                        {unit_of(job), position * units_of_sample(job)},
                        {unit_of(job) + "_per_second", static_cast<double>(tokens_since_log_) / (now - logged_at_)},
                        {"steps_skipped", progress.steps_skipped},
                        {"loss_scale", progress.loss_scale},
                        {"memory_bytes", progress.memory_used}});
  logged_at_ = now;
  tokens_since_log_ = 0;
}

void RunMetrics::write(int64_t step, const std::vector<std::pair<std::string, MetricValue>>& values) {
  if (!log_) return;
  try {
    log_->write(step, values);
  } catch (const UserError& error) {
    if (lost_++ == 0) {
      lost_from_ = step;
      lost_why_ = error.what();
      observer_.metrics_write_failed(lost_why_);
    }
  }
}

std::string RunMetrics::not_written() const {
  if (lost_ == 0) return "";
  return fmt::format("{} line{} of the metrics, the first of step {}: {}", lost_, lost_ == 1 ? "" : "s", lost_from_,
                     lost_why_);
}

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
                                                                  options, kShardBytes, tokenizer_of(job), job.budget)
                                             : export_weights(checkpoint, out, options, job.budget);
}

DType export_dtype(const std::string& name, const std::string& key) {
  for (DType each : {DType::float32, DType::bfloat16, DType::float16})
    if (name == name_of(each)) return each;
  throw UserError(fmt::format("{} is '{}'; allowed: float32, bfloat16, float16{}", key, name,
                              job::suggest_dtype(name, {"float32", "bfloat16", "float16"})));
}

}  // namespace plimsoll
