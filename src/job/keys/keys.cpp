#include "job/keys/keys.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "base/names.h"
#include "base/text.h"
#include "job/keys/key_kinds.h"
#include "job/keys/kinds.h"
#include "job/keys/values.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"

namespace plimsoll::job {
namespace {

// Ranges of single numbers, by their meaning.
constexpr NumberRange kShare{.min = 0, .max = 1};
constexpr IntegerRange kSteps{1, kMaxSteps};
constexpr IntegerRange kStepsOrNever{0, kMaxSteps, /*none=*/true};
constexpr IntegerRange kBatch{1, kMaxBatch};

Key resume() {
  return {{"checkpoint.resume", "auto | never | path", "auto",
           "checkpoint to continue from; auto: the newest in checkpoint.directory, if any; never: none"},
          [](const Value& value, Job& job) {
            const std::string text = read_text(value, "auto, never, a checkpoint's path");
            if (text.empty()) value.refuse("auto, never, a checkpoint's path");
            // Hugging Face's resume_from_checkpoint, and other programs' words for the newest.
            for (const char* newest : {"true", "yes", "latest", "last"})
              if (value.is(newest)) value.refuse("auto, never, a checkpoint's path", "; auto goes on from the newest");
            for (const char* none : {"false", "no", "none"})
              if (value.is(none)) value.refuse("auto, never, a checkpoint's path", "; did you mean 'never'?");
            job.checkpoint.resume = text;
          }};
}

Key precision() {
  std::vector<std::string> names = {"auto"};
  for (Precision each : {Precision::fp32_true, Precision::fp16_mixed, Precision::bf16_mixed, Precision::bf16_true})
    names.emplace_back(name_of(each));
  return {{"precision", joined(names, " | "), std::string(name_of(Job{}.precision)),
           "number formats; mixed: half the memory for activations; bf16-true: also half for parameters, gradients and "
           "optimizer state; auto: the fastest of 32-true and mixed that fits, bf16-true if neither fits"},
          [=](const Value& value, Job& job) {
            const auto at = std::ranges::find(names, read_word(value, names)) - names.begin();
            job.precision = at == 0 ? Precision::automatic : static_cast<Precision>(at - 1);
          }};
}

Key gradient_accumulation_steps() {
  return {{"gradient_accumulation_steps", "auto | " + kBatch.text() + " | {epoch: steps}", "auto",
           "micro batches in an optimizer step: a number, or numbers by first epoch ({0: 4, 4: 2}); accumulation needs "
           "no memory beyond the gradients; auto: batch_size / micro_batch_size, rounded up. Without micro_batch_size "
           "a step has batch_size x this number of sequences"},
          [](const Value& value, Job& job) {
            if (value.is("auto")) {
              job.gradient_accumulation_steps.reset();
              return;
            }
            AccumulationSchedule schedule;
            if (value.node->kind != Node::Kind::mapping) {
              schedule[0] = read_integer(value, kBatch, "auto, {epoch: steps}");
            } else {
              for (const Node::Entry& entry : value.node->entries) {
                if (entry.value->kind == Node::Kind::null && entry.key.find(':') != std::string::npos)
                  value.refuse_since(
                      fmt::format("has {}; a space is missing behind the colon: {{0: 4, 4: 2}}", in_quotes(entry.key)));
                const Node epoch{Node::Kind::scalar, entry.key, {}, {}, entry.line, entry.column};
                const Value as_epoch{&epoch, "an epoch of " + value.key, value.source};
                const Value as_steps{entry.value, value.key + ", epoch " + entry.key, value.source};
                const int64_t from = read_integer(as_epoch, {0, kMaxSteps});
                const int64_t steps = read_integer(as_steps, kBatch);
                if (!schedule.emplace(from, steps).second)
                  value.refuse_since(fmt::format("names epoch {} twice", from));
              }
              if (!schedule.contains(0))
                value.refuse_since("does not say what epoch 0 starts with; write for example {0: 4, 4: 2, 8: 1}");
            }
            job.gradient_accumulation_steps = std::move(schedule);
          }};
}

Key choice_key(const char* name, const char* meaning, Choice TrainingOptions::*field) {
  return {{name, "auto | true | false", "auto", meaning}, [field](const Value& value, Job& job) {
            if (value.is("auto"))
              job.*field = Choice::automatic;
            else if (const std::optional<bool> stated = boolean_in(value))
              job.*field = *stated ? Choice::on : Choice::off;
            else
              value.refuse("auto, true, false", suggest_boolean(value));
          }};
}

Key gradient_checkpointing() {
  return choice_key("gradient_checkpointing",
                    "keep only the input of each layer and recompute the rest in the backward pass: less memory, about "
                    "a third more arithmetic; auto: recompute only the values that the budget needs",
                    &Job::gradient_checkpointing);
}

Key update_in_backward() {
  return choice_key("update_in_backward",
                    "update each parameter as soon as its gradient is complete, then free the gradient: saves the "
                    "memory of all gradients except the current one. With max_grad_norm above 0 forward and backward "
                    "run twice; with gradient accumulation only if max_grad_norm is 0; auto: if the budget needs it",
                    &Job::update_in_backward);
}

Key compile() {
  return choice_key(
      "compile",
      "fuse chains of pointwise operators (casts, residual adds, activations), and norms with their sums: intermediate "
      "values take no memory; on the CPU the losses stay the same to the bit; auto: if fusion takes less time and no "
      "more live bytes. true and auto also group the updates of small parameters",
      &Job::compile);
}

Key accumulator_dtype() {
  const std::vector<std::string> words = words_of(AccumulatorDtype::automatic);
  return {{"gradient_accumulation_dtype", joined(words, " | "), "gradients",
           "format of the gradient accumulators of several micro batches; gradients: that of the parameters; others: "
           "4, 2, 1.008 bytes per parameter, each gradient is freed after it is added; bfloat16 and 8bit use "
           "stochastic rounding"},
          [=](const Value& value, Job& job) {
            const std::string word = read_word(value, words);
            job.accumulator_dtype = static_cast<AccumulatorDtype>(std::ranges::find(words, word) - words.begin());
          }};
}

Key strategy() {
  std::vector<std::string> words = {"auto"};
  for (const Strategy each : {Strategy::ddp, Strategy::zero1, Strategy::zero2, Strategy::zero3})
    words.emplace_back(name_of(each));
  return {{"strategy", joined(words, " | "), std::string(name_of(Job{}.ranks.strategy)),
           "what each of several devices stores: ddp: everything; zero1: a slice of the optimizer state; zero2: also a "
           "slice of the gradients; zero3: also a slice of the parameters; auto: the fastest that fits. No effect on "
           "one device"},
          [=](const Value& value, Job& job) {
            const auto at = std::ranges::find(words, read_word(value, words)) - words.begin();
            job.ranks.strategy = at == 0 ? Strategy::automatic : static_cast<Strategy>(at - 1);
          }};
}

/// Returns a key for an amount of memory, or "auto" for none.
Key budget_or_auto(std::string name, std::string meaning, std::function<void(Job&, std::optional<int64_t>)> set) {
  return {{std::move(name), "auto | bytes (8GiB, 8GB, 8589934592)", "auto", std::move(meaning)},
          [set = std::move(set)](const Value& value, Job& job) {
            set(job, std::nullopt);
            if (value.is("auto")) return;
            constexpr std::string_view allowed = "auto, an amount above 0 such as 8GiB, 8GB, 8589934592";
            if (value.node->kind != Node::Kind::scalar) value.refuse(allowed);
            int64_t bytes = 0;
            try {
              bytes = parse_bytes(value.node->text);
            } catch (const UserError& error) {
              value.refuse_since(fmt::format("is wrong: {}", error.what()));
            }
            if (bytes == 0) value.refuse(allowed);
            set(job, bytes);
          }};
}

Key memory_budget() {
  return budget_or_auto(
      "memory_budget",
      "upper limit in bytes of the device memory that training uses; auto: the memory of the device, or on this "
      "machine the available memory less 10 %",
      [](Job& job, std::optional<int64_t> bytes) { job.budget.device = bytes; });
}

Key process_budget() {
  return {
      {"process_budget", "none | auto | bytes (8GiB, 8GB, 8589934592)", "none",
       "upper limit in bytes of the resident memory of the process, as the operating system counts it: the program "
       "and its libraries, the planner, the data, batches, and on the CPU the memory_budget; auto: the limit of the "
       "control group (container, batch system), or else what the machine has free; none: no limit. Of each device's "
       "process, if there are several"},
      [](const Value& value, Job& job) {
        job.budget.process.reset();
        if (value.is("none")) return;
        constexpr std::string_view allowed = "none, auto, an amount above 0 such as 8GiB, 8GB, 8589934592";
        if (value.node->kind != Node::Kind::scalar) value.refuse(allowed);
        job.budget.process = 0;
        if (value.is("auto")) return;
        try {
          job.budget.process = parse_bytes(value.node->text);
        } catch (const UserError& error) {
          value.refuse_since(fmt::format("is wrong: {}", error.what()));
        }
        if (*job.budget.process == 0) value.refuse(allowed);
      }};
}

Key data_memory_budget() {
  return budget_or_auto(
      "data.memory_budget",
      "upper limit in bytes of the host memory that files of data take, and apart from them a tokenizer's; a file that "
      "takes more is an error before that memory is allocated. Texts are not counted. "
      "auto: the limits of each format, a constant and a multiple of the file's size",
      [](Job& job, std::optional<int64_t> bytes) { job.data.memory_budget = bytes; });
}

// Returns a key for an amount of memory other than the device's.
Key further_budget(std::string name, int64_t Budget::*member, std::string meaning) {
  return {{std::move(name), "0 or none | bytes (32GiB, 32GB)", "0", std::move(meaning)},
          [=](const Value& value, Job& job) {
            if (value.node->kind != Node::Kind::scalar)
              value.refuse("0 or none, or an amount such as 32GiB, 32GB, 8589934592");
            if (value.is("none")) {
              job.budget.*member = 0;
              return;
            }
            try {
              job.budget.*member = parse_bytes(value.node->text);
            } catch (const UserError& error) {
              value.refuse_since(fmt::format("is wrong: {}", error.what()));
            }
          }};
}

Key host_memory_budget() {
  return further_budget(
      "host_memory_budget", &Budget::host,
      "upper limit in bytes of the host memory for offloaded saved values, optimizer state, gradients and parameters; "
      "0: no offload. The planner compares the time of offload with that of recomputation");
}

Key disk_budget() {
  return further_budget("disk_budget", &Budget::disk,
                        "bytes on disk, allocated before the first step, for optimizer state, gradients and parameters "
                        "that do not fit in host_memory_budget; slower than host memory; 0: no offload to disk");
}

Key disk_path() {
  return {{"disk_path", "path", "(checkpoint.directory)",
           "folder for the disk_budget, allocated in a file without a name; without checkpoint.directory: the folder "
           "of the job file"},
          [](const Value& value, Job& job) { job.disk_path = read_text(value, "a path, or \"\" for none"); }};
}

Key batch_size() {
  return {
      {"batch_size", kBatch.text(), "8",
       "sequences in an optimizer step of the first epoch, over all micro batches; sets the losses, while "
       "micro_batch_size sets the memory. With gradient_accumulation_steps and without micro_batch_size: sequences in "
       "a micro batch, and the step has the product, as in other programs. 8 if micro_batch_size is not set either"},
      [](const Value& value, Job& job) { job.batch_size = read_integer(value, kBatch); }};
}

/// Reads a limit of the run; transformers and Lightning write "none" as -1.
std::optional<int64_t> read_limit(const Value& value) {
  const bool none = value.is("none") || (value.node->kind == Node::Kind::scalar && value.node->text == "-1");
  return none ? std::nullopt : std::optional(read_integer(value, kSteps, "none"));
}

Key max_steps() {
  return {{"max_steps", "none | " + kSteps.text(), std::to_string(kDefaultMaxSteps),
           "optimizer steps; the learning rate's schedule ends with the last one. With max_epochs the default is none: "
           "all epochs are run"},
          [](const Value& value, Job& job) { job.max_steps = read_limit(value); }};
}

Key max_epochs() {
  return {{"max_epochs", "none | " + kSteps.text(), "none",
           "epochs of the run, which ends at max_steps if that is set and comes first; none: max_steps alone counts"},
          [](const Value& value, Job& job) { job.max_epochs = read_limit(value); }};
}

Key eval_batches() {
  return {{"eval_batches", "auto | all | " + kSteps.text(), "auto",
           fmt::format("batches in an evaluation, each with the sequences of one step of the first epoch; auto: {} "
                       "sequences, whatever the batch; all: the whole held-out part",
                       kEvaluatedSamples)},
          [](const Value& value, Job& job) {
            if (value.is("auto"))
              job.eval_batches.reset();
            else
              job.eval_batches = value.is("all") ? kAllBatches : read_integer(value, kSteps, "auto, all");
          }};
}

Key warmup_ratio() {
  return {{"scheduler.warmup_ratio", "none | " + kShare.text(), "none",
           "warm-up as a fraction of the schedule's steps, rounded up; instead of scheduler.warmup_steps"},
          [](const Value& value, Job& job) {
            job.scheduler.warmup_ratio = value.is("none") ? std::nullopt : std::optional(read_number(value, kShare));
          }};
}

Key seed() {
  constexpr std::string_view allowed = "integer from 0 to 18446744073709551615";
  return {{"seed", std::string(allowed), std::to_string(Job{}.seed), "seed of initialization, shuffling and dropout"},
          [=](const Value& value, Job& job) {
            const std::string text = read_text(value, allowed);
            const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), job.seed);
            if (error != std::errc{} || end != text.data() + text.size()) value.refuse(allowed);
          }};
}

