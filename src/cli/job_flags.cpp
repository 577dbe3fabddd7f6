#include "cli/job_flags.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

#include "cli/value_checks.h"
#include "plimsoll/error.h"

namespace plimsoll::cli {
namespace {

constexpr const char* kGroup = "The usual flags (each is a key of the job file; what it does to memory)";

// "--batch-size" is also "--batch_size"; "--no-use-amp" is "--no_use_amp" and, as Python's argparse writes it,
// "--no-use_amp".
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
void add(CLI::App& command, const char* name, bool& value, const char* meaning) {
  command.add_flag(all_spellings(name), value, meaning)->group(kGroup);
}

// A value as YAML: quoted, so that nothing in it is syntax.
std::string quoted(const std::string& value) {
  std::string text = "'";
  for (const char c : value) text += c == '\'' ? std::string("''") : std::string(1, c);
  return text + "'";
}

// Of two whole numbers; nothing where they are none, which is said where they are read.
std::optional<int64_t> product_of(const std::string& a, const std::string& b) {
  constexpr int64_t most = int64_t{1} << 20;
  int64_t product = 1;
  for (const std::string& text : {a, b}) {
    int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || number < 1 || number > most) return std::nullopt;
    product *= number;
  }
  return product;
}

}  // namespace

void JobFlags::add_to(CLI::App& command) {
  add(command, "--batch-size", batch_size_,
      "samples a step (batch_size): no memory of its own, the planner chooses how many at a time; beside "
      "--gradient-accumulation-steps samples at a time (micro_batch_size), which activations grow with");
  add(command, "--gradient-accumulation-steps", accumulation_,
      "micro batches a step: activations of one at a time, no more memory than the gradients");
  add(command, "--gradient-checkpointing", checkpointing_,
      "keep each layer's input only: less memory for activations, about a third more arithmetic; without it the "
      "planner rebuilds what the budget asks for, value by value");
  add(command, "--no-gradient-checkpointing", no_checkpointing_, "rebuild nothing: most memory for activations");
  add(command, "--use-amp", amp_, "precision: bf16-mixed: about half the memory for activations; weights stay float32");
  add(command, "--no-use-amp", no_amp_, "precision: 32-true: everything float32");
  add(command, "--max-frames", max_frames_, "data.max_frames of a video: activations grow with them");
  add(command, "--image-size", image_size_, "model.image_size, height and width: activations grow with its square");
  add(command, "--num-workers", workers_,
      "data.num_workers: threads that prepare batches; host memory goes by data.prefetch, not by them");
  add(command, "--learning-rate", learning_rate_, "optimizer.learning_rate: no memory");
  add(command, "--num-epochs", epochs_, "max_epochs: no memory");
  add(command, "--data-root", data_root_, "the folder that relative paths of data.* start from: no memory");
  add(command, "--compile-model", compile_,
      "compile: true: every chain of pointwise operators runs as one, what lies between takes no memory; without the "
      "flag where that gains something");
  add(command, "--no-compile-model", no_compile_, "compile: false: every operator runs by itself");
  command
      .add_option(
          "--recipe", recipe_,
          "saving: the least memory (bf16-true, 8-bit state, updates in backward); balanced: bf16-mixed; speed: "
          "bf16-mixed, nothing rebuilt. Micro batch and the rest follow from the budget")
      ->group(kGroup)
      ->option_text("saving | balanced | speed")
      ->check(one_of({"saving", "balanced", "speed"}));
}

std::vector<std::string> JobFlags::overrides() const {
  const auto not_both = [](bool a, bool b, const char* first, const char* second) {
    if (a && b) throw UserError(fmt::format("{} and {} say the opposite; give one of them", first, second));
  };
  not_both(amp_, no_amp_, "--use-amp", "--no-use-amp");
  not_both(checkpointing_, no_checkpointing_, "--gradient-checkpointing", "--no-gradient-checkpointing");
  not_both(compile_, no_compile_, "--compile-model", "--no-compile-model");
  std::vector<std::string> overrides;
  const auto put = [&](const char* key, const std::string& value) {
    if (!value.empty()) overrides.push_back(fmt::format("{}={}", key, quoted(value)));
  };
  // A recipe first: what is said beside it goes before it.
  if (recipe_ == "saving")
    overrides.insert(overrides.end(),
                     {"precision=bf16-true", "optimizer.state_dtype=8bit", "optimizer.weight_update=stochastic",
                      "update_in_backward=auto", "gradient_accumulation_dtype=8bit", "gradient_checkpointing=auto"});
  if (recipe_ == "balanced") overrides.insert(overrides.end(), {"precision=bf16-mixed", "gradient_checkpointing=auto"});
  if (recipe_ == "speed") overrides.insert(overrides.end(), {"precision=bf16-mixed", "gradient_checkpointing=false"});
  if (amp_) overrides.emplace_back("precision=bf16-mixed");
  if (no_amp_) overrides.emplace_back("precision=32-true");
  if (checkpointing_) overrides.emplace_back("gradient_checkpointing=true");
  if (no_checkpointing_) overrides.emplace_back("gradient_checkpointing=false");
  if (compile_) overrides.emplace_back("compile=true");
  if (no_compile_) overrides.emplace_back("compile=false");
  // Of the three numbers two are said, or one: what the file says of the others does not hold any more.
  if (!batch_size_.empty() && !accumulation_.empty()) {
    put("micro_batch_size", batch_size_);
    put("gradient_accumulation_steps", accumulation_);
    if (const auto product = product_of(batch_size_, accumulation_)) put("batch_size", std::to_string(*product));
  } else if (!batch_size_.empty()) {
    put("batch_size", batch_size_);
    overrides.insert(overrides.end(), {"micro_batch_size=auto", "gradient_accumulation_steps=auto"});
  } else if (!accumulation_.empty()) {
    put("gradient_accumulation_steps", accumulation_);
    overrides.emplace_back("micro_batch_size=auto");
  }
  put("data.max_frames", max_frames_);
  put("model.image_size", image_size_);
  put("data.num_workers", workers_);
  put("optimizer.learning_rate", learning_rate_);
  put("max_epochs", epochs_);
  put("data.root", data_root_);
  return overrides;
}

}  // namespace plimsoll::cli
