#include "cli/job_flags.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

#include "cli/value_checks.h"
#include "plimsoll/error.h"

namespace plimsoll::cli {
namespace {

constexpr const char* kGroup = "The usual flags (each sets a key of the job file; with its effect on memory)";

// Returns all spellings of an option. "--batch-size" is also "--batch_size". "--no-use-amp" is "--no_use_amp" and, in
// the style of Python's argparse, "--no-use_amp".
std::string all_spellings(const std::string& name) {
  std::string spellings = name;
  for (const size_t kept : {size_t{2}, std::string_view("--no-").size()}) {
    if (kept > 2 && !name.starts_with("--no-")) continue;
    std::string other = name;
    std::replace(other.begin() + static_cast<std::ptrdiff_t>(kept), other.end(), '-', '_');
    if (other != name) spellings += "," + other;
  }
  return spellings;
}

void add(CLI::App& command, const char* name, std::string& value, const char* meaning) {
  command.add_option(all_spellings(name), value, meaning)->group(kGroup)->option_text("VALUE")->check(not_empty());
}
void add(CLI::App& command, const char* name, Switch& value, const char* meaning) {
  value.option = command.add_flag(all_spellings(name), value.value, meaning)->group(kGroup);
}

// Returns a value as YAML: quoted, so that nothing in it is syntax.
std::string quoted(const std::string& value) {
  std::string text = "'";
  for (const char c : value) text += c == '\'' ? std::string("''") : std::string(1, c);
  return text + "'";
}

// Returns the value of a flag and its opposite together; nullopt if neither is given.
std::optional<bool> stated(const Switch& yes, const Switch& no, const char* name) {
  const std::optional<bool> is = yes.stated(), is_not = no.stated();
  if (is && is_not && *is == *is_not) {
    const std::string opposite = fmt::format("--no-{}", std::string_view(name).substr(2));
    throw UserError(fmt::format("{}{} and {}{} say the opposite; give one of them", name, *is ? "" : "=false", opposite,
                                *is_not ? "" : "=false"));
  }
  return is ? is : is_not ? std::optional(!*is_not) : std::nullopt;
}

}  // namespace

std::optional<bool> Switch::stated() const {
  return option != nullptr && option->count() > 0 ? std::optional(value) : std::nullopt;
}

void JobFlags::add_to(CLI::App& command) {
  add(command, "--batch-size", batch_size_,
      "batch_size: samples in an optimizer step; the planner chooses the micro batch. If gradient_accumulation_steps "
      "is set too: samples in a micro batch; activations grow with them");
  add(command, "--gradient-accumulation-steps", accumulation_,
      "micro batches in an optimizer step of --batch-size x N samples: memory for the activations of one micro batch "
      "and for the gradients");
  add(command, "--gradient-checkpointing", checkpointing_,
      "keep only the input of each layer: less memory for activations, about a third more arithmetic. Default: the "
      "planner recomputes only the values that the budget needs");
  add(command, "--no-gradient-checkpointing", no_checkpointing_, "recompute nothing: largest memory for activations");
  add(command, "--use-amp", amp_, "precision: bf16-mixed; about half the memory for activations, weights stay float32");
  add(command, "--no-use-amp", no_amp_, "precision: 32-true; all values are float32");
  add(command, "--max-frames", max_frames_, "data.max_frames: frames of a video; activations grow with them");
  add(command, "--image-size", image_size_,
      "model.image_size: height and width in pixels; activations grow with its square");
  add(command, "--num-workers", workers_,
      "data.num_workers: threads that prepare batches (host memory: data.prefetch)");
  add(command, "--learning-rate", learning_rate_, "optimizer.learning_rate: no effect on memory");
  add(command, "--num-epochs", epochs_, "max_epochs: no effect on memory");
  add(command, "--data-root", data_root_, "data.root: folder of relative paths in data.*; no effect on memory");
  add(command, "--max-seq-length", sequence_, "data.sequence_length: tokens in a sequence; activations grow with it");
  add(command, "--device", device_, "device to train on: cpu, cuda, rocm or mps");
  add(command, "--bf16", bf16_, "precision: bf16-mixed; same as --use-amp");
  add(command, "--fp16", fp16_, "precision: 16-mixed, with loss scaling; same memory as --bf16");
  add(command, "--process-budget", process_budget_,
      "process_budget: resident memory of the whole process, as the operating system counts it; auto: the limit of the "
      "container, or what the machine has free");
  add(command, "--pin-memory", pinned_, "no effect: batches always go to the device through pinned host memory");
  add(command, "--persistent-workers", persistent_, "no effect: the threads that prepare batches always persist");
  add(command, "--compile-model", compile_,
      "compile: true; each chain of pointwise operators runs as one op, without memory for intermediate values. "
      "Default: only chains that save time");
  add(command, "--no-compile-model", no_compile_, "compile: false; operators are not fused");
  command
      .add_option("--recipe", recipe_,
                  "set of keys; saving: lowest memory (bf16-true, 8-bit optimizer state, updates in backward); "
                  "balanced: bf16-mixed; speed: bf16-mixed without recomputation. The planner chooses the rest")
      ->group(kGroup)
      ->option_text("saving | balanced | speed")
      ->check(one_of({"saving", "balanced", "speed"}));
}

std::vector<std::string> JobFlags::overrides() const {
  const std::optional<bool> amp = stated(amp_, no_amp_, "--use-amp"),
                            compile = stated(compile_, no_compile_, "--compile-model"),
                            checkpointing = stated(checkpointing_, no_checkpointing_, "--gradient-checkpointing");
  const std::optional<bool> bf16 = bf16_.stated(), fp16 = fp16_.stated();
  // Flags have no order, so no flag overrides another: contradictions are errors.
  if (amp == false && (bf16 == true || fp16 == true))
    throw UserError(fmt::format("{} and --no-use-amp contradict each other; leave one of them out",
                                bf16 == true ? "--bf16" : "--fp16"));
  std::vector<std::string> overrides;
  const auto put = [&](const char* key, const std::string& value) {
    if (!value.empty()) overrides.push_back(fmt::format("{}={}", key, quoted(value)));
  };
  // A recipe comes first, so that other flags override it.
  if (recipe_ == "saving")
    overrides.insert(overrides.end(),
                     {"precision=bf16-true", "optimizer.state_dtype=8bit", "optimizer.weight_update=stochastic",
                      "update_in_backward=auto", "gradient_accumulation_dtype=8bit", "gradient_checkpointing=auto"});
  if (recipe_ == "balanced") overrides.insert(overrides.end(), {"precision=bf16-mixed", "gradient_checkpointing=auto"});
  if (recipe_ == "speed") overrides.insert(overrides.end(), {"precision=bf16-mixed", "gradient_checkpointing=false"});
  if (amp) overrides.emplace_back(*amp ? "precision=bf16-mixed" : "precision=32-true");
  // Passed as keys of their own, whose false means "not that"; the reader of the job refuses contradictions.
  if (bf16) overrides.emplace_back(*bf16 ? "bf16=true" : "bf16=false");
  if (fp16) overrides.emplace_back(*fp16 ? "fp16=true" : "fp16=false");
  if (checkpointing)
    overrides.emplace_back(*checkpointing ? "gradient_checkpointing=true" : "gradient_checkpointing=false");
  if (compile) overrides.emplace_back(*compile ? "compile=true" : "compile=false");
  put("batch_size", batch_size_);
  put("gradient_accumulation_steps", accumulation_);
  put("data.max_frames", max_frames_);
  put("process_budget", process_budget_);
  put("model.image_size", image_size_);
  put("data.num_workers", workers_);
  put("optimizer.learning_rate", learning_rate_);
  put("max_epochs", epochs_);
  put("data.root", data_root_);
  put("data.sequence_length", sequence_);
  put("device", device_);
  if (const auto pinned = pinned_.stated()) overrides.emplace_back(*pinned ? "pin_memory=true" : "pin_memory=false");
  if (const auto persist = persistent_.stated())
    overrides.emplace_back(*persist ? "persistent_workers=true" : "persistent_workers=false");
  return overrides;
}

}  // namespace plimsoll::cli
