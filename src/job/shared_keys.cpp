#include "job/shared_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <sstream>

#include "base/hash.h"
#include "job/keys/kinds.h"
#include "plimsoll/error.h"

namespace plimsoll::job {
namespace {

constexpr size_t kMaxValue = 100;  ///< bytes
constexpr int kMaxNamed = 4;       ///< keys in a message

std::string shortened(const std::string& value) {
  if (value.empty()) return "none";
  if (value.size() <= kMaxValue) return value;
  return fmt::format("{}... ({:016x})", value.substr(0, kMaxValue / 2), hash_bytes(value));
}

std::string_view name_of_choice(Choice choice) {
  return choice == Choice::automatic ? "auto" : choice == Choice::on ? "true" : "false";
}

std::string accumulation_text(const Job& job) {
  if (!job.gradient_accumulation_steps) return "auto";
  std::vector<std::string> items;
  for (const auto& [epoch, count] : *job.gradient_accumulation_steps)
    items.push_back(job.gradient_accumulation_steps->size() == 1 ? fmt::format("{}", count)
                                                                 : fmt::format("{}: {}", epoch, count));
  return joined(items, ", ");
}

template <typename Number>
std::string text_of(const std::optional<Number>& value, const char* without) {
  return value ? fmt::format("{}", *value) : without;
}

/// Adds the settings whose keys `texts` does not have.
void add(std::map<std::string, std::string>& texts, const std::vector<Setting>& settings) {
  for (const Setting& setting : settings)
    if (!setting.left_out) texts.emplace(setting.key, setting.text);
}

// A job that sets the default and one that leaves it are alike.
std::string steps_text(const Job& job) {
  if (!job.max_steps && !job.max_epochs) return fmt::format("{}", kDefaultMaxSteps);
  return text_of(job.max_steps, "none");
}

std::string evaluated_text(const Job& job) {
  return job.eval_batches == kAllBatches ? "all" : text_of(job.eval_batches, "auto");
}

std::vector<Setting> training_keys(const Job& job) {
  return {
      {"precision", name_of(job.precision)},
      {"batch_size", text_of(job.batch_size, "auto")},
      {"micro_batch_size", text_of(job.micro_batch_size, "auto")},
      {"gradient_accumulation_steps", accumulation_text(job)},
      {"gradient_checkpointing", name_of_choice(job.gradient_checkpointing)},
      {"compile", name_of_choice(job.compile)},
      {"device", job.device},
      {"update_in_backward", name_of_choice(job.update_in_backward)},
      {"max_grad_norm", job.max_grad_norm},
      {"max_steps", steps_text(job)},
      {"max_epochs", text_of(job.max_epochs, "none")},
      {"eval_every_n_steps", job.eval_every_n_steps},
      {"eval_batches", evaluated_text(job)},
      {"strategy", name_of(job.ranks.strategy)},
      {"optimizer.learning_rate", job.optimizer.learning_rate},
      {"optimizer.weight_decay", job.optimizer.weight_decay},
      {"optimizer.betas", fmt::format("[{}, {}]", job.optimizer.beta1, job.optimizer.beta2)},
      {"optimizer.eps", job.optimizer.eps},
      {"optimizer.momentum", job.optimizer.momentum},
      {"optimizer.adamw_parameters", joined(job.optimizer.adamw_parameters, ", ")},
      {"scheduler.name", job.scheduler.name},
      {"scheduler.steps", text_of(job.scheduler.steps, "auto")},
      {"scheduler.warmup_steps", job.scheduler.warmup_steps},
      {"scheduler.warmup_ratio", text_of(job.scheduler.warmup_ratio, "none")},
      {"scheduler.min_lr_ratio", job.scheduler.min_lr_ratio},
      {"checkpoint.directory", job.checkpoint.directory.lexically_normal().string()},
      {"checkpoint.every_n_steps", job.checkpoint.every_n_steps},
      {"checkpoint.resume", job.checkpoint.resume},
      {"checkpoint.allow_other_data", job.checkpoint.allow_other_data},
  };
}

std::vector<Setting> data_and_model_keys(const Job& job) {
  const LoraConfig& lora = job.fine_tuning.lora;
  const QuantizeConfig& quantize = job.fine_tuning.quantize;
  return {
      {"data.type", job.data.type},
      {"data.files", names_of_files(job.data.files)},
      {"data.tokenizer", job.data.tokenizer},
      {"data.tokenizer_file", job.data.tokenizer_file},
      {"data.sequence_length", job.data.sequence_length},
      {"data.validation_fraction", job.data.validation_fraction},
      {"data.evaluate_on", job.data.evaluate_on},
      {"data.shuffle", job.data.shuffle},
      {"data.skip_bad", job.data.skip_bad},
      {"data.samples", job.data.samples},
      {"data.test_fraction", job.data.test_fraction},
      {"model.weights", job.model.weights},
      {"freeze", joined(job.fine_tuning.freeze, ", ")},
      {"train", joined(job.fine_tuning.train, ", ")},
      {"lora.modules", joined(lora.modules, ", ")},
      {"lora.dropout", lora.dropout},
      {"quantize.modules", joined(quantize.modules, ", ")},
      {"quantize.format", quantize.format},
      {"quantize.double_scales", quantize.double_scales},
  };
}

/// Returns the value of each key; keys that a job does not have are missing.
std::map<std::string, std::string> parsed(const std::string& text) {
  std::map<std::string, std::string> keys;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t space = line.find(' ');
    check(space != std::string::npos, "the job of a rank is damaged");
    keys[line.substr(0, space)] = line.substr(space + 1);
  }
  return keys;
}

}  // namespace

