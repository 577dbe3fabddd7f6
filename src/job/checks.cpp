#include "job/checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <utility>

#include "base/names.h"
#include "base/text.h"
#include "job/keys/aliases.h"
#include "job/keys/keys.h"
#include "job/keys/kinds.h"
#include "plimsoll/error.h"

namespace plimsoll::job {
namespace {

void check_data(const Job& job, const KeyLocations& locations) {
  const std::string& type = job.data.type;
  const ModelKind& model = model_kind(job.model.type);
  if (!learns_from(model, type))
    refuse(locations.of({"data.type", "model.type"}),
           fmt::format("data.type is '{}'; a model of type {} takes data.type: {} | synthetic", type, job.model.type,
                       joined(model.data_types, " | ")));
  if (const DataKind& kind = data_kind(type); kind.check) kind.check(job, locations);
}

// A run has an end, and a warm-up one length.
void check_run_length(const Job& job, const KeyLocations& locations) {
  if (locations.given("max_steps") && !job.max_steps && !job.max_epochs)
    refuse(locations.of({"max_steps"}),
           "max_steps is none, and max_epochs is not set: the run has no end; set max_epochs, or a number of steps");
  if (locations.given("scheduler.warmup_steps") && job.scheduler.warmup_steps > 0 &&
      job.scheduler.warmup_ratio.value_or(0) > 0)
    refuse(
        locations.of({"scheduler.warmup_ratio"}),
        fmt::format("scheduler.warmup_steps {} and scheduler.warmup_ratio {:g} state one length; set only one of them",
                    job.scheduler.warmup_steps, *job.scheduler.warmup_ratio));
}

void check_checkpoint(const Job& job, const KeyLocations& locations) {
  if (job.checkpoint.every_n_steps > 0 && job.checkpoint.directory.empty())
    refuse(locations.of({"checkpoint.every_n_steps"}),
           fmt::format("checkpoint.every_n_steps is {}, but there is no checkpoint.directory to write to",
                       job.checkpoint.every_n_steps));
}

void check_dtype(const Job& job, const KeyLocations& locations) {
  if (!job.dtype) return;
  const DType dtype = *job.dtype;
  if (dtype == DType::float16 && job.precision != Precision::fp16_mixed)
    refuse(locations.of({"model.dtype"}),
           "model.dtype is float16, whose small gradients need loss scaling; set precision: 16-mixed, or model.dtype: "
           "bfloat16");
  if (job.precision == Precision::bf16_true && dtype != DType::bfloat16)
    refuse(locations.of({"model.dtype"}),
           fmt::format(
               "model.dtype is {}; with precision bf16-true weights are bfloat16: set model.dtype: auto, or precision: "
               "bf16-mixed",
               name_of(dtype)));
  if (job.precision == Precision::automatic)
    refuse(
        locations.of({"model.dtype"}),
        fmt::format("model.dtype is {}, and precision is auto, which chooses the weights' type too; set precision: {}",
                    name_of(dtype), dtype == DType::float32 ? "32-true" : "bf16-true"));
}

void check_fine_tuning(const FineTuning& tuning, const KeyLocations& locations) {
  const LoraConfig &lora = tuning.lora, defaults;
  const QuantizeConfig &quantize = tuning.quantize, plain;
  // Refuses keys that need modules if there are none. An empty list in the file accepts keys with default values; an
  // empty list on the command line accepts all.
  const auto needs_modules = [&](const char* key, bool changed, const std::string& section, const char* example) {
    const std::string modules = section + ".modules";
    if (!locations.given(key) || locations.overridden(modules) || (!changed && locations.given(modules))) return;
    refuse(locations.of({key}),
           fmt::format("{} is given, but {} names no layers; for example {}: ['{}']", key, modules, modules, example));
  };
  if (lora.modules.empty()) {
    needs_modules("lora.rank", lora.rank != defaults.rank, "lora", "*.qkv");
    needs_modules("lora.alpha", lora.alpha != defaults.alpha, "lora", "*.qkv");
    needs_modules("lora.dropout", lora.dropout != defaults.dropout, "lora", "*.qkv");
  }
  if (quantize.modules.empty()) {
    needs_modules("quantize.format", quantize.format != plain.format, "quantize", "*.mlp");
    needs_modules("quantize.double_scales", quantize.double_scales != plain.double_scales, "quantize", "*.mlp");
  }
}

/// Refuses keys of another type of model or data, because they would have no effect. Keys of a type that the command
/// line has replaced are accepted: `data.type=synthetic` tries a job without its text.
void check_types(const Job& job, const KeyLocations& locations) {
  for (const Key& key : keys()) {
    const std::string& name = key.help.key;
    if (belongs_to(key, job) || !locations.given(name)) continue;
    if (locations.overridden(key.type_key) && !locations.overridden(name)) continue;
    refuse(locations.of({name}), fmt::format("{} is given; it belongs to {}: {}, and this job's is {}", name,
                                             key.type_key, joined(key.types, " | "), type_of(job, key.type_key)));
  }
}

}  // namespace

void resolve_optimizer_name(Job& job, const KeyLocations& locations) {
  std::string& name = job.optimizer.name;
  const size_t cut = name.find('_');
  if (cut == std::string::npos) return;
  const StateDtype dtype = name.substr(cut) == "_8bit" ? StateDtype::bits8 : StateDtype::bits4;
  if (locations.given("optimizer.state_dtype") && job.optimizer.state_dtype != dtype)
    refuse(locations.overridden("optimizer.state_dtype") ? locations.of({"optimizer.state_dtype"})
                                                         : locations.of({"optimizer.name"}),
           fmt::format("optimizer.name is {}, and optimizer.state_dtype is {}; leave one of them out, or set "
                       "optimizer.state_dtype: {} or optimizer.name: {}",
                       name, name_of(job.optimizer.state_dtype), name_of(dtype), name.substr(0, cut)));
  job.optimizer.state_dtype = dtype;
  name.resize(cut);
}

void check_keys_together(const Job& job, const KeyLocations& locations) {
  check_run_length(job, locations);
  model_kind(job.model.type).check(job, locations);
  check_dtype(job, locations);
  check_fine_tuning(job.fine_tuning, locations);
  check_data(job, locations);
  check_types(job, locations);
  check_checkpoint(job, locations);
}

void note_unused_optimizer_keys(Job& job, const KeyLocations& locations) {
  const std::string& name = job.optimizer.name;
  const bool uses_betas = name == "adamw" || name == "lion" || name == "muon";
  const bool uses_momentum = name == "sgd" || name == "muon";
  const auto note = [&](const std::string& key, bool used) {
    if (locations.given(key) && !used)
      job.notes.push_back(
          fmt::format("{}: {} has no effect with optimizer.name {}; remove it", locations.of({key}), key, name));
  };
  note("optimizer.betas", uses_betas);
  note("optimizer.momentum", uses_momentum);
}

}  // namespace plimsoll::job

