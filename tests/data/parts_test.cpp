#include "data/parts.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <random>

namespace plimsoll {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::vector<std::string> kNames = {"a", "b", "c", "d"};

TEST(PartLabels, NamesWhatEachPartLacks) {
  PartLabels parts({.samples = "series", .label = "class"});
  for (const int32_t label : {0, 1, 2}) parts.add(DataPart::train, label);
  for (const int32_t label : {3, 3, 0}) parts.add(DataPart::validation, label);
  EXPECT_EQ(parts.never_trained(DataPart::validation, kNames),
            "2 of 3 validation series show what is never trained on: class d");
  EXPECT_EQ(parts.never_trained(DataPart::test, kNames), "");
  EXPECT_THAT(parts.notes(kNames),
              ElementsAre("the training part has no series of the class d",
                          "the validation part has no series of 2 classes b, c; its loss and metrics do not cover them",
                          "2 of 3 validation series show what is never trained on: class d"));
  EXPECT_EQ(parts.lacking(), (PartLabels::Lacking{1, 3}));
}

TEST(PartLabels, SaysNothingIfEveryPartHasEveryLabel) {
  PartLabels parts({.samples = "slices", .label = "structure"});
  const int32_t both[] = {0, 2};
  for (const DataPart part : {DataPart::train, DataPart::test}) parts.add(part, both);
  EXPECT_THAT(parts.notes(kNames), IsEmpty());
  EXPECT_EQ(parts.never_trained(DataPart::test, kNames), "");
  EXPECT_EQ(parts.lacking(), PartLabels::Lacking());
  parts.expect(1);
  EXPECT_THAT(parts.notes(kNames), ElementsAre("the training part has no slices of the structure b",
                                               "the test part has no slices of the structure b; its loss and metrics "
                                               "do not cover them"));
}

using Counts = std::array<int64_t, kDataParts>;

Counts sizes_of(const std::vector<DataPart>& parts) {
  Counts sizes = {};
  for (const DataPart part : parts) ++sizes[static_cast<size_t>(part)];
  return sizes;
}

/// Returns the number of (label, part) pairs that lack an item although the label has as many items as there are parts,
/// and 100 for each label that training lacks.
int64_t lacking(const LabeledItems& items, const std::vector<DataPart>& parts) {
  const Counts sizes = sizes_of(parts);
  int64_t sum = 0;
  for (int32_t label = 0; label < static_cast<int32_t>(items.label_count()); ++label) {
    Counts counts = {};
    for (size_t i = 0; i < items.size(); ++i)
      counts[static_cast<size_t>(parts[i])] += std::ranges::count(items.labels_of(i), label);
    const int64_t all = counts[0] + counts[1] + counts[2];
    if (all == 0) continue;
    const int64_t used = 3 - std::ranges::count(sizes, 0), covered = 3 - std::ranges::count(counts, 0);
    sum += std::min(used, all) - covered + (sizes[0] > 0 && counts[0] == 0 ? 100 : 0);
  }
  return sum;
}

std::vector<DataPart> parts_of(int64_t count, int64_t validation, int64_t test) {
  std::vector<DataPart> parts(static_cast<size_t>(count), DataPart::train);
  std::fill_n(parts.begin(), validation, DataPart::validation);
  std::fill_n(parts.begin() + validation, test, DataPart::test);
  return parts;
}

TEST(StratifiedSplit, KeepsADivisionThatLacksNothing) {
  LabeledItems items;
  for (const int32_t label : {0, 1, 0, 1, 1, 0}) items.add(label);
  using enum DataPart;
  const std::vector<DataPart> parts = {validation, train, train, validation, train, train};
  EXPECT_EQ(with_every_label(items, parts, {}, 7), parts);
}

TEST(StratifiedSplit, GivesEveryPartItsShareOfEveryLabel) {
  LabeledItems items;
  for (int32_t i = 0; i < 400; ++i) items.add(i < 200 ? 0 : i < 300 ? 1 : i < 380 ? 2 : 3);
  const auto before = parts_of(400, 100, 40);  // of label 0 alone
  const auto parts = with_every_label(items, before, {}, 3);
  EXPECT_EQ(sizes_of(parts), (Counts{260, 100, 40}));
  Counts counts[4] = {};
  for (size_t i = 0; i < parts.size(); ++i) ++counts[items.labels_of(i)[0]][static_cast<size_t>(parts[i])];
  const double sizes[4] = {200, 100, 80, 20};
  for (int label = 0; label < 4; ++label) {
    EXPECT_NEAR(static_cast<double>(counts[label][1]), sizes[label] / 4, 1.5) << label;
    EXPECT_NEAR(static_cast<double>(counts[label][2]), sizes[label] / 10, 1.5) << label;
  }
  EXPECT_EQ(with_every_label(items, before, {}, 3), parts);
  EXPECT_NE(with_every_label(items, before, {}, 4), parts);
}

// Training comes first, then the other parts.
TEST(StratifiedSplit, ALabelOfOneItemIsTrainedOn) {
  LabeledItems items;
  for (const int32_t label : {0, 1, 1, 1, 1, 1}) items.add(label);
  const auto parts = with_every_label(items, parts_of(6, 2, 0), {}, 1);
  EXPECT_EQ(parts[0], DataPart::train);
  EXPECT_EQ(sizes_of(parts), (Counts{4, 2, 0}));
}

TEST(StratifiedSplit, LeavesItemsThatMayNotMove) {
  LabeledItems items;
  for (const int32_t label : {0, 0, 1, 1, 1, 1}) items.add(label);
  using enum DataPart;
  const std::vector<DataPart> before = {validation, train, validation, validation, validation, train};
  const std::vector<bool> may_move = {false, true, false, true, true, true};
  EXPECT_EQ(with_every_label(items, before, may_move, 1), before);  // lacks nothing
  const std::vector<DataPart> lacks = {validation, validation, validation, train, train, train};
  const auto parts = with_every_label(items, lacks, may_move, 1);
  EXPECT_EQ(parts[0], validation);
  EXPECT_EQ(parts[1], train);
  EXPECT_EQ(parts[2], validation);
  EXPECT_EQ(sizes_of(parts), sizes_of(lacks));
}

/// Returns the least lacking() of all divisions with the sizes of `parts`.
int64_t least_lacking(const LabeledItems& items, std::vector<DataPart> parts) {
  std::ranges::sort(parts);
  int64_t least = lacking(items, parts);
  while (std::ranges::next_permutation(parts).found) least = std::min(least, lacking(items, parts));
  return least;
}

// Against all divisions: none lacks less if each item has one label. With several labels the result is never worse than
// the division that was given.
TEST(StratifiedSplit, LacksNoMoreThanItMust) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&](uint32_t bound) { return static_cast<int64_t>(random() % bound); };
    const int64_t count = 2 + below(7), validation = below(static_cast<uint32_t>(count)),
                  test = below(static_cast<uint32_t>(count - validation));
    const bool several = seed % 3 == 0;
    LabeledItems items;
    for (int64_t i = 0; i < count; ++i) {
      std::vector<int32_t> labels = {static_cast<int32_t>(below(4))};
      if (several && below(2) == 1) labels.push_back((labels[0] + 1) % 4);
      items.add(labels);
    }
    std::vector<DataPart> before = parts_of(count, validation, test);
    std::ranges::shuffle(before, random);
    const auto parts = with_every_label(items, before, {}, seed);
    EXPECT_EQ(sizes_of(parts), sizes_of(before));
    EXPECT_LE(lacking(items, parts), lacking(items, before));
    if (several) continue;
    EXPECT_EQ(lacking(items, parts), least_lacking(items, before));
  }
}

}  // namespace
}  // namespace plimsoll