// Returns "decoder: a decoder-only transformer; fmri_autoencoder: ...".
template <typename Kind>
std::string meanings_of(const std::vector<Kind>& kinds) {
  std::string text;
  for (const Kind& kind : kinds) text += (text.empty() ? "" : "; ") + kind.type + ": " + kind.meaning;
  return text;
}
template <typename Kind>
std::vector<std::string> types_of(const std::vector<Kind>& kinds) {
  std::vector<std::string> types;
  for (const Kind& kind : kinds) types.push_back(kind.type);
  return types;
}

std::vector<Key> model_keys() {
  return {
      word("model.type", &ModelConfig::type, types_of(model_kinds()), meanings_of(model_kinds())),
      weight_dtype(
          "model.dtype", [](Job & job) -> auto& { return job.dtype; }),
      path("model.weights", &ModelConfig::weights, "(none)",
           "weights to start from: a safetensors file of plimsoll export; for decoder and mamba also a folder with "
           "config.json and safetensors; for decoder also a GGUF file. Weights are quantized and cast while they are "
           "read"),
  };
}

std::vector<Key> data_keys() {
  using D = DataConfig;
  return {
      word("data.type", &D::type, types_of(data_kinds()), meanings_of(data_kinds())),
      path("data.root", &D::root, "(the job file's folder)", "folder that relative paths of data.* start from"),
      number("data.validation_fraction", &D::validation_fraction, {.min = 0, .max = 0.5, .none = true},
             "fraction of the data, at its end, that is held out for evaluation"),
      boolean("data.shuffle", &D::shuffle, "draw a new order of samples from the seed in every epoch"),
      integer("data.num_workers", &D::num_workers, {1, 256},
              "threads that prepare batches (host memory: data.prefetch)"),
      integer("data.prefetch", &D::prefetch, {1, 1024}, "batches that are prepared ahead, in host memory"),
      boolean("data.skip_bad", &D::skip_bad,
              "leave out samples that cannot be read, and count them; false: stop at the first one"),
      data_memory_budget(),
  };
}

