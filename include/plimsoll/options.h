// What a training is asked for: what changes its result, what changes its memory and time alone, and where it runs.
//
// A pattern is a shell glob on dotted names, in which `*` stands for any characters, dots too: "layers.*.attention",
// "*.qkv", "layers.[0-3]". It matches a parameter by its name or by the name of a module that it lies in.
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

/// Numeric formats of parameters and arithmetic, named as Lightning names them.
enum class Precision : uint8_t {
  fp32_true,   ///< "32-true": everything float32
  fp16_mixed,  ///< "16-mixed": float32 parameters, autocast to float16, dynamic loss scaling
  bf16_mixed,  ///< "bf16-mixed": float32 parameters, autocast to bfloat16
  bf16_true,   ///< "bf16-true": bfloat16 parameters, gradients and state; the loss in float32
};
/// Returns the name, as in a job file.
std::string_view name_of(Precision precision);

/// A choice that the user pins or leaves to the planner.
enum class Choice : uint8_t { off, on, automatic };

/// How the optimizer's running means are kept. Bytes of each value: as the parameter's, 4, 2, 1.008, 0.516. Tensors of
/// fewer than 4096 elements keep float32 where fewer bits are asked for: they cost nothing.
enum class StateDtype : uint8_t {
  as_parameters,  ///< "parameters": the type of the parameter that they belong to
  float32,        ///< "float32"
  bfloat16,       ///< "bfloat16"
  bits8,          ///< "8bit": small floats, a scale for 128 of them
  bits4,          ///< "4bit": small floats, a scale for 64 of them
  automatic,      ///< "auto": the planner's choice
};
/// Returns the name, as in a job file.
std::string_view name_of(StateDtype dtype);

/// How a parameter of 16 bits takes up an update that is smaller than its last bit. Of no effect on float32 parameters.
enum class WeightUpdate : uint8_t {
  nearest,     ///< "nearest": it does not, and updates below 1/256 of a bfloat16 parameter are lost
  stochastic,  ///< "stochastic": rounded up or down at random, right on average; no bytes
  kahan,       ///< "kahan": what rounding took is kept in a second value of the same type; 2 bytes a parameter
  split,       ///< "split": 16 more bits, with which a bfloat16 parameter is a float32 one; 2 bytes
  master,      ///< "master": a float32 copy that is updated in its place; 4 bytes
  automatic,   ///< "auto": the planner's choice
};
/// Returns the name, as in a job file.
std::string_view name_of(WeightUpdate update);

/// Section `optimizer` of a job file.
struct OptimizerConfig {
  std::string name = "adamw";  ///< adamw | lion | sgd | adafactor | muon
  double learning_rate = 3e-4;
  std::optional<int64_t> reference_batch_size;   ///< sequences of the step that learning_rate was chosen for
  double weight_decay = 0.1;                     ///< decoupled; not applied to norms and biases
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;  ///< adamw, lion; `optimizer.betas: [0.9, 0.95]`
  double momentum = 0.9;                         ///< sgd, muon
  StateDtype state_dtype = StateDtype::as_parameters;
  WeightUpdate weight_update = WeightUpdate::stochastic;
  /// muon: modules or parameters whose matrices get AdamW, by name; `*` stands for any characters, `?` for one.
  /// Embeddings and heads; the weights of torch::nn::Embedding always are. Patterns beside these must match something.
  std::vector<std::string> adamw_parameters = {"*embed*",  "*positions*", "head",  "head.*", "*.head",
                                               "*.head.*", "*lm_head*",   "*wte*", "*wpe*"};
};

/// Section `scheduler` of a job file: the learning rate of each step.
struct SchedulerConfig {
  std::string name = "cosine";  ///< constant | linear | cosine: after the warm-up
  int64_t warmup_steps = 0;
  double min_lr_ratio = 0.1;  ///< of the learning rate, at max_steps
};

/// What the gradients of a step's micro batches are summed in.
enum class AccumulatorDtype : uint8_t {
  as_gradients,  ///< "gradients": as they come, in the parameters' type
  float32,       ///< "float32"
  bfloat16,      ///< "bfloat16", rounded stochastically
  bits8,         ///< "8bit": small floats, a scale for 128 of them, rounded stochastically
  automatic,     ///< "auto": the planner's choice
};
/// Returns the name, as in a job file.
std::string_view name_of(AccumulatorDtype dtype);

/// Gradient accumulation: micro batches a step, from an epoch on. {0: 4, 4: 2, 8: 1}.
using AccumulationSchedule = std::map<int64_t, int64_t>;

/// Bytes that a training may take, by memory. One struct from the job file to the arena.
struct Budget {
  std::optional<int64_t> device;  ///< of the device's memory, `context` and `library` included; empty: no limit
  int64_t host = 0;               ///< of host memory, for what the device has no room for; 0: nothing is moved there
  int64_t disk = 0;               ///< of a disk, for what host memory has no room for; 0: nothing is moved there
  int64_t context = 0;            ///< what the device's runtime takes for itself
  int64_t library = 0;            ///< what the device's libraries set aside, as workspace

