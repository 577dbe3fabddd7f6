#include "train/skipped_steps.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>

#include "base/text.h"
#include "plimsoll/training.h"

namespace plimsoll {
namespace {

constexpr size_t kMaxNames = 4;  // samples that a message names for each input

/// The values of one sample in an input: value i belongs to channel i / inner % channels.
struct Layout {
  int64_t count = 1, channels = 1, inner = 1;
  int64_t compared = 1;  // channels that count: the first ones
};

Layout layout_of(const BatchField& field) {
  Layout layout;
  for (size_t i = 1; i < field.sizes.size(); ++i) layout.count *= field.sizes[i];
  layout.inner = layout.count;
  if (field.name == "image" || (field.name == "vectors" && field.sizes.back() > 1)) {
    layout.channels = field.sizes.back(), layout.inner = 1;
    layout.compared = layout.channels - (field.name == "vectors" ? 1 : 0);  // the last number of a vector is its time
  } else if (field.name == "frames" && field.sizes.size() == 5) {
    layout.channels = field.sizes[2], layout.inner = field.sizes[3] * field.sizes[4];
    layout.compared = layout.channels;
  }
  return layout;
}

float number(const BatchField& field, int64_t index) {
  const std::byte* at = field.bytes.data() + index * element_bytes(field.dtype);
  if (field.dtype == DType::bfloat16) {
    uint16_t bits = 0;
    std::memcpy(&bits, at, sizeof bits);
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
  float value = 0;
  std::memcpy(&value, at, sizeof value);
  return value;
}

struct Look {
  bool finite = true, constant = true;
  bool one_value = true;  // the channels have the same constant
  float value = 0;        // of the first channel
};

Look look_at(const BatchField& field, const Layout& layout, int64_t sample) {
  Look look;
  const int64_t first = sample * layout.count;
  for (int64_t i = 0; i < layout.count; ++i) {
    const float value = number(field, first + i);
    look.finite = look.finite && std::isfinite(value);
    const int64_t channel = i / layout.inner % layout.channels;
    if (channel >= layout.compared) continue;
    look.constant = look.constant && value == number(field, first + channel * layout.inner);
    look.one_value = look.one_value && value == number(field, first);
  }
  look.value = number(field, first);
  return look;
}

void add(std::vector<InputFact>& facts, const std::string& input, bool finite, const std::string& value,
         const std::string& name) {
  auto fact =
      std::ranges::find_if(facts, [&](const InputFact& each) { return each.input == input && each.finite == finite; });
  if (fact == facts.end()) {
    facts.push_back({.input = input, .finite = finite, .value = value});
    fact = facts.end() - 1;
  }
  ++fact->samples;
  if (fact->value != value) fact->value.clear();
  if (!name.empty() && std::ranges::find(fact->names, name) == fact->names.end()) fact->names.push_back(name);
}

std::string describe(const InputFact& fact, int64_t samples) {
  const std::string what = !fact.finite         ? "is not finite"
                           : fact.value.empty() ? "is constant"
                                                : fmt::format("is {} everywhere", fact.value);
  std::string text =
      fmt::format("the input {} {} in {} of {} samples", in_quotes(fact.input), what, fact.samples, samples);
  if (fact.names.empty()) return text;
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(kMaxNames, fact.names.size()); ++i) names.push_back(one_line(fact.names[i]));
  text += fmt::format(" ({}", fmt::join(names, ", "));
  if (fact.names.size() > kMaxNames) text += fmt::format(" and {} more", fact.names.size() - kMaxNames);
  return text + ")";
}

/// Returns the sentence on the gradients; "" if they say nothing.
std::string describe_gradients(const FirstBadStep& first) {
  const auto& norms = first.gradient_norms;
  if (norms.empty() || !std::isfinite(first.loss)) return "";
  const auto is_bad = [](const auto& norm) { return !std::isfinite(norm.second); };
  if (const auto bad = std::ranges::find_if(norms, is_bad); bad != norms.end())
    return fmt::format("; the backward pass reaches the gradient of {} first of the {} of {} that are not finite",
                       bad->first, std::ranges::count_if(norms, is_bad), norms.size());
  const auto largest = std::ranges::max_element(norms, {}, [](const auto& norm) { return norm.second; });
  return fmt::format("; each gradient is finite, the largest is that of {} with a norm of {:.3g}", largest->first,
                     largest->second);
}

std::string remedy(const FirstBadStep& first, const std::vector<InputFact>& facts, Precision precision) {
  std::string text;
  if (std::ranges::any_of(facts, [](const InputFact& fact) { return !fact.finite; }))
    text = "correct these samples or remove them from the data";
  else if (!facts.empty())
    text = fmt::format("look at these samples, and remove them from the data if they are blank by mistake{}",
                       std::isfinite(first.loss) ? "" : "; look for values that are too large in the inputs");
  else
    text = fmt::format("look for values that are too large in the inputs and in the weights that the {} starts from",
                       first.step > 1 ? "run" : "model");
  if (precision == Precision::fp16_mixed) text += fmt::format(", or set precision: {}", name_of(Precision::bf16_mixed));
  if (precision == Precision::bf16_mixed || precision == Precision::bf16_true)
    text += fmt::format(", or set precision: {}", name_of(Precision::fp32_true));
  return text;
}

}  // namespace

void add_input_facts(const Batch& batch, const std::function<std::string(int64_t sample)>& name_of,
                     std::vector<InputFact>& facts) {
  for (const BatchField& field : batch.fields) {
    if ((field.dtype != DType::float32 && field.dtype != DType::bfloat16) || field.name == kSampleMask) continue;
    const Layout layout = layout_of(field);
    if (layout.count <= layout.channels) continue;  // one number of each channel is always constant
    for (int64_t sample = 0; sample < batch.samples; ++sample) {
      const Look look = look_at(field, layout, sample);
      if (look.finite && !look.constant) continue;
      const std::string value = look.finite && look.one_value ? fmt::format("{:.6g}", look.value) : "";
      add(facts, field.name, look.finite, value, name_of(sample));
    }
  }
}

std::string describe_divergence(int64_t skipped, int64_t step, int64_t saved_step) {
  return fmt::format(
      "the last {} steps, up to {}, were skipped because a gradient was not finite: the run has diverged; "
      "lower optimizer.learning_rate, lengthen scheduler.warmup_steps, or set precision: bf16-mixed{}",
      skipped, step, saved_step > 0 ? fmt::format("; the last checkpoint is of step {}", saved_step) : "");
}

std::string describe_no_step(const StepCounts& counts, const FirstBadStep& first, const std::vector<InputFact>& facts,
                             Precision precision) {
  std::string text =
      counts.skipped == counts.steps
          ? fmt::format("no step was taken: all {} steps were skipped because a gradient was not finite", counts.steps)
          : fmt::format("no step had a finite loss, and {} of {} steps were skipped because a gradient was not finite",
                        counts.skipped, counts.steps);
  text += fmt::format(
      "; optimizer.learning_rate is not the cause; at step {} the loss is {:.6g} and the norm of all gradients "
      "{:.3g}{}",
      first.step, first.loss, first.gradient_norm, describe_gradients(first));
  for (const InputFact& fact : facts) text += "; " + describe(fact, first.windows);
  return text + "; " + remedy(first, facts, precision);
}

}  // namespace plimsoll
