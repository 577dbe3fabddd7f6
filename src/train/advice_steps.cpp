#include "train/advice_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

#include "fine_tuning/fine_tune.h"
#include "job/keys/kinds.h"
#include "plimsoll/job.h"

namespace plimsoll {
namespace {

// Largest number of halvings of one dimension of the samples (for example the sequence length).
constexpr int kHalvings = 3;
constexpr int64_t kMinSequenceLength = 16;
constexpr int64_t kMinRank = 4;

class Steps {
 public:
  Steps(const Job& job, const PeakMemoryModel& memory, const PlanTarget& target)
      : job_(job), memory_(memory), target_(target) {}

  std::vector<AdviceStep> all() {
    precision();
    weights();
    state();
    accumulators();
    quantization();
    rank();
    samples();
    optimizer();
    model();
    return std::move(steps_);
  }

 private:
  using Effect = std::function<void(PeakMemoryModel&)>;

  void add(std::vector<std::string> overrides, std::string meaning, double quality_cost, Effect effect) {
    steps_.push_back({family_, std::move(overrides), std::move(meaning), quality_cost, std::move(effect)});
  }

  void precision() {
    ++family_;
    if (job_.precision == Precision::automatic || job_.precision == Precision::bf16_true)
      return;  // the planner has tried every precision, or the job has the smallest
    const bool typed = job_.dtype.has_value();
    if (job_.precision == Precision::fp32_true) {
      const Effect mixed = [=](PeakMemoryModel& memory) {
        memory.activations *= 0.55;  // values that need precision stay in 32 bits
        // fine_tune() holds frozen linear weights in 16 bits then, unless the job sets their dtype.
        if (!typed) memory.halve(&PeakMemoryModel::frozen_linear_wide, &PeakMemoryModel::frozen_linear_half);
      };
      if (target_.cost.bfloat16)
        add({"precision=bf16-mixed"}, "arithmetic in bfloat16, sums and weights in float32", 0.6, mixed);
      else
        add({"precision=16-mixed"}, "arithmetic in float16, with loss scaling", 0.8, mixed);
    }
    if (!target_.cost.bfloat16) return;
    const bool wide = job_.precision == Precision::fp32_true;
    add({"precision=bf16-true"}, "weights, gradients and optimizer state in bfloat16 as well", 2.5,
        [=](PeakMemoryModel& memory) {
          if (wide) memory.activations *= 0.5;
          memory.halve(&PeakMemoryModel::frozen_linear_wide, &PeakMemoryModel::frozen_linear_half);
          memory.halve(&PeakMemoryModel::frozen_other_wide, &PeakMemoryModel::frozen_other_half);
          memory.halve(&PeakMemoryModel::trained_wide, &PeakMemoryModel::trained_half);
          memory.gradients /= 2;
          memory.state /= 2;
        });
  }

  // Sets the dtype of the weights. Without mixed precision the arithmetic has the same dtype.
  void weights() {
    ++family_;
    if (!target_.cost.bfloat16 || memory_.parameters() <= 0) return;
    const auto half = [](PeakMemoryModel& memory) {
      memory.halve(&PeakMemoryModel::frozen_linear_wide, &PeakMemoryModel::frozen_linear_half);
      memory.halve(&PeakMemoryModel::frozen_other_wide, &PeakMemoryModel::frozen_other_half);
    };
    const bool wide = memory_.frozen_linear_wide + memory_.frozen_other_wide + memory_.trained_wide > 0;
    if (!wide) return;
    if (const auto& part = job::model_kind(job_.model.type).part_dtype;
        part && part->value(job_) != DType::bfloat16 && !job_.dtype) {
      add({fmt::format("{}=bfloat16", part->key)}, fmt::format("{} in bfloat16", part->meaning),
          memory_.trains_linear ? 1.5 : 0.4, half);
      steps_.back().mixed_only = true;
    }
    if (job_.dtype == DType::bfloat16) return;
    const bool trained = memory_.trained_wide > 0,
               split = trained && job_.optimizer.weight_update != WeightUpdate::split;
    std::vector<std::string> overrides = {"model.dtype=bfloat16"};
    if (split) overrides.emplace_back("optimizer.weight_update=split");
    add(std::move(overrides),
        trained ? "weights in bfloat16, trained ones with 16 more bits for updates" : "frozen weights in bfloat16", 0.6,
        [=](PeakMemoryModel& memory) {
          half(memory);
          memory.gradients /= 2;
          // Trained weights stay as large: bfloat16, and 16 more bits that only updates use.
        });
    steps_.back().mixed_only = true;
  }

