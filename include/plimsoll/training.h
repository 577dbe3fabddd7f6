// Train a torch::nn::Module of your own inside a memory budget.
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

#include "plimsoll/options.h"
#include "plimsoll/plan.h"

namespace plimsoll {

/// A tensor that every micro batch brings.
struct InputSpec {
  std::string name;
  std::vector<int64_t> sizes;  ///< of a micro batch
  c10::ScalarType dtype;
  int64_t values = 0;  ///< of whole numbers: what they are below, where that is known (classes, a vocabulary)
};

/// Input tensors by name. Throws UserError for a name that the step has not declared.
class StepInputs {
 public:
  /// Sets the tensor of an input.
  void set(const std::string& name, at::Tensor tensor) { tensors_[name] = std::move(tensor); }
  /// Returns the tensor of an input.
  const at::Tensor& operator[](const std::string& name) const;

 private:
  std::map<std::string, at::Tensor> tensors_;
};

/// Result of an evaluation for one micro batch.
struct Evaluation {
  at::Tensor loss;  ///< as Step::loss
  /// Tensors of floating type by name, to be summed over an evaluation's micro batches: counts, sums of products.
  std::vector<std::pair<std::string, at::Tensor>> sums;
};

/// A training step: the model, the inputs of a micro batch, and the loss.
struct Step {
  /// Makes the model. Called on the plan device: parameters and buffers take no memory, their initialisation is
  /// recorded.
  std::function<std::shared_ptr<torch::nn::Module>()> model;
  std::vector<InputSpec> inputs;
  /// The mean loss of a micro batch: a scalar of floating type, in float32 where precision is low.
  std::function<at::Tensor(torch::nn::Module& model, const StepInputs& inputs)> loss;
  /// Computes loss and sums for an evaluation; empty: the loss alone.
  std::function<Evaluation(torch::nn::Module& model, const StepInputs& inputs)> evaluation = {};
  /// The metrics that the sums over all micro batches (float64) come to, by name, in the order they are to be shown.
  std::function<std::vector<std::pair<std::string, double>>(const std::map<std::string, at::Tensor>& sums)> metrics =
      {};
};

/// An input of this name, float32 [B], says which samples count: 1, or 0 for what only fills up the last micro batch of
/// an evaluation. Its step weighs loss and sums by it.
inline constexpr const char* kCounted = "counted";

/// Records a training step without running it: segments initialize, micro, and as asked for accumulate, remainder,
/// update, evaluate. Throws UserError for what cannot be recorded, naming operator and module.
Trace record_step(const Step& step, const TrainingOptions& options);

/// Opaque: scratch that kernels were found to take.
class LearnedWorkspace;

/// A training step as it was recorded and planned: what a Training runs.
struct PlannedStep {
  Trace recorded;  ///< before any pass
  Plan plan;
  /// Scratch that kernels were found to take on the device while the step was planned; null: no kernel was run.
  std::shared_ptr<const LearnedWorkspace> workspace;
};

/// Records a step once and plans it once. Takes no memory for tensors, but where the device is here runs small kernels
/// once, apart, to learn what scratch they take. plan.fits says whether the budget is enough. Throws as record_step
/// does.
PlannedStep plan_step(const Step& step, const TrainingOptions& options);

/// What a step gave.
struct StepResult {
  double loss = 0;           ///< mean over the micro batches, each by its samples
  double gradient_norm = 0;  ///< 2-norm of all gradients before clipping; not finite if the step was skipped
  /// A gradient was not finite: parameters and state are as they were. With updates in backward and max_grad_norm 0,
  /// what backward had updated before that gradient has changed; a loss that is not finite changes nothing.
  bool skipped = false;
};

/// Trains one Step: runs its plan inside the plan's arenas.
class Training {
 public:
  /// Records and plans (plan_step). plan().fits says whether the budget is enough.
  Training(const Step& step, const TrainingOptions& options);
  /// Runs what plan_step made of the same step and options; nothing is recorded or planned again.
  Training(const Step& step, const TrainingOptions& options, PlannedStep planned);
  ~Training();
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  /// Returns the current plan. It changes only if kernels turn out to take other scratch than was planned: in start(),
  /// or after the first step.
  const Plan& plan() const;
  /// Why the step was planned again the last time, and what changed, in one line; empty: the plan is the one that it
  /// began with.
  const std::string& plan_change() const;

