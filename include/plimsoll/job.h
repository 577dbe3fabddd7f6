// A training job: what a job file says, typed, checked and with its defaults filled in.
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
  std::filesystem::path metrics_file;  ///< JSON lines, one a logged step; empty: none
  int64_t every_n_steps = 1;
};

/// A training job: model, data, training, checkpoints, log and budget.
struct Job {
  std::filesystem::path file;  ///< the job file; empty for a job made in a program
  ModelConfig model;
  FineTuning fine_tuning;
  DataConfig data;
  OptimizerConfig optimizer;
  SchedulerConfig scheduler;
  CheckpointConfig checkpoint;
  LogConfig log;

  std::optional<Precision> precision = Precision::fp32_true;  ///< empty: `auto`
  // All three are of one device; the effective batch is batch_size x devices.
  // batch_size = micro_batch_size x gradient_accumulation_steps (with a schedule: of epoch 0), or less without a
  // schedule: then the last micro batch of a step is smaller. After read_job and parse_job batch_size is set, and the
  // other two are both set or both empty (docs/job-file.md has the table).
  std::optional<int64_t> batch_size;                                ///< sequences a step, all micro batches together
  std::optional<int64_t> micro_batch_size;                          ///< sequences at a time; empty: `auto`
  std::optional<AccumulationSchedule> gradient_accumulation_steps;  ///< empty: `auto`, batch_size / micro_batch_size up
  Choice gradient_checkpointing = Choice::automatic;
  Choice update_in_backward = Choice::automatic;
  Choice compile = Choice::automatic;  ///< chains of pointwise ops run as one op
  AccumulatorDtype accumulator_dtype = AccumulatorDtype::as_gradients;
  /// Keys memory_budget (`auto`: empty, what the device has), host_memory_budget and disk_budget.
  Budget budget;
  std::filesystem::path disk_path;  ///< folder; empty: checkpoint.directory, or without one the job file's folder
  double max_grad_norm = 1.0;       ///< 0: no clipping
  int64_t max_steps = 1000;
  std::optional<int64_t> max_epochs;
  int64_t eval_every_n_steps = 0;           ///< 0: only at the end, if there is validation data
  int64_t eval_batches = 16;                ///< batches of batch_size sequences an evaluation
  std::string device = "cpu";               ///< cpu | cuda | rocm | mps: plans can be made for any on every machine
  int64_t devices = 1;                      ///< that train together, one process each
  Strategy strategy = Strategy::automatic;  ///< what each of several devices stores of the training state
  double whole_part = 0;                    ///< RankOptions::whole_part; the planner's choice, no key
  int64_t threads = 0;                      ///< CPU threads; 0: as many as cores
  uint64_t seed = 0;
  /// What the reader has to say: names of other programs that it took for ours, a line each.
  std::vector<std::string> notes;
};

/// Sequences of a step's last micro batch where it is smaller than the others; 0: they are all alike, or still open.
int64_t last_micro_batch_of(const Job& job);

/// Reads a job file, applies `overrides` ("optimizer.name=sgd", "data.files=[a.txt,b.txt]"; the value is YAML, the last
/// one of a key holds, relative paths are relative to the job file as well) and checks it.
/// Throws UserError that says file, line, key, what was found and what is allowed; for an unknown key, the nearest
/// known one.
Job read_job(const std::filesystem::path& file, const std::vector<std::string>& overrides = {});

/// The same from YAML text; `name` stands for the file in messages, relative paths are relative to `directory`.
Job parse_job(const std::string& yaml, const std::string& name, const std::filesystem::path& directory,
              const std::vector<std::string>& overrides = {});

/// Returns whether the samples of the job are sequences of tokens.
inline bool is_language_model(const Job& job) {
  return job.model.type == "decoder" || job.model.type == "mamba";
}

/// Returns the setting of the vocabulary's size, in rows of the embedding. `job` is that of a language model.
inline int64_t& rows_of_embedding(Job& job) {
  return job.model.type == "mamba" ? job.model.mamba.vocab_size : job.model.decoder.vocab_size;
}

/// Returns the unit of the job's throughput: "tokens" or "samples".
inline std::string unit_of(const Job& job) {
  return is_language_model(job) ? "tokens" : "samples";
}

/// Returns the number of those units in a sample.
inline int64_t units_of_sample(const Job& job) {
  return is_language_model(job) ? job.data.sequence_length : 1;
}

/// Returns a number of samples in words: "4 x 512 tokens", "4 samples".
inline std::string samples_in_words(const Job& job, int64_t samples) {
  const std::string count = std::to_string(samples);
  return is_language_model(job) ? count + " x " + std::to_string(job.data.sequence_length) + " tokens"
                                : count + " samples";
}

/// A file or folder that a key names and that does not exist.
struct MissingFile {
  std::string key;  ///< of the job file: "data.files"
  std::filesystem::path file;
};

/// Files and folders that keys of `data` name and that do not exist. None of synthetic data.
std::vector<MissingFile> missing_data(const Job& job);

/// Returns the remedy for a missing file, for the end of a message: "run 'make text', which fetches it". Of a file that
/// no known command makes, it names the folder that relative paths start from.
std::string remedy_for(const Job& job, const MissingFile& missing);

/// Throws UserError (usage) where something is missing, with the first, its key, and what to do. Of data.files a job
/// with data.skip_bad may lack some.
void require_data(const Job& job);

/// One key of the job file, for `--help` and for the reference page.
struct KeyHelp {
  std::string key;   ///< "optimizer.learning_rate"
  std::string type;  ///< "number > 0", "rmsnorm | layernorm", …
  std::string default_value;
  std::string meaning;  ///< one line, with its effect on memory where it has one
};
/// Returns all keys of the job file, in the order of the reference page.
const std::vector<KeyHelp>& job_keys();

/// Returns whether the job file has a key of this whole name ("optimizer.name").
bool is_job_key(std::string_view name);

/// Returns whether `name`, which need not be a whole path, says one key: its last word, or another program's name for
/// it.
bool names_a_key(const std::string& name);

/// Returns the keys that may be meant by `path`, a key that does not exist, best first; none where nothing is near.
std::vector<std::string> keys_meant_by(const std::string& path);

/// The meaning, for a job, of an option or a key of programs that train on several devices.
struct DevicesWord {
  /// key: it is the key `key` with the value `text`. needless: it asks for nothing; `text` says why ("has nothing to do
  /// here"). refused: it asks for what does not exist; `text` says what to do instead.
  enum class Kind : uint8_t { key, needless, refused };
  Kind kind = Kind::needless;
  std::string key;  ///< devices or strategy
  std::string text;
};
/// Returns the meaning of `word` ("num_gpus", "zero_optimization.stage"; dashes as underscores) with the value `value`
/// ("8", "ddp"); nothing if the word is of no such program.
std::optional<DevicesWord> devices_word(std::string_view word, std::string_view value);

/// A file or folder that a job reads.
struct JobInput {
  std::string
      name;  ///< for a message: the key ("data.tokenizer_file"), "one of data.files", "the checkpoint of step 8"
  std::filesystem::path file;
};
/// Returns the files and folders that the job reads, apart from the job file: data, tokenizer, weights, and the
/// checkpoints in checkpoint.directory. A folder of checkpoints that cannot be listed is left out.
std::vector<JobInput> inputs_of(const Job& job);

}  // namespace plimsoll
