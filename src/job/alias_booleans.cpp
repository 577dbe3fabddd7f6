#include "job/alias_booleans.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/quoted.h"
#include "plimsoll/error.h"

namespace plimsoll::job {

using Of = PrecisionClaim::Of;

std::string OtherBooleans::Said::text() const {
  return fmt::format("{}: {}", alias ? alias->name : "precision", one_line(node->text));
}

std::string OtherBooleans::Said::where() const {
  return fmt::format("{}: {} ({}'s name)", source->at(node->line), alias->name, alias->origin);
}

void OtherBooleans::add_precision(const Node& node, const Source& source) {
  said_.push_back({&node, &source, nullptr});
  claims_.push_back({Of::name, true, node.text, said_.back().text(), source.at(node.line), source.command_line});
}

void OtherBooleans::add(const Alias& alias, const Node& node, const Source& source) {
  const bool yes = read_boolean({&node, alias.name, &source});
  const Said said{&node, &source, &alias};
  if (alias.boolean == Alias::Boolean::cpu) {
    no_cpu_ = yes ? std::nullopt : std::optional(said);
    return;
  }
  const Of of = alias.boolean == Alias::Boolean::bf16   ? Of::bf16
                : alias.boolean == Alias::Boolean::fp16 ? Of::fp16
                                                        : Of::mixed;
  claims_.push_back({of, yes, "", said.text(), source.at(node.line), source.command_line});
  said_.push_back(said);
}

OtherBooleans::Precision OtherBooleans::precision(bool float16_weights) const {
  if (std::ranges::all_of(claims_, [](const PrecisionClaim& claim) { return claim.of == Of::name; })) return {};
  const ClaimedPrecision result = settled(claims_, float16_weights);
  const bool by_weights = float16_weights && settled(claims_).word != result.word;
  Precision precision;
  for (const auto& [index, word] : result.heeded)
    precision.notes.push_back(fmt::format("{} is precision: {} here{}", said_[index].where(), word,
                                          by_weights ? ", as the weights are float16" : ""));
  if (result.word.empty() || claims_[result.decided_by].of == Of::name) return precision;
  precision.word = result.word;
  precision.node = said_[result.decided_by].node;
  precision.source = said_[result.decided_by].source;
  return precision;
}

std::optional<std::string> OtherBooleans::beside(const Value* device) const {
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