std::vector<Key> training_keys() {
  return {
      precision(),
      batch_size(),
      integer_or("auto", "micro_batch_size", &Job::micro_batch_size, kBatch,
                 "sequences in a micro batch; activations grow with it; auto: the fastest size that fits"),
      gradient_accumulation_steps(),
      gradient_checkpointing(),
      update_in_backward(),
      compile(),
      accumulator_dtype(),
      memory_budget(),
      process_budget(),
      host_memory_budget(),
      disk_budget(),
      disk_path(),
      number("max_grad_norm", &Job::max_grad_norm, kPositiveOrNone,
             "upper limit of the norm of all gradients (clipping); 0: no clipping"),
      max_steps(),
      max_epochs(),
      integer("eval_every_n_steps", &Job::eval_every_n_steps, kStepsOrNever,
              "steps between evaluations; 0: only at the end, if there is validation data"),
      eval_batches(),
      word("device", &Job::device, {"cpu", "cuda", "rocm", "mps"},
           "device to train on; a job can be planned for each of them on any machine"),
      integer("devices", &RankOptions::count, {1, kMaxDevices},
              "devices that train together, one process each: plimsoll train starts that many on this machine; a "
              "launcher such as torchrun sets it. The effective batch is that of one device times devices, unless "
              "micro_batch_size is set"),
      strategy(),
      integer("threads", &Job::threads, {0, 1024},
              "CPU threads; 0: OMP_NUM_THREADS, or all usable cores if it is not set"),
      seed(),
  };
}

