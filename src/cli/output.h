// Declares the output of a result, as text and as JSON with --json FILE (-: standard output). Declares the JSON of
// choices, run lengths and memory, and the checks of output files before the work of a command.
#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/device_work.h"
#include "plimsoll/job.h"
#include "plimsoll/plan.h"
#include "plimsoll/run_length.h"
#include "plimsoll/train_job.h"

namespace CLI {
class App;
}

namespace plimsoll::cli {

/// JSON whose keys keep the order in which they were set.
using Json = nlohmann::ordered_json;

/// Returns {"parameters": bytes, "gradients": …, …, "fragmentation": …}.
Json json_of(const Breakdown& breakdown);
/// Returns [{"label", "role", "bytes"}, …].
Json json_of(const ProcessMemory& process);
Json json_of(const std::vector<Resident>& residents);

/// An output of one result, as text and as JSON. With `--json -` standard output has the JSON and nothing else.
class Output {
 public:
  void add_option_to(CLI::App& command);

  bool json_wanted() const { return !target_.empty(); }
  /// Returns the target as given: a file, -, or nothing.
  const std::string& target() const { return target_; }

  /// Throws UserError, as cli::require_writable(), if the JSON file could not be written. Called before work that takes
  /// long.
  void require_writable() const;

  /// Prints `text` to standard output, unless that is reserved for JSON.
  void print(const std::string& text) const;

  /// Writes the JSON, whole or not at all. Numbers that are not finite become null; bytes that are not UTF-8 become the
  /// replacement character.
  void write(const Json& json) const;

 private:
  bool to_standard_output() const { return target_ == "-"; }

  std::string target_;  ///< value of --json; empty: no JSON
};

/// An option that names a file, as given: "--html", "plan.html". An empty file: the option was not given.
struct OutputFile {
  std::string option;
  std::filesystem::path file;
};

/// Throws UserError (usage) if an output is the job file, a file of the data or of the tokenizer, a checkpoint in
/// checkpoint.directory, or a file of the weights that the job names or of their folder, if two outputs are one file,
/// or if the word after an option is an override of the job.
void require_outputs_apart(const std::vector<OutputFile>& outputs, const std::filesystem::path& job_file,
                           const Job& job);

/// Throws UserError (usage) if `folder` has an input of the job, or one of `outputs`, under a name for which
/// `is_written` is true: the option writes it.
void require_folder_apart(const OutputFile& folder, bool (*is_written)(const std::string& name),
                          const std::vector<OutputFile>& outputs, const std::filesystem::path& job_file,
                          const Job& job);

/// Throws UserError that names the option if the file cannot be written: usage if the path is wrong, else failure. Call
/// it before work that takes long. Leaves no trace. Does nothing for an option that was not given and for -.
void require_writable(const OutputFile& output);

/// Throws UserError that names the option if the folder, or a folder above it, cannot be made: usage if the path is
/// wrong, else failure.
void require_folder_possible(const OutputFile& output);

/// Returns {"micro_batch_size", "gradient_accumulation_steps", "last_micro_batch", "gradient_checkpointing",
/// "offload_saved_bytes", "offload_state_bytes", "offload_gradient_bytes", "offload_parameter_bytes", "host_updates",
/// "precision"}.
Json choices_json(const PlannedJob& planned);

/// Returns [{"decision", "why"}, …].
Json reasons_json(const Plan& plan);

/// Returns {"steps", "training_samples", "steps_of_epochs", "warmup_steps", "schedule", "text"}; what is not known is
/// null.
Json run_length_json(const Job& job, const std::optional<RunLength>& length);

/// Calls `visit("parameters", &Breakdown::parameters)` and so on for every part.
template <typename Visit>
void for_each_part(Visit&& visit) {
  visit("parameters", &Breakdown::parameters);
  visit("gradients", &Breakdown::gradients);
  visit("optimizer state", &Breakdown::optimizer_state);
  visit("activations", &Breakdown::activations);
  visit("inputs", &Breakdown::inputs);
  visit("workspace", &Breakdown::workspace);
  visit("context", &Breakdown::context);
  visit("fragmentation", &Breakdown::fragmentation);
}

/// Returns how a device has run ops, as in `train --json` and `doctor --json`.
Json device_work_json(const DeviceWork& work);

}  // namespace plimsoll::cli
