// Declares the division of labeled items into parts such that no part lacks a label.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/part_labels.h"

namespace plimsoll {

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
