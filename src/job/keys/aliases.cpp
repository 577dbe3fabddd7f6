#include "job/keys/aliases.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>
#include <utility>

#include "job/keys/distributed_keys.h"
#include "job/keys/values.h"

namespace plimsoll::job {
namespace {

using Converted = std::optional<std::string>;

// Converts Lightning's older names, and other programs' words.
Converted precision(const Value& value) {
  const std::string word = read_text(value, "a precision");
  if (word == "32" || word == "fp32" || word == "float32" || word == "no") return "32-true";
  if (word == "16" || word == "fp16" || word == "float16") return "16-mixed";
  if (word == "bf16" || word == "bfloat16") return "bf16-mixed";
  return word;
}

// Converts other programs' names of our optimizers: transformers' `optim`, the classes of torch, bitsandbytes and
// torchao, DeepSpeed's types. Only whole names match: a "galore_adamw" is another algorithm, and is refused by its own
// name.
Converted optimizer(const Value& value) {
  static const std::map<std::string, const char*> known = {
      {"adamw_torch", "adamw"},
      {"adamw_torch_fused", "adamw"},
      {"adamw_torch_xla", "adamw"},
      {"adamw_hf", "adamw"},
      {"adamw_apex_fused", "adamw"},
      {"adamw_anyprecision", "adamw"},
      {"paged_adamw", "adamw"},
      {"paged_adamw_32bit", "adamw"},
      {"torch.optim.adamw", "adamw"},
      {"bitsandbytes.optim.pagedadamw", "adamw"},
      {"adamw_bnb_8bit", "adamw_8bit"},
      {"adamw_torch_8bit", "adamw_8bit"},
      {"paged_adamw_8bit", "adamw_8bit"},
      {"bitsandbytes.optim.adamw8bit", "adamw_8bit"},
      {"bitsandbytes.optim.pagedadamw8bit", "adamw_8bit"},
      {"torchao.optim.adamw8bit", "adamw_8bit"},
      {"adamw_torch_4bit", "adamw_4bit"},
      {"torchao.optim.adamw4bit", "adamw_4bit"},
      {"lion_32bit", "lion"},
      {"paged_lion", "lion"},
      {"paged_lion_32bit", "lion"},
      {"lion_8bit", "lion_8bit"},
      {"paged_lion_8bit", "lion_8bit"},
      {"bitsandbytes.optim.lion8bit", "lion_8bit"},
      {"torch.optim.sgd", "sgd"},
      {"torch.optim.adafactor", "adafactor"},
      {"transformers.adafactor", "adafactor"},
  };
  const std::string word = read_text(value, "an optimizer's name");
  const std::string lower = ascii_lower_case(word);
  for (const char* own :
       {"adamw", "adamw_8bit", "adamw_4bit", "lion", "lion_8bit", "lion_4bit", "sgd", "adafactor", "muon"})
    if (lower == own) return own;
  const auto found = known.find(lower);
  return found == known.end() ? word : std::string(found->second);
}

Converted scheduler(const Value& value) {
  const std::string word = read_text(value, "a schedule's name");
  if (word.starts_with("cosine")) return "cosine";
  if (word.starts_with("constant")) return "constant";
  return word;
}

Converted device(const Value& value) {
  const std::string word = read_text(value, "a device");
  if (word == "gpu") return "cuda";
  return word;
}

Converted clipping(const Value& value) {
  return value.node->kind == Node::Kind::null ? "0" : Converted(read_text(value, "a number"));
}

// transformers' number of epochs is a float: 3.0.
Converted whole_epochs(const Value& value) {
  std::string word = read_text(value, "a number");
  const size_t point = word.find('.');
  if (point != std::string::npos && point > 0 && word.find_first_not_of('0', point + 1) == std::string::npos)
    word.resize(point);
  return word;
}

// Lightning's limit: 1 is a batch, 1.0 is all of them.
Converted evaluated_batches(const Value& value) {
  const std::string word = read_text(value, "a number");
  const size_t point = word.find('.');
  if (point == std::string::npos) return word;
  double share = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), share);
  if (error == std::errc{} && end == word.data() + word.size() && share == 1) return "all";
  value.refuse_since(
      "is a fraction of the held-out batches, and only 1.0, all of them, is possible here; in its place set "
      "eval_batches: all, or eval_batches: N for N batches");
}

