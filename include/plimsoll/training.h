// Declares Training: it trains your own torch::nn::Module inside a memory budget.
//
//     plimsoll::Step step;
//     step.model = [] { return std::make_shared<Net>(); };
//     step.inputs = {{"x", {64, 10}, torch::kFloat32}, {"y", {64}, torch::kInt64}};
//     step.loss = [](torch::nn::Module& m, const plimsoll::StepInputs& in) { … return a scalar; };
//     plimsoll::Training training(step, {.budget = {.device = plimsoll::parse_bytes("64MiB")}});
//     training.start();
//     auto result = training.step({{{"x", x}, {"y", y}}}, /*learning_rate=*/1e-3);
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plimsoll/device_work.h"
#include "plimsoll/options.h"
#include "plimsoll/plan.h"
#include "plimsoll/plan_training.h"

namespace plimsoll {

/// A description of a tensor in every micro batch.
struct InputSpec {
  std::string name;
  std::vector<int64_t> sizes;  ///< sizes in a micro batch
  c10::ScalarType dtype;
  /// For integers: exclusive upper bound of the values if it is known (classes, a vocabulary); 0: not known.
  int64_t values = 0;
};

/// A set of input tensors by name.
class StepInputs {
 public:
  /// Sets the tensor of an input.
  void set(const std::string& name, at::Tensor tensor) { tensors_[name] = std::move(tensor); }
  /// Returns the tensor of an input. Throws UserError for a name that the step has not declared.
  const at::Tensor& operator[](const std::string& name) const;

 private:
  std::map<std::string, at::Tensor> tensors_;
};

/// Result of an evaluation for one micro batch.
struct Evaluation {
  at::Tensor loss;  ///< mean loss, as from Step::loss
  /// Floating-point tensors by name, which are summed over the micro batches of an evaluation: counts, sums of
  /// products.
  std::vector<std::pair<std::string, at::Tensor>> sums;
};

/// A training step: the model, the inputs of a micro batch, and the loss.
struct Step {
  /// Makes the model. It is called on the plan device: parameters and buffers take no memory, and their initialization
  /// is recorded.
  std::function<std::shared_ptr<torch::nn::Module>()> model;
  std::vector<InputSpec> inputs;
  /// Computes the mean loss of a micro batch: a floating-point scalar, in float32 if the precision is lower.
  std::function<at::Tensor(torch::nn::Module& model, const StepInputs& inputs)> loss;
  /// Computes loss and sums for an evaluation; empty: the loss alone.
  std::function<Evaluation(torch::nn::Module& model, const StepInputs& inputs)> evaluation = {};
  /// Computes the metrics, by name and in display order, from the sums over all micro batches (float64).
  std::function<std::vector<std::pair<std::string, double>>(const std::map<std::string, at::Tensor>& sums)> metrics =
      {};
  /// Operators of libtorch that are recorded as operators of Plimsoll.
  Replacements replace = {};
};

/// Name of the input, float32 [B], that says which samples count. 1: the sample counts; 0: it only fills up the last
/// micro batch of an evaluation. The step weights its loss and sums by it.
inline constexpr const char* kSampleMask = "counted";

/// Records a training step without running it. Segments: initialize and micro; as the options require, accumulate,
/// remainder, update and evaluate. Throws UserError with operator and module for a call that cannot be recorded.
Trace record_step(const Step& step, const TrainingOptions& options);

/// States the dotted path of the module whose forward runs now, for a front end whose modules have hooks; "": the step
/// itself. Ops belong to it until the next call or the end of the segment. Without calls, an op belongs to the module
/// whose parameter was read last. Has no effect while this thread records nothing.
void set_recorded_module(const std::string& path);
/// States, while a step is recorded, that forward put `value` in the place of the parameter or buffer `registered`. The
/// step copies it there after backward, so that the next forward reads it.
void assign_recorded(const at::Tensor& registered, const at::Tensor& value);
/// Returns whether the micro batch that is recorded has read `tensor`, which is neither a parameter nor a buffer.
bool is_recorded_operand(const at::Tensor& tensor);

/// Records a step once and plans it once. Allocates no memory for tensors. If the device is that of this machine, it
/// runs small kernels once, separately, to measure their scratch. plan.fits says whether the budget is enough. Throws
/// as record_step() does.
PlannedStep plan_step(const Step& step, const TrainingOptions& options);

/// A step's results.
struct StepResult {
  double loss = 0;           ///< mean over the micro batches, weighted by their samples
  double gradient_norm = 0;  ///< 2-norm of all gradients before clipping; not finite if the step was skipped
  /// True if a gradient was not finite; parameters and state are then unchanged. Exception: with updates in backward
  /// and max_grad_norm 0, updates before that gradient in backward have been applied. A loss that is not finite changes
  /// nothing.
  bool skipped = false;
};

/// A training of one Step: it runs the step's plan inside the plan's arenas.
class Training {
 public:
  /// Records and plans the step (plan_step()). plan().fits says whether the budget is enough.
  Training(const Step& step, const TrainingOptions& options);
  /// Uses the result of plan_step() for the same step and options; nothing is recorded or planned again.
  Training(const Step& step, const TrainingOptions& options, PlannedStep planned);
  ~Training();
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  /// Returns the current plan. It changes only in start() or after the first step, if kernels need other scratch than
  /// planned.
  const Plan& plan() const;
  /// Returns the reason for the last re-planning and what changed, in one line; empty: the plan is the first one.
  const std::string& plan_change() const;
  /// Returns the smallest budget for which the step can be planned as it is now: with the scratch that is known.
  int64_t minimum_budget_bytes() const;

