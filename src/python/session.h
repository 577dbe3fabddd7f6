// Declares a training of a model in another language: what libplimsoll_python offers to Python as a TorchBind class.
#pragma once

#include <torch/custom_class.h>

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "plimsoll/job.h"
#include "plimsoll/plan_training.h"
#include "plimsoll/training.h"
#include "python/recorded_module.h"

namespace plimsoll::python {

/// A plan, and later a training, of one model. Errors of Plimsoll are kept for last_error() and thrown as
/// std::runtime_error, the type that TorchBind passes on.
class Session : public torch::CustomClassHolder {
 public:
  using Batch = c10::Dict<std::string, at::Tensor>;

  /// `callback`: the address of a Callback. `options`: keys and values as in a job file, in YAML. `inputs`: name, sizes
  /// (a first size of -1: samples) and libtorch's number of the dtype. `device`: a name of the catalogue; empty: this
  /// machine's, as the options state it. `evaluates`: evaluate() will be called. `replaced`: fields of
  /// Replacements that are true.
  Session(int64_t callback, const std::string& options,
          const std::vector<std::tuple<std::string, std::vector<int64_t>, int64_t>>& inputs, const std::string& device,
          bool evaluates, const std::vector<std::string>& replaced);

  // For callbacks.
  /// Returns an input of the micro batch.
  at::Tensor input(const std::string& name);
  /// Passes a parameter or a buffer of the model.
  void add(const std::string& name, const at::Tensor& tensor, bool is_parameter);
  /// States that forward put `value` in the place of a buffer of add().
  void assign(const at::Tensor& buffer, const at::Tensor& value);
  /// Returns whether forward has read `tensor`, which is neither parameter nor buffer.
  bool reads(const at::Tensor& tensor);
  /// Passes the loss.
  void set_loss(const at::Tensor& loss);

  /// Records and plans. `accepted_slowdown`: as in SearchOptions, if no budget is stated.
  void plan(double accepted_slowdown);
  /// Returns the plan and the chosen settings as JSON.
  std::string report();
  /// Returns the page of the plan as HTML.
  std::string page(const std::string& title, const std::string& subtitle);
  /// Returns points of memory (bytes) against step time (seconds).
  std::vector<std::tuple<int64_t, double>> frontier(int64_t points);

  /// Allocates the memory and initializes the model in it.
  void start();
  /// Runs a step, and returns loss, norm of the gradients, and 1 if the step was skipped.
  std::tuple<double, double, bool> step(const std::vector<Batch>& micro_batches, double learning_rate);
  /// Times the next `steps` steps op by op; the last of them writes the file (ProfileOptions).
  void profile(const std::string& file, int64_t steps);
  /// Returns the loss of a micro batch in evaluation mode.
  double evaluate(const Batch& micro_batch);
  /// Returns parameters, buffers and optimizer state by name, as tensors in the arena, valid until the next step.
  std::vector<std::tuple<std::string, at::Tensor>> state();
  /// Writes the training to a file, and reads one.
  void save(const std::string& file);
  void load(const std::string& file);
  /// Returns bytes in use: highest so far, as Training::peak_bytes_used().
  int64_t used_bytes();
  /// Returns the number of optimizer steps so far.
  int64_t steps();
  /// Frees the memory of the training.
  void close();

 private:
  Training& training();
  Step step_of(int64_t samples) { return recorded_step(callback_, tensors_, inputs_, samples, replacements_); }

  const Callback callback_;
  const Replacements replacements_;
  Tensors tensors_;
  std::vector<Input> inputs_;
  Job job_;  // only its options
  PlanTarget target_;
  PlannedTraining planned_;
  std::unique_ptr<Training> training_;
};

/// Returns the last error of this thread as JSON with the fields kind ("usage", "failure", "does_not_fit", "internal")
/// and text; empty: there was none.
std::string last_error();

/// Returns the catalogue of devices as a JSON list of id, name, vendor and memory_bytes.
std::string devices();

/// Returns the learning rate of step `step` (from 1) of `steps`, by the keys of `options` (optimizer.learning_rate and
/// scheduler).
double learning_rate(const std::string& options, int64_t step, int64_t steps);

}  // namespace plimsoll::python