  void state() {
    ++family_;
    if (memory_.state <= 0) return;
    const StateDtype now = job_.optimizer.state_dtype;
    // Bytes of a value now. A block of 128 values in 8 bits, or of 64 values in 4 bits, has one more byte: its scale.
    double bytes = 4;
    switch (now) {
      case StateDtype::automatic:
      case StateDtype::bits4:
        return;
      case StateDtype::as_parameters:
        bytes = memory_.trained_wide > 0 ? 4 : 2;
        break;
      case StateDtype::float32:
        break;
      case StateDtype::bfloat16:
        bytes = 2;
        break;
      case StateDtype::bits8:
        bytes = 1.008;
        break;
    }
    const auto shrunk = [=](double to) { return [=](PeakMemoryModel& memory) { memory.state *= to / bytes; }; };
    if (now != StateDtype::bits8) add({"optimizer.state_dtype=8bit"}, "optimizer state in 8 bits", 0.7, shrunk(1.008));
    add({"optimizer.state_dtype=4bit"}, "optimizer state in 4 bits", 2, shrunk(0.516));
  }

  void accumulators() {
    ++family_;
    const bool accumulates =
        job_.gradient_accumulation_steps
            ? std::ranges::any_of(*job_.gradient_accumulation_steps, [](const auto& each) { return each.second > 1; })
            : *job_.batch_size > 1;
    const AccumulatorDtype now = job_.accumulator_dtype;
    if (!accumulates || memory_.gradients <= 0 || now == AccumulatorDtype::automatic || now == AccumulatorDtype::bits8)
      return;
    const double bytes = now == AccumulatorDtype::bfloat16                                    ? 2
                         : now == AccumulatorDtype::as_gradients && memory_.trained_wide <= 0 ? 2
                                                                                              : 4;
    if (bytes > 2)
      add({"gradient_accumulation_dtype=bfloat16"}, "gradient accumulators in bfloat16", 0.7,
          [=](PeakMemoryModel& memory) { memory.gradients *= 2 / bytes; });
    add({"gradient_accumulation_dtype=8bit"}, "gradient accumulators in 8 bits", 1,
        [=](PeakMemoryModel& memory) { memory.gradients *= 1.008 / bytes; });
  }

  // Quantizes frozen weights of linear layers in blocks. The bits of a weight include its part of the block's scale.
  void quantization() {
    ++family_;
    const QuantizeConfig& now = job_.fine_tuning.quantize;
    if (!now.modules.empty()) {
      // The quantized blocks are part of `rest`. The shares are estimates of the part of `rest` that remains.
      const auto scale_rest = [](double share) { return [=](PeakMemoryModel& memory) { memory.rest *= share; }; };
      if (now.format != "nf4")
        add({"quantize.format=nf4"}, "the blocks' weights in 4 bits instead of 8", 0.8, scale_rest(0.6));
      else if (!now.double_scales)
        add({"quantize.double_scales=true"}, "the blocks' scales in 8 bits", 0.2, scale_rest(0.95));
      if (now.format != "nf4" && !now.double_scales)
        add({"quantize.format=nf4", "quantize.double_scales=true"}, "the blocks' weights in 4 bits, their scales in 8",
            0.9, scale_rest(0.55));
      return;
    }
    const std::string layers = decoder_layers_of(job_);
    if (layers.empty() || memory_.trains_linear || memory_.frozen_linear_wide + memory_.frozen_linear_half <= 0) return;
    const std::string modules = "quantize.modules=" + layers;
    const std::string whose = layers == "layers" ? "frozen weights" : "the language model's frozen weights";
    add({modules, "quantize.format=int8"}, whose + " in 8 bits", 1.6,
        [](PeakMemoryModel& memory) { memory.quantize(8.5); });
    add({modules}, whose + " in 4 bits (NF4)", 2, [](PeakMemoryModel& memory) { memory.quantize(4.5); });
    add({modules, "quantize.double_scales=true"}, whose + " in 4 bits (NF4), the blocks' scales in 8", 2.1,
        [](PeakMemoryModel& memory) { memory.quantize(4.13); });
  }