Converted cpu_if(const Value& value) {
  return read_boolean(value) ? Converted("cpu") : std::nullopt;
}

Alias boolean_alias(const char* name, const char* origin, Alias::Boolean about) {
  const bool device = about == Alias::Boolean::cpu;
  return {name, origin, device ? "device" : "precision", device ? cpu_if : nullptr, {}, about};
}

/// Answers a key whose value is fixed in Plimsoll.
Converted persistent(const Value& value) {
  return read_boolean(value) ? "is always so here: the threads that prepare batches persist"
                             : "cannot be: the threads that prepare batches persist here; they cost host memory alone";
}
Converted pinned(const Value& value) {
  return read_boolean(value)
             ? "is always so here: a device gets its batches through pinned memory, beside its work"
             : "cannot be: a device gets its batches through pinned memory here, which costs host memory alone";
}

Converted copied_beside(const Value& value) {
  return read_boolean(value) ? "is always so here: batches are copied beside the computation"
                             : "cannot be: batches are copied beside the computation here, with the same results";
}
Converted no_cache(const Value&) {
  return "has nothing to do here: everything lies in one arena of planned bytes, and nothing is cached";
}

std::vector<Alias> named_aliases() {
  using enum Alias::Boolean;
  std::vector<Alias> table = {
      // Lightning
      {"accumulate_grad_batches", "Lightning", "gradient_accumulation_steps"},
      {"trainer.accumulate_grad_batches", "Lightning", "gradient_accumulation_steps"},
      {"gradient_clip_val", "Lightning", "max_grad_norm", clipping},
      {"trainer.gradient_clip_val", "Lightning", "max_grad_norm", clipping},
      {"trainer.precision", "Lightning", "precision", precision},
      {"trainer.max_epochs", "Lightning", "max_epochs"},
      {"trainer.max_steps", "Lightning", "max_steps"},
      {"trainer.accelerator", "Lightning", "device", device},
      {"accelerator", "Lightning", "device", device},
      {"trainer.log_every_n_steps", "Lightning", "log.every_n_steps"},
      {"log_every_n_steps", "Lightning", "log.every_n_steps"},
      {"limit_val_batches", "Lightning", "eval_batches", evaluated_batches},
      {"trainer.limit_val_batches", "Lightning", "eval_batches", evaluated_batches},
      {"use_checkpoint", "a gesture model", "gradient_checkpointing"},
      {"data.normalise", "an earlier job file", "data.normalize"},
      // Hugging Face
      {"per_device_train_batch_size", "Hugging Face", "micro_batch_size"},
      {"learning_rate", "Hugging Face", "optimizer.learning_rate"},
      {"lr", "PyTorch", "optimizer.learning_rate"},
      {"torch_compile", "Hugging Face", "compile"},
      {"weight_decay", "Hugging Face", "optimizer.weight_decay"},
      {"optim", "Hugging Face", "optimizer.name", optimizer},
      {"lr_scheduler_type", "Hugging Face", "scheduler.name", scheduler},
      {"warmup_steps", "Hugging Face", "scheduler.warmup_steps"},
      {"warmup_ratio", "Hugging Face", "scheduler.warmup_ratio"},
      {"num_train_epochs", "Hugging Face", "max_epochs", whole_epochs},
      {"num_epochs", "Hugging Face", "max_epochs", whole_epochs},
      {"dataloader_num_workers", "Hugging Face", "data.num_workers"},
      {"dataloader_prefetch_factor", "Hugging Face", "data.prefetch"},
      {"output_dir", "Hugging Face", "checkpoint.directory"},
      {"resume_from_checkpoint", "Hugging Face", "checkpoint.resume"},
      {"save_steps", "Hugging Face", "checkpoint.every_n_steps"},
      {"save_total_limit", "Hugging Face", "checkpoint.keep"},
      {"logging_steps", "Hugging Face", "log.every_n_steps"},
      {"eval_steps", "Hugging Face", "eval_every_n_steps"},
      {"max_seq_length", "Hugging Face", "data.sequence_length"},
      boolean_alias("bf16", "Hugging Face", bf16),
      boolean_alias("fp16", "Hugging Face", fp16),
      boolean_alias("use_cpu", "Hugging Face", cpu),
      {"load_in_8bit", "Hugging Face", "", nullptr, "set quantize.format: int8 and quantize.modules: PATTERN"},
      {"load_in_4bit", "Hugging Face", "", nullptr, "set quantize.format: nf4 and quantize.modules: PATTERN"},
      // DeepSpeed
      {"train_batch_size", "DeepSpeed", "batch_size"},
      {"train_micro_batch_size_per_gpu", "DeepSpeed", "micro_batch_size"},
      {"gradient_clipping", "DeepSpeed", "max_grad_norm"},
      boolean_alias("fp16.enabled", "DeepSpeed", fp16),
      boolean_alias("bf16.enabled", "DeepSpeed", bf16),
      // torchtune
      {"optimizer_in_bwd", "torchtune", "update_in_backward"},
      {"enable_activation_checkpointing", "torchtune", "gradient_checkpointing"},
      {"enable_activation_offloading", "torchtune", "", nullptr, "set host_memory_budget to the bytes it may take"},
      {"clip_grad_norm", "torchtune", "max_grad_norm", clipping},
      // the systems' own files
      boolean_alias("training.use_mixed_precision", "a training section", mixed),
      {"training.learning_rate", "a training section", "optimizer.learning_rate"},
      {"training.num_epochs", "a training section", "max_epochs"},
      {"training.weight_decay", "a training section", "optimizer.weight_decay"},
      {"training.warmup_steps", "a training section", "scheduler.warmup_steps"},
      {"training.num_workers", "a training section", "data.num_workers"},
      boolean_alias("use_mixed_precision", "a training section", mixed),
      boolean_alias("use_amp", "PyTorch", mixed),
      {"num_workers", "PyTorch", "data.num_workers"},
      {"gradient_accumulation.scheduling", "Lightning", "gradient_accumulation_steps"},
      {"optimizer.lr", "PyTorch", "optimizer.learning_rate"},
  };
  for (const char* section : {"", "data."}) {
    table.push_back({fmt::format("{}persistent_workers", section), "PyTorch", "", persistent});
    table.push_back({fmt::format("{}pin_memory", section), "PyTorch", "", pinned});
    table.push_back({fmt::format("{}non_blocking", section), "PyTorch", "", copied_beside});
  }
  table.push_back({"empty_cache", "PyTorch", "", no_cache});
  table.push_back({"torch_empty_cache_steps", "Hugging Face", "", no_cache});
  table.push_back({"dataloader_persistent_workers", "Hugging Face", "", persistent});
  table.push_back({"dataloader_pin_memory", "Hugging Face", "", pinned});
  return table;
}