  /// Allocates the arena and initializes the model in it. Large kernels whose scratch no rule predicts are run once
  /// before that, separately; if they need scratch that was not planned, the step is planned again. Throws UserError
  /// (does_not_fit) unless plan().fits, MemoryUnavailable if the machine has less memory available than the arena
  /// needs, and UserError (failure) if the disk has.
  void start();

  /// Runs one optimizer step over the micro batches: forward and backward of each, then the update. Tensors are on the
  /// CPU, with the declared sizes and dtype (or the precision's dtype for inputs: bfloat16 with bf16-true). The last of
  /// several micro batches may have TrainingOptions::last_micro_batch as its first size; each micro batch's loss is
  /// then weighted by its samples. After the first step the step may be planned again with measured scratch. Throws
  /// UserError (does_not_fit) if that exceeds the budget.
  StepResult step(const std::vector<std::map<std::string, at::Tensor>>& micro_batches, double learning_rate);

  /// Returns micro batch `index`, valid until the next call or the end of the step.
  using MicroBatchSource = std::function<const std::map<std::string, at::Tensor>&(int64_t index)>;
  /// Runs one optimizer step over `count` micro batches, which are requested from `next` one at a time. `ragged`: the
  /// last one has last_micro_batch samples.
  StepResult step(int64_t count, const MicroBatchSource& next, double learning_rate, bool ragged = false);

  /// Returns the loss of one micro batch, without gradients, with the model in evaluation mode.
  double evaluate(const std::map<std::string, at::Tensor>& micro_batch);
  /// Returns the loss of one micro batch as above, and adds Step::evaluation's sums to `sums` (float64; missing entries
  /// are created).
  double evaluate(const std::map<std::string, at::Tensor>& micro_batch, std::map<std::string, at::Tensor>& sums);

  /// Times the chosen future steps op by op; the last of them writes the file. Call it before the first step. With
  /// several ranks all ranks call it for the same steps, and rank 0 writes the steps of all ranks to its file. Throws
  /// UserError if the file cannot be written.
  void profile(const ProfileOptions& options);
  /// Writes the file if fewer steps were run than chosen. Returns the number of steps in it; 0: no step was timed, and
  /// there is no file. With several ranks all ranks call it.
  int64_t write_profile();

  /// Returns the bytes in use. It searches the arena for the highest byte written to; in every step call
  /// peak_bytes_used() instead.
  MemoryUse used() const;
  int64_t peak_bytes_used() const;  ///< used().measured_peak(), in constant time
  /// Returns how the device has run the ops since start(), or since the step was planned again.
  DeviceWork device_work() const;
  /// Returns the peak of the process's resident memory before start() allocated the arenas, in bytes; 0: it did not.
  int64_t resident_before_arenas() const;
  /// Returns the number of optimizer steps, skipped steps included.
  int64_t steps_done() const;
  /// Returns the number of steps skipped for gradients that were not finite.
  int64_t steps_skipped() const;
  /// Returns the 2-norm of each parameter's gradient in the last step, with the loss scale, by the parameter's name.
  /// They are in the order of the backward pass: the first one that is not finite is nearest to the cause of a skipped
  /// step. Before the first step they are 0. Empty if several ranks slice the gradients. Reads the device's memory.
  std::vector<std::pair<std::string, double>> gradient_norms() const;
  /// Returns the current loss scale; 1 without loss scaling.
  double loss_scale() const;

  /// Returns parameters, buffers and optimizer state by name, as tensors in the arena (or in that of the host or the
  /// disk). They are valid until the next step() or evaluate(): with host memory, re-planning may move them.
  std::vector<std::pair<std::string, at::Tensor>> state();
  /// Throws UserError (failure) if the arena on disk has lost bytes, which read as 0. A caller that has read values of
  /// state() calls it before it uses them.
  void require_state() const;
  /// Returns for each tensor of state() that is this rank's flat slice the sizes of the whole, contiguous tensor. The
  /// slices of all ranks make it one after the other; the last slice may end with padding. Empty with one rank.
  std::map<std::string, std::vector<int64_t>> slices() const;
  /// Returns everything else that a resumed run needs, as text: step counters and the loss scale.
  std::map<std::string, std::string> counters() const;
  /// Restores the result of counters().
  void restore_counters(const std::map<std::string, std::string>& counters);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Writes a started training to one safetensors file, completely or not at all: parameters, module buffers, optimizer
/// state, and the counters of steps and of the loss scale. Throws UserError (failure) if the disk cannot be written,
/// and UserError (usage) if the training is one of several ranks, which store slices.
void save_training(Training& training, const std::filesystem::path& file);

/// Reads a file of save_training() into a started training of the same step. The next step then has the same bits as in
/// the saved training. Reads everything or, on an error, nothing. If another program truncates the file meanwhile,
/// floating-point values become NaN and integers 0. Throws UserError (failure) for a file that is missing, damaged or
/// not Plimsoll's. Throws UserError (usage) with the differences if it is of another model or optimizer.
void load_training(Training& training, const std::filesystem::path& file);

/// Returns the largest resident memory of this process so far, in bytes, as counted by the operating system.
int64_t peak_resident_bytes();

}  // namespace plimsoll
