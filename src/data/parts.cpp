#include "data/parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <utility>

#include "base/hash.h"
#include "base/text.h"
#include "files/file_kind.h"
#include "plimsoll/error.h"

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

namespace {

using Counts = std::array<int64_t, kDataParts>;

constexpr uint64_t kSplitStream = 0x73706c69;  // its random numbers are independent of other uses of the seed

/// Labels that parts lack. Fewer labels without training come first.
struct Lacking {
  int64_t untrained = 0;
  int64_t missing = 0;
  auto operator<=>(const Lacking&) const = default;
};

Lacking lacking(const LabeledItems& items, const std::vector<DataPart>& parts) {
  std::vector<Counts> counts(items.label_count());
  Counts sizes = {};
  for (size_t i = 0; i < items.size(); ++i) {
    ++sizes[static_cast<size_t>(parts[i])];
    for (const int32_t label : items.labels_of(i)) ++counts[static_cast<size_t>(label)][static_cast<size_t>(parts[i])];
  }
  const int64_t used = kDataParts - std::ranges::count(sizes, 0);
  Lacking result;
  for (const Counts& label : counts) {
    const int64_t all = std::accumulate(label.begin(), label.end(), int64_t{0});
    const int64_t covered = kDataParts - std::ranges::count(label, 0);
    result.untrained += all > 0 && label[0] == 0 && sizes[0] > 0;
    result.missing += std::min(all, used) - covered;
  }
  return result;
}

/// A division in progress.
class Division {
 public:
  Division(const LabeledItems& items, const std::vector<DataPart>& parts, const std::vector<bool>& may_move,
           uint64_t seed)
      : items_(items), part_of_(items.size()), have_(items.label_count()), wanted_(items.label_count()) {
    Counts sizes = {};
    std::vector<int64_t> totals(items.label_count());
    for (size_t i = 0; i < items.size(); ++i) {
      const auto part = static_cast<size_t>(parts[i]);
      ++sizes[part];
      for (const int32_t label : items.labels_of(i)) ++totals[static_cast<size_t>(label)];
      if (may_move.empty() || may_move[i]) {
        ++room_[part];
        open_.push_back(i);
      } else {
        take(i, parts[i]);
      }
    }
    for (size_t label = 0; label < totals.size(); ++label)
      for (size_t part = 0; part < kDataParts; ++part)
        wanted_[label][part] = static_cast<double>(totals[label]) * static_cast<double>(sizes[part]) /
                               static_cast<double>(std::max<size_t>(1, items.size()));
    std::vector<std::pair<uint64_t, size_t>> drawn;
    for (const size_t i : open_) drawn.emplace_back(mix64(mix64(seed + kSplitStream) + i), i);
    std::ranges::sort(drawn);
    for (size_t k = 0; k < open_.size(); ++k) open_[k] = drawn[k].second;
  }

  std::vector<DataPart> divided() {
    cover();
    fill();
    std::vector<DataPart> parts;
    for (const std::optional<DataPart>& part : part_of_) parts.push_back(*part);
    return parts;
  }

 private:
  void take(size_t item, DataPart part) {
    part_of_[item] = part;
    for (const int32_t label : items_.labels_of(item)) ++have_[static_cast<size_t>(label)][static_cast<size_t>(part)];
  }
  void assign(size_t item, size_t part) {
    --room_[part];
    take(item, static_cast<DataPart>(part));
  }

  /// Returns the number of the item's labels that the part lacks.
  int64_t new_labels(size_t item, size_t part) const {
    return std::ranges::count_if(items_.labels_of(item),
                                 [&](int32_t label) { return have_[static_cast<size_t>(label)][part] == 0; });
  }

  /// Assigns an item of each label to each part that has room: first to training, then to the parts with most room.
  void cover() {
    of_label_.resize(items_.label_count());
    for (const size_t item : open_)
      for (const int32_t label : items_.labels_of(item)) of_label_[static_cast<size_t>(label)].push_back(item);
    std::vector<size_t> labels(of_label_.size());
    std::iota(labels.begin(), labels.end(), size_t{0});
    std::ranges::stable_sort(labels, {}, [&](size_t label) { return of_label_[label].size(); });
    // Rare labels come first. If training cannot have all labels, it gets those that other parts have as well.
    std::vector<size_t> trained = labels;
    if (room_[0] < std::ssize(labels)) std::ranges::reverse(trained);
    for (const size_t label : trained) cover(label, 0);
    for (const size_t label : labels) {
      const bool test_first = room_[2] > room_[1];
      cover(label, test_first ? 2 : 1);
      cover(label, test_first ? 1 : 2);
    }
  }

  /// Assigns an item of the label to the part if it has none: the one with most labels that the part lacks.
  void cover(size_t label, size_t part) {
    if (have_[label][part] > 0 || room_[part] == 0) return;
    std::optional<size_t> best;
    for (const size_t item : of_label_[label])
      if (!part_of_[item] && (!best || new_labels(item, part) > new_labels(*best, part))) best = item;
    if (best) assign(*best, part);
  }

  /// Assigns each remaining item to the part that lacks most of its labels' shares.
  void fill() {
    for (const size_t item : open_) {
      if (part_of_[item]) continue;
      const auto deficit = [&](size_t part) {
        double sum = 0;
        for (const int32_t label : items_.labels_of(item)) {
          const auto at = static_cast<size_t>(label);
          sum += wanted_[at][part] - static_cast<double>(have_[at][part]);
        }
        return sum;
      };
      std::optional<size_t> best;
      for (size_t part = 0; part < kDataParts; ++part)
        if (room_[part] > 0 &&
            (!best || std::pair(deficit(part), room_[part]) > std::pair(deficit(*best), room_[*best])))
          best = part;
      check(best.has_value(), "the parts have room for all items");
      assign(item, *best);
    }
  }

  const LabeledItems& items_;
  std::vector<std::optional<DataPart>> part_of_;
  std::vector<size_t> open_;                            // items that may move, in the order of the seed
  std::vector<std::vector<size_t>> of_label_;           // those with each label
  std::vector<Counts> have_;                            // items of each label in each part
  std::vector<std::array<double, kDataParts>> wanted_;  // their proportional numbers
  Counts room_ = {};                                    // items that each part still takes
};

}  // namespace

void LabeledItems::add(std::span<const int32_t> labels) {
  for (const int32_t label : labels) {
    check(label >= 0, "labels count from 0");
    label_count_ = std::max(label_count_, static_cast<size_t>(label) + 1);
  }
  labels_.insert(labels_.end(), labels.begin(), labels.end());
  ends_.push_back(labels_.size());
}

std::vector<DataPart> with_every_label(const LabeledItems& items, const std::vector<DataPart>& parts,
                                       const std::vector<bool>& may_move, uint64_t seed) {
  check(parts.size() == items.size() && (may_move.empty() || may_move.size() == items.size()), "every item has a part");
  const Lacking before = lacking(items, parts);
  if (before == Lacking{}) return parts;
  std::vector<DataPart> divided = Division(items, parts, may_move, seed).divided();
  return lacking(items, divided) < before ? divided : parts;
}

}  // namespace plimsoll