// Adds names with the prefix `training.`: another program's name at the top of a file may be in that section too. For
// our keys, the reader removes the prefix.
void add_training_section(std::vector<Alias>& table) {
  std::vector<Alias> more;
  const auto add = [&](Alias alias) {
    alias.name = "training." + alias.name;
    if (std::ranges::find(table, alias.name, &Alias::name) == table.end()) more.push_back(std::move(alias));
  };
  for (const Alias& alias : table)
    if (alias.name.find('.') == std::string::npos || alias.name == "gradient_accumulation.scheduling") add(alias);
  std::ranges::move(more, std::back_inserter(table));
}

}  // namespace

const std::vector<Alias>& aliases() {
  static const std::vector<Alias> table = [] {
    std::vector<Alias> all = named_aliases();
    std::ranges::move(distributed_aliases(), std::back_inserter(all));
    add_training_section(all);
    return all;
  }();
  return table;
}

const Alias* find_alias(std::string_view name) {
  const Alias* family = nullptr;
  for (const Alias& alias : aliases()) {
    if (alias.name == name) return &alias;
    if (alias.name.ends_with(".*") && name.starts_with(alias.name.substr(0, alias.name.size() - 1))) family = &alias;
  }
  return family;
}

std::optional<std::string> canonical_value(const Value& value) {
  if (value.node->kind != Node::Kind::scalar || value.node->text.empty()) return std::nullopt;
  std::optional<std::string> word;
  if (value.key == "precision") word = precision(value);
  if (value.key == "optimizer.name") word = optimizer(value);
  if (value.key == "scheduler.name") word = scheduler(value);
  if (value.key == "device") word = device(value);
  return word == value.node->text ? std::nullopt : word;
}

bool is_alias_section(std::string_view name) {
  return std::ranges::any_of(aliases(), [&](const Alias& alias) {
    return alias.name.size() > name.size() && alias.name.starts_with(name) && alias.name[name.size()] == '.';
  });
}

}  // namespace plimsoll::job
