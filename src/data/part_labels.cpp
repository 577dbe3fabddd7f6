#include "data/part_labels.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/quoted.h"
#include "files/data_notes.h"

namespace plimsoll {
namespace {

constexpr std::string_view kNames[kDataParts] = {"training", "validation", "test"};
constexpr DataPart kHeldOut[] = {DataPart::validation, DataPart::test};

std::string_view name_of(DataPart part) {
  return kNames[static_cast<size_t>(part)];
}

/// Returns "class d", "classes d, e".
std::string listed(const std::string& label, const std::vector<std::string>& names) {
  const bool hisses = label.ends_with('s');
  return fmt::format("{}{} {}", label, names.size() == 1 ? "" : hisses ? "es" : "s", few_names(names));
}

}  // namespace

PartLabels::Label& PartLabels::of(int32_t label) {
  const auto at = static_cast<size_t>(label);
  if (at >= labels_.size()) labels_.resize(at + 1);
  return labels_[at];
}

void PartLabels::add(DataPart part, std::span<const int32_t> labels) {
  ++samples_[static_cast<size_t>(part)];
  for (const int32_t label : labels) ++of(label).samples[static_cast<size_t>(part)];
  if (part != DataPart::train) held_out_.emplace_back(part, std::vector<int32_t>(labels.begin(), labels.end()));
}

PartLabels::Lacking PartLabels::lacking() const {
  Lacking result;
  for (const Label& label : labels_) {
    if (!label.expected && label.samples == Counts{}) continue;
    result.untrained += !label.is_in(DataPart::train);
    for (const DataPart part : {DataPart::train, DataPart::validation, DataPart::test})
      result.missing += (part == DataPart::train || samples_of(part) > 0) && !label.is_in(part);
  }
  return result;
}

std::string PartLabels::never_trained(DataPart part, std::span<const std::string> names) const {
  std::vector<std::string> untrained;
  for (size_t i = 0; i < labels_.size(); ++i)
    if (labels_[i].is_in(part) && !labels_[i].is_in(DataPart::train)) untrained.push_back(names[i]);
  if (untrained.empty()) return "";
  const auto concerned = std::ranges::count_if(held_out_, [&](const auto& sample) {
    return sample.first == part && std::ranges::any_of(sample.second, [&](int32_t label) {
             return !labels_[static_cast<size_t>(label)].is_in(DataPart::train);
           });
  });
  return fmt::format("{} of {} {} {} show what is never trained on: {}", concerned, samples_of(part), name_of(part),
                     words_.samples, listed(words_.label, untrained));
}

std::vector<std::string> PartLabels::notes(std::span<const std::string> names) const {
  std::vector<std::string> notes;
  for (const DataPart part : {DataPart::train, DataPart::validation, DataPart::test}) {
    if (samples_of(part) == 0) continue;
    std::vector<std::string> lacking;
    for (size_t i = 0; i < labels_.size(); ++i)
      if ((labels_[i].expected || labels_[i].samples != Counts{}) && !labels_[i].is_in(part))
        lacking.push_back(names[i]);
    if (lacking.empty()) continue;
    notes.push_back(fmt::format("the {} part has no {} of {} {}{}", name_of(part), words_.samples,
                                lacking.size() == 1 ? "the" : std::to_string(lacking.size()),
                                listed(words_.label, lacking),
                                part == DataPart::train ? "" : "; its loss and metrics do not cover them"));
  }
  for (const DataPart part : kHeldOut)
    if (std::string warning = never_trained(part, names); !warning.empty()) notes.push_back(std::move(warning));
  return notes;
}

void note_parts(const PartLabels& labels, std::span<const std::string> names, const std::filesystem::path& file) {
  for (std::string& note : labels.notes(names)) note_data(file, std::move(note));
}

}  // namespace plimsoll
