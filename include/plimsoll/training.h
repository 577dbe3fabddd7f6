// Train a torch::nn::Module of your own inside a memory budget.
//
//     plimsoll::Step step;
//     step.model = [] { return std::make_shared<Net>(); };
//     step.inputs = {{"x", {64, 10}, torch::kFloat32}, {"y", {64}, torch::kInt64}};
//     step.loss = [](torch::nn::Module& m, const plimsoll::StepInputs& in) { … return a scalar; };
//     plimsoll::Training training(step, {.memory_budget = plimsoll::parse_bytes("64MiB")});
//     training.start();
//     auto result = training.step({{{"x", x}, {"y", y}}}, /*learning_rate=*/1e-3);
#pragma once

#include <torch/nn/module.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "plimsoll/job.h"
#include "plimsoll/plan.h"
#include "plimsoll/profile.h"

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
  void set(const std::string& name, at::Tensor tensor) { tensors_[name] = std::move(tensor); }
  const at::Tensor& operator[](const std::string& name) const;

 private:
  std::map<std::string, at::Tensor> tensors_;
};

/// What an evaluation gives for one micro batch.
struct Evaluation {
  at::Tensor loss;  ///< as Step::loss
  /// Tensors of floating type by name, to be summed over an evaluation's micro batches: counts, sums of products.
  std::vector<std::pair<std::string, at::Tensor>> sums;
};

/// What is trained: a model, what a micro batch consists of, and the loss.
struct Step {
  /// Makes the model. Called on the plan device: parameters and buffers take no memory, their initialisation is
  /// recorded.
  std::function<std::shared_ptr<torch::nn::Module>()> model;
  std::vector<InputSpec> inputs;
  /// The mean loss of a micro batch: a scalar of floating type, in float32 where precision is low.
  std::function<at::Tensor(torch::nn::Module& model, const StepInputs& inputs)> loss;
  /// What is computed for evaluation in place of the loss alone; empty: the loss.
  std::function<Evaluation(torch::nn::Module& model, const StepInputs& inputs)> evaluation = {};
  /// The metrics that the sums over all micro batches (float64) come to, by name, in the order they are to be shown.
  std::function<std::vector<std::pair<std::string, double>>(const std::map<std::string, at::Tensor>& sums)> metrics =
      {};
};

/// An input of this name, float32 [B], says which samples count: 1, or 0 for what only fills up the last micro batch of
/// an evaluation. Its step weighs loss and sums by it.
inline constexpr const char* kCounted = "counted";

struct TrainingOptions {
  Precision precision = Precision::fp32_true;
  /// float32 | bfloat16 | float16: of the model's weights; empty: as the precision has it. Without mixed precision the
  /// arithmetic is done in it, and floating-point inputs come in as it.
  std::optional<DType> dtype;
  FineTuning fine_tuning;  ///< what is frozen, adapted, quantised
  OptimizerConfig optimizer;
  double max_grad_norm = 1.0;  ///< 0: gradients are not clipped
  bool accumulate = false;     ///< steps of more than one micro batch
  /// What their gradients are summed in; with anything but `as_gradients` a gradient lives only until it is added.
  AccumulatorDtype accumulator_dtype = AccumulatorDtype::as_gradients;
  int64_t last_micro_batch = 0;  ///< samples of a step's last micro batch where it may have fewer than the others: then
                                 ///< the first size of every input is the samples'. 0: all are alike
  bool evaluate = false;         ///< evaluate() will be called
  Choice gradient_checkpointing = Choice::automatic;
  std::string checkpointed_module;  ///< `on`: only the blocks within this module ("llm"); empty: all
  Choice update_in_backward = Choice::automatic;
  Choice compile = Choice::automatic;     ///< fuse chains of pointwise ops; `automatic`: where that gains something
  std::optional<int64_t> memory_budget;   ///< bytes
  int64_t micro_batches = 1;              ///< of a step, as far as is known: what they cost counts so often
  int64_t host_memory_budget = 0;         ///< bytes that what does not fit may take in host memory; 0: none
  int64_t disk_budget = 0;                ///< bytes that what host memory has no room for may take on disk; 0: none
  std::filesystem::path disk_path;        ///< the folder for it; empty: the working directory
  std::string device = "cpu";             ///< whose casts and scratch are planned for
  int threads = 0;                        ///< CPU threads; 0: OMP_NUM_THREADS, or as many as cores
  CostModel cost = generic_cost_model();  ///< what recomputation is weighed by
  int64_t context_bytes = 0;              ///< what the device's runtime takes, inside the budget
  int64_t library_bytes = 0;              ///< what its libraries set aside, likewise
  uint64_t seed = 0;                      ///< of initialisation and of random operators
};