std::map<std::string, std::string> shared_keys(const Job& job) {
  std::map<std::string, std::string> keys;
  add(keys, training_keys(job));
  add(keys, data_and_model_keys(job));
  if (const DataKind& kind = data_kind(job.data.type); kind.shared_keys) add(keys, kind.shared_keys(job));
  keys.merge(origin_of(job, nullptr));  // keys of the model and the data, by their types
  for (auto& [key, value] : keys) value = shortened(value);
  return keys;
}

std::string shared_keys_text(const Job& job) {
  std::string text;
  for (auto [key, value] : shared_keys(job)) {
    std::ranges::replace(value, '\n', ' ');
    text += fmt::format("{} {}\n", key, value);
  }
  return text;
}

void require_same_keys(const std::vector<std::string>& texts) {
  const std::map<std::string, std::string> first = parsed(texts.at(0));
  const auto value_in = [](const std::map<std::string, std::string>& keys, const std::string& key) {
    const auto found = keys.find(key);
    return found == keys.end() ? std::string("not set") : found->second;
  };
  for (size_t rank = 1; rank < texts.size(); ++rank) {
    if (texts[rank] == texts[0]) continue;
    const std::map<std::string, std::string> own = parsed(texts[rank]);
    std::map<std::string, std::string> all = first;
    all.insert(own.begin(), own.end());
    std::string differences;  // several, because some keys follow from others: head_dim from hidden_size
    int named = 0;
    for (const auto& [key, ignored] : all) {
      const std::string here = value_in(own, key), there = value_in(first, key);
      if (here == there || ++named > kMaxNamed) continue;
      differences +=
          fmt::format("{}{} is {} on rank {} and {} on rank 0", named > 1 ? ", " : "", key, here, rank, there);
    }
    throw UserError(fmt::format("{}; start all ranks with the same job file and the same settings", differences));
  }
}

std::map<std::string, std::string> origin_of(const Job& job, const Tokenizer* tokenizer) {
  std::map<std::string, std::string> origin;
  add(origin, {{"model.type", job.model.type},
               {"optimizer.name", job.optimizer.name},
               {"optimizer.state_dtype", name_of(job.optimizer.state_dtype)},
               {"optimizer.weight_update", name_of(job.optimizer.weight_update)},
               {"gradient_accumulation_dtype", name_of(job.accumulator_dtype)},
               {"seed", job.seed}});
  if (job.precision != Precision::automatic) origin["precision"] = name_of(job.precision);
  if (tokenizer)
    origin["data.tokenizer"] = tokenizer_text(*tokenizer);
  else
    add(origin, {{"data.type", job.data.type}, {"data.validation_fraction", job.data.validation_fraction}});
  if (const DataKind& kind = data_kind(job.data.type); kind.origin) add(origin, kind.origin(job));
  add(origin, model_kind(job.model.type).origin(job));
  const LoraConfig& lora = job.fine_tuning.lora;
  if (!lora.modules.empty()) add(origin, {{"lora.rank", lora.rank}, {"lora.alpha", lora.alpha}});
  return origin;
}

}  // namespace plimsoll::job
