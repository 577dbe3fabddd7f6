// Declares the training job: the contents of a job file, typed, checked and with defaults filled in.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/models.h"
#include "plimsoll/options.h"
#include "plimsoll/sample_data.h"

namespace plimsoll {

/// Section `log` of a job file.
struct LogConfig {
  std::filesystem::path metrics_file;  ///< JSON lines, one for each logged step; empty: none
  int64_t every_n_steps = 1;
};

/// Steps of a job that states neither max_steps nor max_epochs.
inline constexpr int64_t kDefaultMaxSteps = 1000;

/// Held-out samples that an evaluation reads if the job does not set eval_batches.
inline constexpr int64_t kEvaluatedSamples = 128;
/// Job::eval_batches of a job that evaluates on all held-out samples.
inline constexpr int64_t kAllBatches = INT64_MAX;

/// A training job: the options of its training, and its model, data, checkpoints, log and length.
///
/// After read_job and parse_job batch_size is set, and micro_batch_size and gradient_accumulation_steps are both set or
/// both empty (docs/job-file.md has the table); all three are per device. `evaluate`, `disk_path` if it is empty, the
/// checkpointed module and what follows from the batch are filled in by options_of() (plimsoll/plan_job.h).
struct Job : TrainingOptions {
  std::filesystem::path file;  ///< the job file; empty for a job made in a program
  ModelConfig model;
  DataConfig data;
  SchedulerConfig scheduler;
  CheckpointConfig checkpoint;
  LogConfig log;

  std::optional<int64_t> max_steps;   ///< empty: no limit with max_epochs, else kDefaultMaxSteps (run_length.h)
  std::optional<int64_t> max_epochs;  ///< the run ends with the step that reads the last of their samples
  int64_t eval_every_n_steps = 0;     ///< 0: only at the end, if there is validation data
  /// Batches of batch_size sequences in an evaluation. Empty: `auto`, kEvaluatedSamples whatever the batch;
  /// kAllBatches: all that are held out.
  std::optional<int64_t> eval_batches;
  /// Notes of the reader, one a line: names of other programs that it understood as ours.
  std::vector<std::string> notes;
  bool budget_lacks_unit = false;  ///< memory_budget is a number of at most four digits without a unit
};

/// Reads a job file, applies `overrides` and checks the result. An override is "key=YAML value": "optimizer.name=sgd",
/// "data.files=[a.txt,b.txt]". The last override of a key counts; relative paths in it are relative to the job file.
/// Throws UserError with file, line, key, the value and what is allowed; for an unknown key, with the nearest known
/// one.
Job read_job(const std::filesystem::path& file, const std::vector<std::string>& overrides = {});

/// Reads a job from YAML text, as read_job() does. `name` replaces the file in messages; relative paths are relative to
/// `directory`.
Job parse_job(const std::string& yaml, const std::string& name, const std::filesystem::path& directory,
              const std::vector<std::string>& overrides = {});

/// Returns whether the samples of the job are sequences of tokens.
bool is_language_model(const Job& job);

/// Returns the setting of the vocabulary's size, in rows of the embedding. `job` trains a language model.
int64_t& rows_of_embedding(Job& job);

/// Returns the unit of the job's throughput: "tokens" or "samples".
inline std::string unit_of(const Job& job) {
  return is_language_model(job) ? "tokens" : "samples";
}

/// Returns the number of units (see unit_of()) in a sample.
inline int64_t units_of_sample(const Job& job) {
  return is_language_model(job) ? job.data.sequence_length : 1;
}

/// Returns a number of samples as text: "4 x 512 tokens", "4 samples".
inline std::string describe_samples(const Job& job, int64_t samples) {
  const std::string count = std::to_string(samples);
  return is_language_model(job) ? count + " x " + std::to_string(job.data.sequence_length) + " tokens"
                                : count + " samples";
}

/// A file or folder that a key names and that does not exist.
struct MissingFile {
  std::string key;  ///< key of the job file: "data.files"
  std::filesystem::path file;
};

/// Returns the files and folders that keys of `data` name and that do not exist. Empty for synthetic data.
std::vector<MissingFile> missing_data(const Job& job);

/// Returns the remedy for a missing file, for the end of a message: "run 'make text', which fetches it". If no known
/// command makes the file, it names the folder that relative paths start from.
std::string remedy_for(const Job& job, const MissingFile& missing);

/// Throws UserError (usage) for the first missing file, with its key and the remedy. With data.skip_bad some of
/// data.files may be missing.
void require_data(const Job& job);

/// A key of the job file, for `--help` and for the reference page.
struct KeyHelp {
  std::string key;   ///< "optimizer.learning_rate"
  std::string type;  ///< "number > 0", "rmsnorm | layernorm", …
  std::string default_value;
  std::string meaning;  ///< one line, with the key's effect on memory if it has one
};
/// Returns all keys of the job file, in the order of the reference page.
const std::vector<KeyHelp>& job_keys();

/// Returns whether the job file has a key with this full name ("optimizer.name").
bool is_job_key(std::string_view name);

/// Returns whether `name`, which may be a partial path, identifies one key: by its last word, or by another program's
/// name for it.
bool names_a_key(const std::string& name);

/// Returns the keys that an unknown key `path` may stand for, best first. Empty if no key is near.
std::vector<std::string> suggest_keys(const std::string& path);

/// An option or a key of programs that train on several devices, translated for a job.
struct DevicesWord {
  /// key: it is the key `key` with the value `text`. needless: it requests nothing; `text` says why ("has nothing to do
  /// here"). refused: it requests what does not exist; `text` says what to do instead.
  enum class Kind : uint8_t { key, needless, refused };
  Kind kind = Kind::needless;
  std::string key;  ///< devices or strategy
  std::string text;
};
/// Returns the translation of `word` ("num_gpus", "zero_optimization.stage"; dashes count as underscores) with the
/// value `value` ("8", "ddp"). nullopt if no such program has the word.
std::optional<DevicesWord> devices_word(std::string_view word, std::string_view value);

/// A file or folder that a job reads.
struct JobInput {
  /// For a message: the key ("data.tokenizer_file"), "one of data.files", "the checkpoint of step 8".
  std::string name;
  std::filesystem::path file;
};
/// Returns the files and folders that the job reads, without the job file: data, tokenizer, weights, and the
/// checkpoints in checkpoint.directory. A checkpoint folder that cannot be listed is omitted.
std::vector<JobInput> inputs_of(const Job& job);

}  // namespace plimsoll