/// Records a training step without running it: segments initialize, micro, and as asked for accumulate, remainder,
/// update, evaluate. Throws UserError for what cannot be recorded, naming operator and module.
Trace record_step(const Step& step, const TrainingOptions& options);

/// What a step gave.
struct StepResult {
  double loss = 0;           ///< mean over the micro batches, each by its samples
  double gradient_norm = 0;  ///< 2-norm of all gradients before clipping; not finite if the step was skipped
  /// A gradient was not finite: parameters and state are as they were. With updates in backward and max_grad_norm 0,
  /// what backward had updated before that gradient has changed; a loss that is not finite changes nothing.
  bool skipped = false;
};

/// Bytes in use, counted.
struct MemoryUse {
  int64_t arena = 0;      ///< the highest byte of the arena that an op so far was given
  int64_t touched = 0;    ///< the highest byte of the arena that has been written to
  int64_t workspace = 0;  ///< the most that kernels took beside the arena at a time
  int64_t peak = 0;       ///< the most of both at a time
  int64_t host = 0;       ///< the highest byte of the host's arena that a copy or an op so far was given
  int64_t disk = 0;       ///< the same of the disk's; not host memory: pages are written back and dropped
  /// How often kernels took memory beside the arenas since start(); of this process, other trainings included.
  int64_t outside_allocations = 0;
  int64_t measured_peak() const { return peak; }
};

class Training {
 public:
  /// Records and plans; takes no memory for tensors, but where the device is here runs small kernels once, apart, to
  /// learn what scratch they take. plan().fits says whether the budget is enough.
  Training(const Step& step, const TrainingOptions& options);
  ~Training();
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  const Plan& plan() const;

  /// Takes the arena and initialises the model in it. Kernels whose scratch no rule knows are run once before, apart,
  /// and the plan is made with what they take. Throws UserError(does_not_fit) unless plan().fits, MemoryUnavailable if
  /// the machine has less available now than the arena takes, UserError (failure) if the disk has.
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
  StepResult step(int64_t count, const MicroBatchSource& next, double learning_rate, bool ragged = false);

  /// The loss of one micro batch, without gradients, the model in evaluation mode.
  double evaluate(const std::map<std::string, at::Tensor>& micro_batch);
  /// The same, and Step::evaluation's sums are added to `sums` (float64; made where they are not there yet).
  double evaluate(const std::map<std::string, at::Tensor>& micro_batch, std::map<std::string, at::Tensor>& sums);

  /// Times the chosen steps of those to come, op by op; the last of them writes the file. To be called before the first
  /// step. Throws UserError where the file cannot be written.
  void profile(const ProfileOptions& options);
  /// Writes the file with the steps that there were, where they were fewer than chosen; gives how many it has. 0: no
  /// step was timed, and there is no file.
  int64_t write_profile();

  /// Looks through the arena for how far it was written to; for what is asked every step there is peak_bytes_used().
  MemoryUse used() const;
  int64_t peak_bytes_used() const;  ///< used().measured_peak(), at no cost
  int64_t steps_done() const;
  int64_t steps_skipped() const;
  double loss_scale() const;

  /// The parameters, buffers and optimizer state by name, as tensors over the arena (or the host's). Valid until the
  /// next step() or evaluate(): with host memory a plan that is made anew may put them elsewhere.
  std::vector<std::pair<std::string, at::Tensor>> state();
  /// What else a resumed run needs, as text: step counters and the loss scale.
  std::map<std::string, std::string> counters() const;
  void restore_counters(const std::map<std::string, std::string>& counters);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The most memory that this process has had resident, in bytes, as the operating system counts it.
int64_t peak_resident_bytes();

}  // namespace plimsoll