  /// Takes the arena and initialises the model in it. Large kernels whose scratch no rule knows are run once before,
  /// apart; if they take scratch that was not planned, the step is planned again. Throws UserError(does_not_fit) unless
  /// plan().fits, MemoryUnavailable if the machine has less available now than the arena takes, UserError (failure) if
  /// the disk has.
  void start();

  /// One optimizer step over the micro batches: forward and backward of each, then the update. Tensors are on the CPU,
  /// with the sizes and dtype declared (or that which the precision has inputs in: bfloat16 with bf16-true); those of
  /// the last of several may have TrainingOptions::last_micro_batch as their first size, and then each micro batch's
  /// loss counts by its samples. After the first step the plan may be made anew with the scratch that kernels turned
  /// out to take; UserError(does_not_fit) if that is over the budget.
  StepResult step(const std::vector<std::map<std::string, at::Tensor>>& micro_batches, double learning_rate);

  /// The same with `count` micro batches that are asked for one at a time: what next(i) gives need live only until it
  /// is called again, or the step ends. `ragged`: the last of them has last_micro_batch samples.
  using MicroBatchSource = std::function<const std::map<std::string, at::Tensor>&(int64_t index)>;
  /// Runs one optimizer step over `count` micro batches from `next`; see above.
  StepResult step(int64_t count, const MicroBatchSource& next, double learning_rate, bool ragged = false);

  /// The loss of one micro batch, without gradients, the model in evaluation mode.
  double evaluate(const std::map<std::string, at::Tensor>& micro_batch);
  /// The same, and Step::evaluation's sums are added to `sums` (float64; made where they are not there yet).
  double evaluate(const std::map<std::string, at::Tensor>& micro_batch, std::map<std::string, at::Tensor>& sums);

  /// Times the chosen steps of those to come, op by op; the last of them writes the file. To be called before the first
  /// step. Throws UserError where the file cannot be written. With several ranks all call it, for the same steps; rank
  /// 0 writes the steps of all ranks to its file.
  void profile(const ProfileOptions& options);
  /// Writes the file with the steps that there were, where they were fewer than chosen; gives how many it has. 0: no
  /// step was timed, and there is no file. With several ranks all call it.
  int64_t write_profile();

  /// Looks through the arena for how far it was written to; for what is asked every step there is peak_bytes_used().
  MemoryUse used() const;
  int64_t peak_bytes_used() const;  ///< used().measured_peak(), at no cost
  /// Returns the number of optimizer steps, skipped steps included.
  int64_t steps_done() const;
  /// Returns the number of steps skipped for gradients that were not finite.
  int64_t steps_skipped() const;
  /// Returns the current loss scale; 1 without loss scaling.
  double loss_scale() const;

  /// The parameters, buffers and optimizer state by name, as tensors over the arena (or the host's). Valid until the
  /// next step() or evaluate(): with host memory a plan that is made anew may put them elsewhere.
  std::vector<std::pair<std::string, at::Tensor>> state();
  /// Tensors of state() that are this rank's slices, flat: by name the sizes of the whole, contiguous tensor that the
  /// slices of all ranks make one behind the other (the last one may have padding at its end). Empty with one rank.
  std::map<std::string, std::vector<int64_t>> slices() const;
  /// What else a resumed run needs, as text: step counters and the loss scale.
  std::map<std::string, std::string> counters() const;
  /// Restores what counters() returned.
  void restore_counters(const std::map<std::string, std::string>& counters);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Writes a started training to one safetensors file, whole or not at all: parameters, module buffers, optimizer state,
/// and the counters of steps and of the loss scale. Throws UserError (failure) if the disk refuses, and UserError
/// (usage) if the training is one of several ranks, which store slices.
void save_training(Training& training, const std::filesystem::path& file);

/// Reads a file of save_training() into a started training of the same step. Its next step has the bits that the saved
/// training's would have had. Reads all of it or, on an error, nothing; if another program cuts the file meanwhile,
/// floating-point numbers become not-a-number and whole numbers 0. Throws UserError (failure) for a file that is
/// missing, damaged or none of Plimsoll's, and UserError (usage) that names the differences if it is of another model
/// or optimizer.
void load_training(Training& training, const std::filesystem::path& file);

/// The most memory that this process has had resident, in bytes, as the operating system counts it.
int64_t peak_resident_bytes();

}  // namespace plimsoll
