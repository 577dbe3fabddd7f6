#include "job/checks.h"

#include <fmt/format.h>

#include <algorithm>

#include "job/keys/data_kind.h"
#include "job/keys/keys.h"
#include "job/keys/model_kind.h"
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
