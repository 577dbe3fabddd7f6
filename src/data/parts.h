// Declares the parts of the data, the count of their samples by label (class, structure, caption), and the division
// of labeled items into parts such that no part lacks a label.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

/// A part of the data. Split::validation (data/sampler.h) is the one of `validation` and `test` that data.evaluate_on
/// names.
enum class DataPart : uint8_t { train, validation, test };
inline constexpr size_t kDataParts = 3;

/// Words of messages.
struct PartWords {
  std::string samples;  ///< "series", "pictures"
  std::string label;    ///< "class", "structure"
};

/// A count of samples by part and label.
class PartLabels {
 public:
  explicit PartLabels(PartWords words) : words_(std::move(words)) {}

  /// Adds a label that notes() names even if no sample has it.
  void expect(int32_t label) { of(label).expected = true; }
  /// Counts a sample of `part` with these labels, each once.
  void add(DataPart part, std::span<const int32_t> labels);
  void add(DataPart part, int32_t label) { add(part, {&label, 1}); }

  /// Labels that parts lack. Fewer labels without training come first.
  struct Lacking {
    int64_t untrained = 0;
    int64_t missing = 0;  ///< summed over training and the parts that have samples
    auto operator<=>(const Lacking&) const = default;
  };
  Lacking lacking() const;

  /// Returns a warning about samples of `part` with labels that no training sample has: "10 of 10 validation series are
  /// of a class that is never trained on: d". Returns "" if there are none. `names` are those of the labels.
  std::string never_trained(DataPart part, std::span<const std::string> names) const;

  /// Returns a sentence for each part that has samples and lacks a label: "the validation part has no series of the
  /// class a". The labels are those of expect() and of the samples.
  std::vector<std::string> notes(std::span<const std::string> names) const;

 private:
  using Counts = std::array<int64_t, kDataParts>;
  int64_t samples_of(DataPart part) const { return samples_[static_cast<size_t>(part)]; }
  struct Label {
    Counts samples = {};
    bool expected = false;
    bool is_in(DataPart part) const { return samples[static_cast<size_t>(part)] > 0; }
  };
  Label& of(int32_t label);

  PartWords words_;
  std::vector<Label> labels_;
  Counts samples_ = {};
  std::vector<std::pair<DataPart, std::vector<int32_t>>> held_out_;  // each sample's labels
};

/// Adds notes() to the thread's list (files/file_kind.h) as notes on `file`.
void note_parts(const PartLabels& labels, std::span<const std::string> names, const std::filesystem::path& file);

/// Items with labels: series with a class, pictures with structures. Labels count from 0.
class LabeledItems {
 public:
  /// Adds an item. `labels` has each label once.
  void add(std::span<const int32_t> labels);
  void add(int32_t label) { add({&label, 1}); }

  size_t size() const { return ends_.size(); }
  size_t label_count() const { return label_count_; }  ///< the highest label and 1
  std::span<const int32_t> labels_of(size_t item) const {
    const size_t begin = item == 0 ? 0 : ends_[item - 1];
    return {labels_.data() + begin, ends_[item] - begin};
  }

 private:
  std::vector<int32_t> labels_;
  std::vector<size_t> ends_;
  size_t label_count_ = 0;
};

/// Returns a part for each item, with as many items in each part as in `parts`.
///
/// A label has room in as many parts as it has items; training comes first. Returns `parts` unchanged if every label is
/// in every part that has room for it, or if no division was found with fewer missing labels. Otherwise the items are
/// divided again by iterative stratification (Sechidis, Tsoumakas, Vlahavas, "On the stratification of multi-label
/// data", 2011), in an order that depends on `seed` alone: first an item of each label for each part, then the rest in
/// proportion.
///
/// `may_move`: true for each item whose part may change; empty: all may. Takes time linear in the labels of all items.
std::vector<DataPart> with_every_label(const LabeledItems& items, const std::vector<DataPart>& parts,
                                       const std::vector<bool>& may_move, uint64_t seed);

}  // namespace plimsoll