namespace plimsoll {
namespace job {
namespace {

std::string section_of(const std::string& path) {
  const size_t dot = path.rfind('.');
  return dot == std::string::npos ? "" : path.substr(0, dot);
}

std::string last_of(const std::string& path) {
  return path.substr(path.rfind('.') + 1);
}

std::vector<std::string> key_names() {
  std::vector<std::string> names;
  for (const Key& key : keys()) names.push_back(key.help.key);
  return names;
}

// Words of other programs and our keys. They are not accepted as names, because one word has several meanings: a "dim"
// is the model's in one program and a head's in another.
constexpr std::array<std::pair<std::string_view, std::string_view>, 84> kOtherWords = {{
    {"activation_checkpointing", "gradient_checkpointing"},
    {"adam_beta1", "optimizer.betas"},
    {"adam_beta2", "optimizer.betas"},
    {"adam_epsilon", "optimizer.eps"},
    {"batch", "batch_size"},
    {"block_size", "data.sequence_length"},
    {"bs", "batch_size"},
    {"budget", "memory_budget"},
    {"checkpoint_dir", "checkpoint.directory"},
    {"checkpointing", "gradient_checkpointing"},
    {"clip_grad", "max_grad_norm"},
    {"context_length", "data.sequence_length"},
    {"context_size", "data.sequence_length"},
    {"cpu_offload", "host_memory_budget"},
    {"ctx_len", "data.sequence_length"},
    {"d_ff", "model.intermediate_size"},
    {"d_model", "model.hidden_size"},
    {"dataset", "data.files"},
    {"dataset_path", "data.files"},
    {"dim", "model.hidden_size"},
    {"embed_dim", "model.hidden_size"},
    {"epochs", "max_epochs"},
    {"ffn_dim", "model.intermediate_size"},
    {"gpu", "device"},
    {"gpu_memory", "memory_budget"},
    {"gpus", "device"},
    {"grad_accum", "gradient_accumulation_steps"},
    {"grad_accumulation_steps", "gradient_accumulation_steps"},
    {"grad_checkpointing", "gradient_checkpointing"},
    {"grad_clip", "max_grad_norm"},
    {"heads", "model.num_heads"},
    {"hidden_act", "model.activation"},
    {"iterations", "max_steps"},
    {"layer_norm_eps", "model.norm_eps"},
    {"layers", "model.num_layers"},
    {"lora_alpha", "lora.alpha"},
    {"lora_dropout", "lora.dropout"},
    {"lora_r", "lora.rank"},
    {"max_iters", "max_steps"},
    {"max_length", "data.sequence_length"},
    {"max_memory", "memory_budget"},
    {"max_position_embeddings", "model.max_positions"},
    {"max_train_steps", "max_steps"},
    {"memory", "memory_budget"},
    {"mixed_precision", "precision"},
    {"model_name_or_path", "model.weights"},
    {"n_ctx", "data.sequence_length"},
    {"n_embd", "model.hidden_size"},
    {"n_head", "model.num_heads"},
    {"n_heads", "model.num_heads"},
    {"n_layer", "model.num_layers"},
    {"n_layers", "model.num_layers"},
    {"n_positions", "model.max_positions"},
    {"num_attention_heads", "model.num_heads"},
    {"num_hidden_layers", "model.num_layers"},
    {"num_key_value_heads", "model.num_kv_heads"},
    {"num_steps", "max_steps"},
    {"offload", "host_memory_budget"},
    {"out_dir", "checkpoint.directory"},
    {"pretrained", "model.weights"},
    {"pretrained_model_name_or_path", "model.weights"},
    {"r", "lora.rank"},
    {"recompute", "gradient_checkpointing"},
    {"rms_norm_eps", "model.norm_eps"},
    {"save_dir", "checkpoint.directory"},
    {"save_every", "checkpoint.every_n_steps"},
    {"seq", "data.sequence_length"},
    {"seq_len", "data.sequence_length"},
    {"seq_length", "data.sequence_length"},
    {"steps", "max_steps"},
    {"target_modules", "lora.modules"},
    {"tie_word_embeddings", "model.tie_embeddings"},
    {"tokenizer_name", "data.tokenizer"},
    {"tokenizer_path", "data.tokenizer_file"},
    {"torch_dtype", "model.dtype"},
    {"train_file", "data.files"},
    {"train_files", "data.files"},
    {"val_fraction", "data.validation_fraction"},
    {"val_split", "data.validation_fraction"},
    {"vocab", "model.vocab_size"},
    {"vram", "memory_budget"},
    {"warmup", "scheduler.warmup_steps"},
    {"wd", "optimizer.weight_decay"},
    {"workers", "data.num_workers"},
}};

/// Returns the key that other programs call by the last word of `path`, in the section of `path` if that has it; "" if
/// there is none.
std::string known_elsewhere(const std::string& path) {
  const std::string word = last_of(path);
  std::string key;
  if (const Alias* alias = find_alias(word); alias != nullptr) key = alias->key;
  const auto found = std::ranges::find(kOtherWords, word, &std::pair<std::string_view, std::string_view>::first);
  if (found != kOtherWords.end()) key = found->second;
  const std::string here = section_of(path) + "." + last_of(key);
  return find_key(here) != nullptr ? here : key;
}

std::vector<std::string> with_last_word(const std::vector<std::string>& names, const std::string& word) {
  std::vector<std::string> found;
  std::ranges::copy_if(names, std::back_inserter(found),
                       [&](const std::string& name) { return last_of(name) == word; });
  return found;
}

/// Returns those keys with the same last word that `path` may mean: the only one, those nearest to its section, else
/// those nearest to the top of the file.
std::vector<std::string> chosen_of(std::vector<std::string> namesakes, const std::string& path) {
  if (namesakes.size() < 2) return namesakes;
  const std::string section = section_of(path);
  const auto distance = [&](const std::string& name) -> size_t {
    if (!section.empty()) return edit_distance(section, section_of(name));
    return static_cast<size_t>(std::ranges::count(name, '.'));
  };
  size_t least = distance(namesakes.front());
  for (const std::string& name : namesakes) least = std::min(least, distance(name));
  std::erase_if(namesakes, [&](const std::string& name) { return distance(name) > least; });
  return namesakes;
}

/// Returns advice for an entry that is a slip of syntax: "sequence_length:16" in braces, "0,001". Returns "" for an
/// ordinary word.
std::string slip_in(const Node::Entry& entry) {
  const std::string& key = entry.key;
  if (entry.value->kind != Node::Kind::null) return "";
  if (const size_t colon = key.find(':'); colon != std::string::npos && colon > 0 && colon + 1 < key.size())
    return fmt::format("a space is missing behind the colon: write {}: {}", key.substr(0, colon),
                       one_line(key.substr(colon + 1)));
  if (!key.empty() && std::ranges::all_of(key, [](unsigned char c) { return std::isdigit(c) != 0; }))
    return "a comma separates keys here; a number has a point: 0.001, and its thousands nothing: 1000";
  return "";
}

}  // namespace

}  // namespace job

bool is_job_key(std::string_view name) {
  return job::find_key(name) != nullptr;
}

bool names_a_key(const std::string& name) {
  return job::find_key(name) != nullptr || job::with_last_word(job::key_names(), name).size() == 1 ||
         !job::known_elsewhere(name).empty();
}

std::vector<std::string> suggest_keys(const std::string& path) {
  if (job::find_key(path) != nullptr) return {path};
  const std::vector<std::string> names = job::key_names();
  const std::string word = job::last_of(path), section = job::section_of(path);
  const bool known_section = std::ranges::find(job::sections(), section) != job::sections().end();
  // Keys with the same last word come first, in any section: "learning_rate" is a key of the optimizer. Other programs'
  // words follow, then the nearest key of the named section.
  std::vector<std::string> namesakes = job::with_last_word(names, word);
  // "steps" is max_steps, except in a section such as "schedule".
  const bool other_word = std::ranges::any_of(job::kOtherWords, [&](const auto& each) { return each.first == word; });
  if (namesakes.size() == 1 && (!other_word || nearest(section, job::sections()) == job::section_of(namesakes.front())))
    return namesakes;
  if (std::string key = job::known_elsewhere(path); !key.empty()) return {key};
  if (!namesakes.empty()) return job::chosen_of(std::move(namesakes), path);
  if (known_section) {
    if (const auto near = nearest(word, job::keys_of(section))) return {section + "." + *near};
    // "bottleneck" of bottleneck_dim
    std::vector<std::string> longer;
    for (const std::string& key : job::keys_of(section))
      if (word.size() > 2 && ("_" + key + "_").find("_" + word + "_") != std::string::npos)
        longer.push_back(section + "." + key);
    if (!longer.empty() && longer.size() < 4) return longer;
  } else {
    std::vector<std::string> candidates = names;
    candidates.insert(candidates.end(), job::sections().begin(), job::sections().end());
    if (const auto near = nearest(path, candidates)) return {*near};
  }
  std::vector<std::string> words;
  for (const std::string& name : names) words.push_back(job::last_of(name));
  const auto near = nearest(word, words);
  return near ? job::chosen_of(job::with_last_word(names, *near), path) : std::vector<std::string>();
}

namespace job {

std::vector<std::string> keys_of(const std::string& section) {
  std::vector<std::string> names;
  for (const std::string& each : sections())
    if (section_of(each) == section) names.push_back(last_of(each));
  for (const std::string& name : key_names())
    if (section_of(name) == section) names.push_back(last_of(name));
  return names;
}

std::string some_keys_of(const std::string& section) {
  constexpr size_t most = 14;
  const std::vector<std::string> all = keys_of(section);
  if (section.empty() || all.size() <= most) return joined(all, ", ");
  // Keys come first, then sections.
  std::vector<std::string> some;
  for (const std::string& name : all)
    if (find_key(section + "." + name) != nullptr && some.size() < most) some.push_back(name);
  return fmt::format("{} and {} more (docs/job-file.md)", joined(some, ", "), all.size() - some.size());
}

std::string advice_for_unknown_key(const std::string& path) {
  std::vector<std::string> meant = suggest_keys(path);
  if (meant.empty()) return "";
  if (meant.size() > 4) meant.resize(4);
  return fmt::format("; did you mean '{}'?", joined(meant, "' or '"));
}

void refuse_unknown_key(std::string path, Node::Entry entry, const Source& source) {
  // For an unknown section, its first key is named, because it may belong to a known section.
  if (path.find('.') == std::string::npos && entry.value->kind == Node::Kind::mapping &&
      !entry.value->entries.empty()) {
    entry = entry.value->entries.front();
    path += "." + entry.key;
  }
  const std::string where = fmt::format("{}: unknown key {}", source.at(entry.line, entry.column), in_quotes(path));
  if (const std::string slip = slip_in(entry); !slip.empty()) throw UserError(fmt::format("{}; {}", where, slip));
  if (const std::string advice = advice_for_unknown_key(path); !advice.empty()) throw UserError(where + advice);
  std::string section = section_of(path);
  if (const auto near = nearest(section, sections()))
    section = *near;
  else
    section.clear();
  throw UserError(fmt::format("{}; {}: {}", where, section.empty() ? "the job file has" : "keys of " + section,
                              some_keys_of(section)));
}

}  // namespace job
}  // namespace plimsoll