  void rank() {
    ++family_;
    const LoraConfig& lora = job_.fine_tuning.lora;
    if (lora.modules.empty()) return;
    double quality_cost = 1, share = 1;
    for (int64_t rank = lora.rank / 2; rank >= kMinRank; rank /= 2, quality_cost += 0.5) {
      share /= 2;
      add({fmt::format("lora.rank={}", rank)}, fmt::format("adapters of rank {} instead of {}", rank, lora.rank),
          quality_cost, [=](PeakMemoryModel& memory) {
            memory.trained_wide *= share;
            memory.trained_half *= share;
            memory.gradients *= share;
            memory.state *= share;
          });
    }
  }

  static Effect smaller_samples(double share) {
    return [=](PeakMemoryModel& memory) {
      memory.activations *= share;
      memory.inputs *= share;
    };
  }

  void samples() {
    for (const job::ReducibleKey& reducible : job::model_kind(job_.model.type).reducible_keys) {
      if (reducible.sample_power == 0) continue;
      ++family_;
      const int64_t now = reducible.value(job_);
      const int64_t least = reducible.key == "data.sequence_length" ? kMinSequenceLength : 1;
      int64_t last = now;
      for (int halving = 1; halving <= kHalvings; ++halving) {
        const int64_t value = (now >> halving) / reducible.multiple * reducible.multiple;
        if (value < least || value >= last) break;
        last = value;
        const double part = static_cast<double>(value) / static_cast<double>(now);
        double share = part;
        for (int power = 1; power < reducible.sample_power; ++power) share *= part;
        add({fmt::format("{}={}", reducible.key, value)},
            fmt::format("{}: {} instead of {}", reducible.meaning, value, now), 3.0 + 1.5 * (halving - 1),
            smaller_samples(share));
      }
    }
    const auto& fraction = job::model_kind(job_.model.type).reducible_fraction;
    if (!fraction) return;
    ++family_;
    const double now = fraction->value(job_);
    for (int halving = 1; halving <= kHalvings; ++halving) {
      const double ratio = now / (1 << halving);
      add({fmt::format("{}={}", fraction->key, ratio)},
          fmt::format("{:.3g} % {} instead of {:.3g} %", 100 * ratio, fraction->meaning, 100 * now),
          3.0 + 1.5 * (halving - 1), smaller_samples(ratio / now));
    }
  }

  void optimizer() {
    ++family_;
    if (memory_.state <= 0 || (job_.optimizer.name != "adamw" && job_.optimizer.name != "lion")) return;
    add({"optimizer.name=adafactor"}, "an optimizer with almost no state", 3.2,
        [](PeakMemoryModel& memory) { memory.state *= 0.02; });
  }

  // Reduces the widths and the number of layers of the model. Weights and configuration files of an existing model fix
  // them: no step is added then.
  void model() {
    const ModelConfig& given = job_.model;
    for (const auto* path : {&given.weights, &given.config, &given.llm_weights, &given.llm_config,
                             &given.vision_weights, &given.vision_config})
      if (!path->empty()) return;
    for (const job::ReducibleKey& reducible : job::model_kind(given.type).reducible_keys) {
      if (reducible.sample_power != 0 || !reducible.key.starts_with("model.")) continue;
      ++family_;
      const int64_t now = reducible.value(job_);
      int64_t last = now;
      double quality_cost = 6;
      for (const auto& [part, of] : {std::pair<int64_t, int64_t>{3, 4}, {1, 2}, {1, 4}, {1, 8}}) {
        const int64_t value = now * part / of / reducible.multiple * reducible.multiple;
        if (value < 1 || value >= last) continue;
        last = value;
        const double share = static_cast<double>(value) / static_cast<double>(now);
        add({fmt::format("{}={}", reducible.key, value)},
            fmt::format("{}: {} instead of {}", reducible.meaning, value, now), quality_cost,
            [=](PeakMemoryModel& memory) {
              for (double PeakMemoryModel::*each :
                   {&PeakMemoryModel::frozen_linear_wide, &PeakMemoryModel::frozen_linear_half,
                    &PeakMemoryModel::trained_wide, &PeakMemoryModel::trained_half, &PeakMemoryModel::gradients,
                    &PeakMemoryModel::state, &PeakMemoryModel::activations})
                memory.*each *= share;
            });
        quality_cost += 1.5;
      }
    }
  }

