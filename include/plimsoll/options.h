// Declares the options of a training: those that change its result, those that change only memory and time, and the
// device.
//
// A pattern is a shell glob on dotted names, in which `*` matches any characters, dots too: "layers.*.attention",
// "*.qkv", "layers.[0-3]". It matches a parameter by its name or by the name of a module that contains it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/cost_model.h"
#include "plimsoll/trace.h"

namespace plimsoll {

/// Number format of parameters and arithmetic, with Lightning's names.
enum class Precision : uint8_t {
  fp32_true,   ///< "32-true": everything float32
  fp16_mixed,  ///< "16-mixed": float32 parameters, autocast to float16, dynamic loss scaling
  bf16_mixed,  ///< "bf16-mixed": float32 parameters, autocast to bfloat16
  bf16_true,   ///< "bf16-true": bfloat16 parameters, gradients and state; the loss in float32
  automatic,   ///< "auto": the choice of plan_training()
};
/// Returns the name in a job file.
std::string_view name_of(Precision precision);

/// A choice that the user sets or leaves to the planner.
enum class Choice : uint8_t { off, on, automatic };

/// Storage format of the optimizer's running means. Bytes of each value, in the order of the list: the parameter's, 4,
/// 2, 1.008, 0.516. Tensors with fewer than 4096 elements keep float32 if a format of fewer bits is set: they cost
/// nothing.
enum class StateDtype : uint8_t {
  as_parameters,  ///< "parameters": the dtype of the parameter
  float32,        ///< "float32"
  bfloat16,       ///< "bfloat16"
  bits8,          ///< "8bit": 8-bit floats, one scale for 128 of them
  bits4,          ///< "4bit": 4-bit floats, one scale for 64 of them
  automatic,      ///< "auto": the planner's choice
};
/// Returns the name in a job file.
std::string_view name_of(StateDtype dtype);

/// Treatment of an update that is smaller than the last bit of a 16-bit parameter. No effect on float32 parameters.
enum class WeightUpdate : uint8_t {
  nearest,     ///< "nearest": the update is lost if it is below 1/256 of a bfloat16 parameter
  stochastic,  ///< "stochastic": rounded up or down at random, correct on average; no extra bytes
  kahan,       ///< "kahan": the rounding error is kept in a second value of the same dtype; 2 bytes a parameter
  split,       ///< "split": 16 more bits, which extend a bfloat16 parameter to float32; 2 bytes a parameter
  master,      ///< "master": a float32 copy is updated instead of the parameter; 4 bytes a parameter
  automatic,   ///< "auto": the planner's choice
};
/// Returns the name in a job file.
std::string_view name_of(WeightUpdate update);

/// Section `optimizer` of a job file.
struct OptimizerConfig {
  std::string name = "adamw";  ///< adamw | lion | sgd | adafactor | muon
  double learning_rate = 3e-4;
  std::optional<int64_t> reference_batch_size;   ///< sequences a step for which learning_rate was chosen
  double weight_decay = 0.1;                     ///< decoupled; not applied to norms and biases
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;  ///< adamw, lion; `optimizer.betas: [0.9, 0.95]`
  double momentum = 0.9;                         ///< sgd, muon
  StateDtype state_dtype = StateDtype::as_parameters;
  WeightUpdate weight_update = WeightUpdate::stochastic;
  /// muon: modules or parameters whose matrices get AdamW, by name; `*` stands for any characters, `?` for one. Meant
  /// for embeddings and heads; the weights of torch::nn::Embedding always get AdamW. Patterns that are not defaults
  /// must match something.
  std::vector<std::string> adamw_parameters = {"*embed*",  "*positions*", "head",  "head.*", "*.head",
                                               "*.head.*", "*lm_head*",   "*wte*", "*wpe*"};
};

/// Section `scheduler` of a job file: the learning rate of each step.
struct SchedulerConfig {
  std::string name = "cosine";        ///< constant | linear | cosine: after the warm-up
  std::optional<int64_t> steps = {};  ///< steps that the schedule is computed for; empty: those of the run
  int64_t warmup_steps = 0;
  std::optional<double>
      warmup_ratio;           ///< warm-up as a fraction of the schedule's steps, rounded up; instead of warmup_steps
  double min_lr_ratio = 0.1;  ///< learning rate at the schedule's last step and after it, as a fraction of
                              ///< learning_rate
};

/// Returns the rate of step `step` of `max_steps`, counted from 1:
///
///     rate |        ____
///          |      /      \           constant | linear | cosine
///          |    /          \ __
///          |  /                      <- min_lr_ratio x learning_rate, exactly, at step max_steps
///          +-------------------
///           1    warmup   max_steps
///
/// It rises linearly to `learning_rate`, which it reaches at step warmup_steps (at step 1 without a warm-up). A
/// constant schedule keeps that rate and ignores min_lr_ratio. After max_steps the rate is that of max_steps.
double learning_rate_at(const SchedulerConfig& config, double learning_rate, int64_t step, int64_t max_steps);

/// Dtype in which the gradients of a step's micro batches are summed.
enum class AccumulatorDtype : uint8_t {
  as_gradients,  ///< "gradients": the gradients' own dtype, that of the parameters
  float32,       ///< "float32"
  bfloat16,      ///< "bfloat16", rounded stochastically
  bits8,         ///< "8bit": 8-bit floats, one scale for 128 of them, rounded stochastically
  automatic,     ///< "auto": the planner's choice
};
/// Returns the name in a job file.
std::string_view name_of(AccumulatorDtype dtype);

/// Gradient accumulation: the first epoch of each entry, and micro batches a step from then on. Example: {0: 4, 4: 2,
/// 8: 1}.
using AccumulationSchedule = std::map<int64_t, int64_t>;

/// A limit in bytes for each memory. The job file, the planner and the arenas share this type.
struct Budget {
  std::optional<int64_t> device;  ///< bytes of the device's memory, `context` and `library` included; empty: no limit
  int64_t host = 0;               ///< bytes of host memory for offloaded values; 0: nothing is offloaded there
  int64_t disk = 0;               ///< bytes of disk for what host memory has no room for; 0: nothing is offloaded there
  int64_t context = 0;            ///< bytes that the device's runtime allocates for itself
  int64_t library = 0;            ///< bytes that the device's libraries reserve as workspace
  /// Bytes of resident memory that this process may have at any time, as the operating system counts them: the program,
  /// its libraries, the planner and the data, besides the arenas of the machine's memory. On the CPU `device` is then
  /// at most what the others leave. 0: the limit of the process's control group, or else what the machine has free.
  /// Empty: no limit.
  std::optional<int64_t> process;