std::vector<Key> other_keys() {
  using S = SchedulerConfig;
  using C = CheckpointConfig;
  return {
      word("scheduler.name", &S::name, {"constant", "linear", "cosine"},
           "schedule of the learning rate after the warm-up"),
      integer_or("auto", "scheduler.steps", &S::steps, kSteps,
                 "steps that the schedule is computed for, counted from the first of the run; auto: all steps of the "
                 "run. After them the learning rate stays at its last value"),
      integer("scheduler.warmup_steps", &S::warmup_steps, kStepsOrNever,
              "steps at the start in which the learning rate rises linearly from 0; part of the run's steps"),
      warmup_ratio(),
      number("scheduler.min_lr_ratio", &S::min_lr_ratio, kShare,
             "learning rate at the schedule's last step, as a fraction of optimizer.learning_rate"),
      path("checkpoint.directory", &C::directory, "(none)", "folder of the checkpoints; none: no checkpoints"),
      integer("checkpoint.every_n_steps", &C::every_n_steps, kStepsOrNever,
              "steps between checkpoints; 0: only at the end"),
      resume(),
      integer("checkpoint.keep", &C::keep, {0, 1'000'000}, "number of newest checkpoints that are kept; 0: all"),
      boolean("checkpoint.allow_other_data", &C::allow_other_data,
              "resume although data, their split, order or tokenizer are not those of the checkpoint; false: such a "
              "job is refused"),
      path("log.metrics_file", &LogConfig::metrics_file, "(none)",
           "file for metrics as JSON lines, one line per logged step"),
      integer("log.every_n_steps", &LogConfig::every_n_steps, kSteps, "steps between logged steps"),
  };
}