  const Job& job_;
  const PeakMemoryModel& memory_;
  const PlanTarget& target_;
  int family_ = 0;
  std::vector<AdviceStep> steps_;
};

}  // namespace

std::vector<AdviceStep> open_choice_steps(const Job& job) {
  std::vector<AdviceStep> steps;
  // Families are negative here: those of advice_steps() begin at 1.
  const auto leave_open = [&](std::vector<std::string> overrides, std::string meaning) {
    steps.push_back({-1 - static_cast<int>(steps.size()), std::move(overrides), std::move(meaning), 0, {}});
  };
  if (job.gradient_checkpointing != Choice::automatic)
    leave_open({"gradient_checkpointing=auto"}, "recomputation chosen by the planner");
  else if (const auto& module = job::model_kind(job.model.type).checkpointed_module; module && module->value(job))
    leave_open({fmt::format("{}=false", module->key)}, "recomputation chosen by the planner");
  if (job.update_in_backward != Choice::automatic)
    leave_open({"update_in_backward=auto"}, "updates in backward chosen by the planner");
  if (job.compile == Choice::off) leave_open({"compile=auto"}, "fused operators chosen by the planner");
  if (!job.micro_batch_size || *job.batch_size <= 1) return steps;
  const AccumulationSchedule& accumulation = *job.gradient_accumulation_steps;
  // In a job file with micro_batch_size, batch_size is that of all devices together. Job::batch_size is per device.
  const std::string batch = fmt::format("batch_size={}", *job.batch_size * job.ranks.count);
  if (accumulation.size() == 1) {
    leave_open({batch, "micro_batch_size=auto", "gradient_accumulation_steps=auto"},
               "the same batch in micro batches that fit");
  } else if (*job.micro_batch_size > 1) {
    // The number of micro batches depends on the epoch. Each epoch's batch stays the same: micro batches of 1, and
    // `micro_batch_size` times as many.
    std::string schedule;
    for (const auto& [epoch, count] : accumulation)
      schedule += fmt::format("{}{}: {}", schedule.empty() ? "" : ", ", epoch, count * *job.micro_batch_size);
    leave_open({batch, "micro_batch_size=1", "gradient_accumulation_steps={" + schedule + "}"},
               "the same batches in micro batches of one");
  }
  return steps;
}

std::vector<AdviceStep> advice_steps(const Job& job, const PeakMemoryModel& memory, const PlanTarget& target) {
  return Steps(job, memory, target).all();
}

std::string decoder_layers_of(const Job& job) {
  return job::model_kind(job.model.type).decoder_layers;
}

PeakMemoryModel peak_memory_of(const PlannedJob& planned, const std::string& decoder_layers) {
  const Trace& trace = planned.recorded;
  std::vector<char> updated(trace.buffers.size(), 0);
  for (const Op& op : trace.ops)
    if (op.phase == Phase::update)
      for_each_view(op, [&](const View& view, bool written) {
        if (written) updated[view.buffer] = 1;
      });
  PeakMemoryModel memory;
  std::set<BufferId> known;
  for (const NamedView& entry : trace.state) {
    const auto& [name, view, whole_sizes] = entry;
    if (trace.buffers[view.buffer].role != Role::parameter || !known.insert(view.buffer).second) continue;
    const auto bytes = static_cast<double>(trace.buffers[view.buffer].bytes);
    const bool wide = view.dtype == DType::float32,
               half = view.dtype == DType::bfloat16 || view.dtype == DType::float16;
    if (!wide && !half) continue;  // quantized blocks, counters
    const bool layers = name.starts_with(decoder_layers + ".") && view.sizes.size() == 2;
    memory.trains_linear |= layers && updated[view.buffer] && name.ends_with(".weight");
    if (updated[view.buffer])
      (wide ? memory.trained_wide : memory.trained_half) += bytes;
    else if (layers)
      (wide ? memory.frozen_linear_wide : memory.frozen_linear_half) += bytes;
    else
      (wide ? memory.frozen_other_wide : memory.frozen_other_half) += bytes;
  }
  const Breakdown& at_peak = planned.plan.breakdown;
  memory.gradients = static_cast<double>(at_peak.gradients);
  memory.state = static_cast<double>(at_peak.optimizer_state);
  memory.activations = static_cast<double>(at_peak.activations);
  memory.inputs = static_cast<double>(at_peak.inputs);
  // The rest makes the sum equal to the plan's peak.
  memory.rest = static_cast<double>(planned.plan.peak_bytes) - memory.total();
  return memory;
}

}  // namespace plimsoll