  /// Returns `device` in bytes; 0: no limit.
  int64_t device_bytes() const { return device.value_or(0); }
  /// Compares all fields.
  bool operator==(const Budget&) const = default;
};

/// Low-rank adapters for linear layers (Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language Models"): y = W x
/// + alpha / rank B A dropout(x). A [rank, in] is random and B [out, rank] is zero at first.
struct LoraConfig {
  std::vector<std::string> modules;  ///< patterns; none: no adapters
  int64_t rank = 8;                  ///< rank; each layer has rank x (in + out) trainable values
  double alpha = 16;
  double dropout = 0;  ///< [0, 1): on the adapter's input
};

/// Quantization of linear layers in blocks of few bits with one scale each (Dettmers et al. 2023, "QLoRA: Efficient
/// Finetuning of Quantized LLMs"). Weights are dequantized for each use and frozen.
struct QuantizeConfig {
  std::vector<std::string> modules;  ///< patterns; none: nothing is quantized
  std::string format = "nf4";        ///< nf4: 4 bits a weight | int8: 8 bits; both with a float32 scale for 64 weights
  bool double_scales = false;        ///< true: scales of 8 bits, 0.13 instead of 0.5 bits a weight
};

/// A selection of trainable parameters, and the storage of the rest.
struct FineTuning {
  std::vector<std::string> freeze;  ///< patterns: no gradient, no optimizer state
  std::vector<std::string> train;   ///< patterns: trained although `freeze` or `lora` would leave it frozen
  LoraConfig lora;                  ///< with adapters, everything is frozen except the adapters and matches of `train`
  QuantizeConfig quantize;

