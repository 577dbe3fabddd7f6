#include "job/alias_booleans.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/quoted.h"
#include "plimsoll/error.h"

namespace plimsoll::job {

using Of = PrecisionRequest::Of;

std::string AliasBooleans::Mention::text() const {
  return fmt::format("{}: {}", alias ? alias->name : "precision", one_line(node->text));
}

std::string AliasBooleans::Mention::where() const {
  return fmt::format("{}: {} ({}'s name)", source->at(node->line), alias->name, alias->origin);
}

void AliasBooleans::add_precision(const Node& node, const Source& source) {
  mentions_.push_back({&node, &source, nullptr});
  requests_.push_back({Of::name, true, node.text, mentions_.back().text(), source.at(node.line), source.command_line});
}

void AliasBooleans::add(const Alias& alias, const Node& node, const Source& source) {
  const bool yes = read_boolean({&node, alias.name, &source});
  const Mention mention{&node, &source, &alias};
  if (alias.boolean == Alias::Boolean::cpu) {
    no_cpu_ = yes ? std::nullopt : std::optional(mention);
    return;
  }
  const Of of = alias.boolean == Alias::Boolean::bf16   ? Of::bf16
                : alias.boolean == Alias::Boolean::fp16 ? Of::fp16
                                                        : Of::mixed;
  requests_.push_back({of, yes, "", mention.text(), source.at(node.line), source.command_line});
  mentions_.push_back(mention);
}

AliasBooleans::Precision AliasBooleans::precision(bool float16_weights) const {
  if (std::ranges::all_of(requests_, [](const PrecisionRequest& request) { return request.of == Of::name; })) return {};
  const ResolvedPrecision result = resolve_precision(requests_, float16_weights);
  const bool by_weights = float16_weights && resolve_precision(requests_).word != result.word;
  Precision precision;
  for (const auto& [index, word] : result.applied)
    precision.notes.push_back(fmt::format("{} is precision: {} here{}", mentions_[index].where(), word,
                                          by_weights ? ", as the weights are float16" : ""));
  if (result.word.empty() || requests_[result.decided_by].of == Of::name) return precision;
  precision.word = result.word;
  precision.node = mentions_[result.decided_by].node;
  precision.source = mentions_[result.decided_by].source;
  return precision;
}

std::optional<std::string> AliasBooleans::note_on_device(const Value* device) const {
  constexpr const char* name_one = "name the GPU's kind: device: cuda, rocm or mps";
  if (!no_cpu_) return std::nullopt;
  if (device == nullptr)
    return fmt::format("{} is false, and where no device is given training is on the CPU here; {}", no_cpu_->where(),
                       name_one);
  const bool replaced = device->source->command_line && !no_cpu_->source->command_line;
  if (!device->is("cpu") || replaced) return std::nullopt;
  throw UserError(fmt::format("{}: {} contradicts device: cpu; {}", no_cpu_->source->at(no_cpu_->node->line),
                              no_cpu_->text(), name_one));
}

}  // namespace plimsoll::job