// Adds the keys of a type; if another type has one of the same name, each type reads its own.
void add_of_type(std::vector<Key>& all, const char* type_key, const std::string& type, std::vector<Key> keys) {
  for (Key& key : keys) {
    key.type_key = type_key;
    key.types = {type};
    const auto same = std::ranges::find_if(all, [&](const Key& each) { return each.help.key == key.help.key; });
    if (same == all.end()) {
      all.push_back(std::move(key));
      continue;
    }
    check(same->type_key == key.type_key, "two kinds of keys are named " + key.help.key);
    if (same->variants.empty()) same->variants.push_back(*same);
    same->types.push_back(type);
    same->variants.push_back(std::move(key));
  }
}

// Combines the help of variants: text that is the same for all types is written once, the rest under the type's name.
void describe_variants(Key& key) {
  for (std::string KeyHelp::*text : {&KeyHelp::type, &KeyHelp::default_value, &KeyHelp::meaning}) {
    std::vector<std::pair<std::string, std::string>> stated;  // text, and the types that have it
    for (const Key& variant : key.variants) {
      const auto same =
          std::ranges::find_if(stated, [&](const auto& each) { return each.first == variant.help.*text; });
      if (same == stated.end())
        stated.emplace_back(variant.help.*text, variant.types.front());
      else
        same->second += ", " + variant.types.front();
    }
    if (stated.size() < 2) continue;
    std::string all;
    for (const auto& [what, types] : stated) all += (all.empty() ? "" : "; ") + types + ": " + what;
    key.help.*text = all;
  }
}

}  // namespace

const std::string& type_of(const Job& job, const std::string& type_key) {
  return type_key == "data.type" ? job.data.type : job.model.type;
}

bool belongs_to(const Key& key, const Job& job) {
  return key.types.empty() || std::ranges::find(key.types, type_of(job, key.type_key)) != key.types.end();
}

void read_as(const Key& key, const Value& value, Job& job) {
  for (const Key& variant : key.variants)
    if (belongs_to(variant, job)) return variant.read(value, job);
  key.read(value, job);
}

const std::vector<Key>& keys() {
  static const std::vector<Key> table = [] {
    std::vector<Key> all = model_keys();
    const auto add = [&](std::vector<Key> (*group)()) { std::ranges::move(group(), std::back_inserter(all)); };
    for (const ModelKind& kind : model_kinds()) add_of_type(all, "model.type", kind.type, kind.keys);
    add(data_keys);
    for (const DataKind& kind : data_kinds()) add_of_type(all, "data.type", kind.type, kind.keys);
    for (std::vector<Key> (*group)() : {training_keys, fine_tuning_keys, optimizer_keys, other_keys}) add(group);
    for (Key& key : all) describe_variants(key);
    return all;
  }();
  return table;
}

const Key* find_key(std::string_view name) {
  const auto key = std::ranges::find_if(keys(), [&](const Key& each) { return each.help.key == name; });
  return key == keys().end() ? nullptr : &*key;
}

const std::vector<std::string>& sections() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> found;
    for (const Key& key : keys())
      for (size_t dot = key.help.key.find('.'); dot != std::string::npos; dot = key.help.key.find('.', dot + 1)) {
        const std::string section = key.help.key.substr(0, dot);
        if (std::ranges::find(found, section) == found.end()) found.push_back(section);
      }
    return found;
  }();
  return names;
}

}  // namespace plimsoll::job

namespace plimsoll {

const std::vector<KeyHelp>& job_keys() {
  static const std::vector<KeyHelp> help = [] {
    std::vector<KeyHelp> all;
    for (const job::Key& key : job::keys()) all.push_back(key.help);
    return all;
  }();
  return help;
}

}  // namespace plimsoll