  /// Returns whether any of these settings is used.
  bool any() const { return !freeze.empty() || !lora.modules.empty() || !quantize.modules.empty() || !train.empty(); }
};

/// Section `checkpoint` of a job file.
struct CheckpointConfig {
  std::filesystem::path directory;  ///< empty: no checkpoints
  int64_t every_n_steps = 0;        ///< interval in steps; 0: only at the end
  std::string resume = "auto";      ///< auto (the newest in the directory, if any) | never | a checkpoint's path
  int64_t keep = 2;                 ///< number of newest checkpoints that are kept; 0: all
  bool allow_other_data = false;    ///< true: a run goes on with other data than the checkpoint's, and notes it
};

/// Returns the checkpoints in `directory` by step: files named step-NUMBER.safetensors. Returns none if the folder does
/// not exist. Throws UserError (failure) if it cannot be listed.
std::map<int64_t, std::filesystem::path> checkpoints_in(const std::filesystem::path& directory);
/// Returns the remedy for a folder that is named instead of a checkpoint: the newest checkpoint in it, or a general
/// hint.
std::string checkpoint_advice(const std::filesystem::path& folder);

/// A range of steps to profile, and the output file. Each op of these steps costs two readings of the clock (about 0.1
/// µs) and 24 bytes of memory; the other steps cost nothing.
struct ProfileOptions {
  /// Output in Chrome's trace event format (JSON), for ui.perfetto.dev and chrome://tracing. It has about 300 bytes for
  /// each op and step, and is written completely or not at all.
  std::filesystem::path file;
  int64_t first_step = 2;  ///< counted from 1 in this run; the first step also measures scratch and allocates pages
  int64_t steps = 3;
};

/// Part of the training state that each of several ranks stores, with the names of PyTorch and of ZeRO (Rajbhandari et
/// al. 2020, "ZeRO: memory optimizations toward training trillion parameter models").
enum class Strategy : uint8_t {
  ddp,        ///< "ddp": everything on every rank
  zero1,      ///< "zero1": a slice of the optimizer state
  zero2,      ///< "zero2": a slice of optimizer state and gradients
  zero3,      ///< "zero3": a slice of optimizer state, gradients and parameters
  automatic,  ///< "auto": the planner's choice
};
/// Returns the name in a job file.
std::string_view name_of(Strategy strategy);

/// Opaque: the connection of a rank with the others (plimsoll/ranks.h).
class Exchange;

/// A rank's position among the ranks of a training, each with its own device. All ranks have the same options except
/// `rank`.
struct RankOptions {
  int64_t count = 1;  ///< ranks, at least 1
  int64_t rank = 0;   ///< number of this rank, in [0, count)
  Strategy strategy = Strategy::automatic;
  double whole_part = 0;  ///< zero3: fraction of the parameters' bytes, in [0, 1], that every rank stores completely,
                          ///< the smallest parameters first
  /// Compares all fields.
  bool operator==(const RankOptions&) const = default;
};

/// A set of options for a training step: its arithmetic, its budget in bytes, its device. plan_training() makes the
/// choices that are `automatic` or empty; record_step(), plan_step() and Training need all of them made.
struct TrainingOptions {
  Precision precision = Precision::fp32_true;
  /// Weight dtype: float32 | bfloat16 | float16; empty: set by the precision. Without mixed precision it is also the
  /// dtype of the arithmetic and of floating-point inputs.
  std::optional<DType> dtype;
  FineTuning fine_tuning;  ///< frozen, adapted and quantized modules
  OptimizerConfig optimizer;
  double max_grad_norm = 1.0;  ///< 0: gradients are not clipped
  // The batch of a step on each rank, for plan_training(), which sets accumulate, micro_batches and last_micro_batch by
  // it. batch_size = micro_batch_size x gradient_accumulation_steps (with a schedule: of epoch 0). Without a schedule
  // it may be less: then the last micro batch of a step is smaller.
  std::optional<int64_t> batch_size;  ///< samples of a step, over all micro batches; empty: those of its micro batches
  std::optional<int64_t> micro_batch_size;  ///< samples of a micro batch; empty: the planner's choice
  /// Empty: batch_size / micro_batch_size rounded up.
  std::optional<AccumulationSchedule> gradient_accumulation_steps;
  /// Micro batches, the step's own included, that the caller has in host memory. Their bytes are subtracted from
  /// budget.host by plan_training(). 0: they do not count.
  int64_t prefetched_micro_batches = 0;
  bool accumulate = false;  ///< true: a step may have more than one micro batch
  /// Dtype of the gradient accumulators. With anything but `as_gradients` a gradient lives only until it is added.
  AccumulatorDtype accumulator_dtype = AccumulatorDtype::as_gradients;
  int64_t last_micro_batch = 0;  ///< samples of a step's last micro batch if it may be smaller than the others: the
                                 ///< first size of every input is then the number of samples. 0: all are alike
  bool evaluate = false;         ///< true: evaluate() will be called
  Choice gradient_checkpointing = Choice::automatic;
  std::string checkpointed_module;  ///< `on`: only the blocks within this module ("llm"); empty: all
  Choice update_in_backward = Choice::automatic;
  Choice compile = Choice::automatic;  ///< fuse chains of pointwise ops; `automatic`: only if that saves time
  Budget budget;                       ///< budget of each rank
  RankOptions ranks;
  /// Connection with the other ranks, to run steps; null: only planning, or one rank.
  std::shared_ptr<Exchange> exchange;
  int64_t micro_batches = 1;  ///< micro batches of a step on each rank, as far as known: their cost counts this often
  std::filesystem::path disk_path;        ///< folder of the disk arena; empty: the working directory
  std::string device = "cpu";             ///< device whose casts and scratch are planned for
  int64_t threads = 0;                    ///< CPU threads; 0: OMP_NUM_THREADS, or as many as cores
  CostModel cost = generic_cost_model();  ///< rates by which recomputation and other choices are timed
  uint64_t seed = 0;                      ///< seed of initialization and of random operators
};

/// Returns the samples of a step's last micro batch if it is smaller than the others. 0: all are alike, or their size
/// is still open.
int64_t last_micro_batch_of(const TrainingOptions& options);

/// Returns the options with accumulate, micro_batches and last_micro_batch as they follow from the batch. Without a
/// batch they stay as they are.
TrainingOptions with_batch(TrainingOptions options);

/// The replacements of a recording. With one off, the operators are recorded as libtorch composes them, and have the
/// bits that they have without Plimsoll.
struct Replacements {
  /// aten::scaled_dot_product_attention is recorded as plimsoll::attention, which stores no attention matrix. Calls
  /// that plimsoll::attention does not cover are recorded as composed: masks that get a gradient, values of another
  /// width than keys, and on ROCm and MPS devices all masks that are tensors, and dropout.
  bool attention = true;
  /// A linear layer without bias and the mean or the sum of the cross entropy of its result are recorded as
  /// plimsoll::linear_cross_entropy, which never holds all logits. Not replaced: layers whose result has less than 4
  /// MiB in float32 or is read elsewhere, weights of classes, label smoothing, a loss for each token.
  bool cross_entropy = true;
  /// The planner may compute other losses of a large linear layer in chunks of rows, so that the layer's result is
  /// never whole, if the step does not fit or is slower otherwise. Cross entropies of such layers that
  /// plimsoll::linear_cross_entropy does not cover are recorded as losses of each row and a sum. The results are
  /// rounded differently.
  bool loss_rows = true;
};

}  // namespace plimsoll
