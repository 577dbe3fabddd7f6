// A training job: what a job file says, typed, checked and with its defaults filled in.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/checkpoint_config.h"
#include "plimsoll/fine_tuning.h"
#include "plimsoll/model_config.h"
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

/// One key of the job file, for `--help` and for the reference page.
struct KeyHelp {
  std::string key;   ///< "optimizer.learning_rate"
  std::string type;  ///< "number > 0", "rmsnorm | layernorm", …
  std::string default_value;
  std::string meaning;  ///< one line, with its effect on memory where it has one
};
/// Returns all keys of the job file, in the order of the reference page.
const std::vector<KeyHelp>& job_keys();

}  // namespace plimsoll