  /// Returns `device`; 0: no limit.
  int64_t device_bytes() const { return device.value_or(0); }
  /// Compares all fields.
  bool operator==(const Budget&) const = default;
};

/// Low-rank adapters beside linear layers (Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language Models"):
/// y = W x + alpha / rank B A dropout(x), with A [rank, in] at random and B [out, rank] zeros at first.
struct LoraConfig {
  std::vector<std::string> modules;  ///< patterns; none: no adapters
  int64_t rank = 8;                  ///< rank x (in + out) numbers are learned a layer
  double alpha = 16;
  double dropout = 0;  ///< [0, 1): of the adapter's input
};

/// Weights of linear layers in blocks of few bits, each with its own scale, taken apart as they are used (Dettmers et
/// al. 2023, "QLoRA: Efficient Finetuning of Quantized LLMs"). They are frozen.
struct QuantizeConfig {
  std::vector<std::string> modules;  ///< patterns; none: nothing is quantised
  std::string format = "nf4";        ///< nf4: 4 bits a weight | int8: 8 bits; and a float32 scale for 64 weights
  bool double_scales = false;        ///< the scales in 8 bits too: 0.13 instead of 0.5 bits a weight
};

/// The trained part of a model, and how the rest is stored.
struct FineTuning {
  std::vector<std::string> freeze;  ///< patterns: no gradient, no optimizer state
  std::vector<std::string> train;   ///< patterns: trained although `freeze` or `lora` would leave it frozen
  LoraConfig lora;                  ///< with adapters everything but them, and what `train` names, is frozen
  QuantizeConfig quantize;

  /// Returns whether any of it is used.
  bool any() const { return !freeze.empty() || !lora.modules.empty() || !quantize.modules.empty() || !train.empty(); }
};

/// Section `checkpoint` of a job file.
struct CheckpointConfig {
  std::filesystem::path directory;  ///< empty: no checkpoints
  int64_t every_n_steps = 0;        ///< 0: only at the end
  std::string resume = "auto";      ///< auto (the newest in the directory, if any) | never | a checkpoint's path
  int64_t keep = 2;                 ///< how many of the newest are kept; 0: all
};

/// Returns the checkpoints in `directory` by step: files named step-NUMBER.safetensors. None where there is no such
/// folder. Throws UserError (failure) if it cannot be listed.
std::map<int64_t, std::filesystem::path> checkpoints_in(const std::filesystem::path& directory);
/// For a message about a folder that stands where a checkpoint's file should: which file in it to name.
std::string checkpoint_advice(const std::filesystem::path& folder);

/// The steps of a profile, and its file. Each op of these steps costs two readings of the clock (about 0.1 µs) and 24
/// bytes of memory; the other steps cost nothing.
struct ProfileOptions {
  /// Chrome's trace event format (JSON), which ui.perfetto.dev and chrome://tracing show. Some 300 bytes an op and
  /// step; whole or absent.
  std::filesystem::path file;
  int64_t first_step = 2;  ///< counted from 1, over this run; in the first, scratch is learned and pages are made
  int64_t steps = 3;
};

/// What each of several ranks stores of the training state, by the names of PyTorch and of ZeRO (Rajbhandari et al.
/// 2020, "ZeRO: memory optimizations toward training trillion parameter models").
enum class Strategy : uint8_t {
  ddp,        ///< "ddp": everything on every rank
  zero1,      ///< "zero1": a slice of the optimizer state
  zero2,      ///< "zero2": a slice of optimizer state and gradients
  zero3,      ///< "zero3": a slice of optimizer state, gradients and parameters
  automatic,  ///< "auto": the planner's choice
};
/// Returns the name, as in a job file.
std::string_view name_of(Strategy strategy);

/// Opaque: the connection of a rank with the others (plimsoll/ranks.h).
class Exchange;

/// The ranks of a training, each with a device of its own. All ranks have the same options except `rank`.
struct RankOptions {
  int64_t count = 1;  ///< ranks, at least 1
  int64_t rank = 0;   ///< this one, in [0, count)
  Strategy strategy = Strategy::automatic;
  double whole_part = 0;  ///< zero3: part of the parameters' bytes, in [0, 1], that every rank stores whole: the
                          ///< smallest parameters first
  /// Compares all fields.
  bool operator==(const RankOptions&) const = default;
};

/// Settings of a training step: its arithmetic, its budget in bytes, its device.
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
  Choice compile = Choice::automatic;  ///< fuse chains of pointwise ops; `automatic`: where that gains something
  Budget budget;                       ///< of each rank
  RankOptions ranks;
  std::shared_ptr<Exchange> exchange;  ///< with the other ranks, to run steps; null: a plan alone, or one rank
  int64_t micro_batches = 1;           ///< of a step on each rank, as far as is known: what they cost counts so often
  std::filesystem::path disk_path;     ///< the folder for it; empty: the working directory
  std::string device = "cpu";          ///< whose casts and scratch are planned for
  int threads = 0;                     ///< CPU threads; 0: OMP_NUM_THREADS, or as many as cores
  CostModel cost = generic_cost_model();  ///< what recomputation is weighed by
  uint64_t seed = 0;                      ///< of initialisation and of random operators
};

}  // namespace plimsoll
