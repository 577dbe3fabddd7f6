#include "plimsoll/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "plan/placement/placement_first_fit.h"
#include "plan/placement/placement_kernel.h"
#include "plan/placement/placement_traces.h"
#include "plan/placement/placement_tree.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

/// Returns the lowest height of any placement. In some order, every box of an optimal placement is at the lowest offset
/// above all earlier boxes it meets.
int64_t optimum(const std::vector<PlacementItem>& items) {
  std::vector<size_t> order(items.size());
  std::iota(order.begin(), order.end(), 0);
  int64_t least = std::numeric_limits<int64_t>::max();
  do {
    std::vector<int64_t> top(items.size(), 0);
    int64_t height = 0;
    for (size_t k = 0; k < order.size(); ++k) {
      const PlacementItem& item = items[order[k]];
      int64_t floor = 0;
      for (size_t e = 0; e < k; ++e) {
        const PlacementItem& earlier = items[order[e]];
        if (earlier.lower < item.upper && item.lower < earlier.upper) floor = std::max(floor, top[order[e]]);
      }
      top[order[k]] = floor + item.size;
      height = std::max(height, top[order[k]]);
    }
    least = std::min(least, height);
  } while (std::next_permutation(order.begin(), order.end()));
  return least;
}

TEST(Placement, OfNothingIsEmpty) {
  const Placement placement = place({});
  EXPECT_THAT(placement.offsets, IsEmpty());
  EXPECT_EQ(placement.height, 0);
  EXPECT_EQ(placement.lower_bound, 0);
}

TEST(Placement, StacksWhatLivesTogetherAndSharesWhatDoesNot) {
  const std::vector<PlacementItem> items = {{0, 2, 16}, {1, 3, 8}, {2, 4, 16}, {3, 5, 8}};
  const Placement placement = place(items);
  EXPECT_EQ(placement.height, 24);
  EXPECT_EQ(placement.lower_bound, 24);
  EXPECT_EQ(check_placement(items, placement), "");
}

TEST(Placement, GivesOffsetZeroToWhatTakesNoRoom) {
  const std::vector<PlacementItem> items = {{0, 9, 64}, {3, 3, 32}, {2, 5, 0}, {7, 4, 8}, {0, 9, 64}};
  const Placement placement = place(items);
  EXPECT_EQ(placement.height, 128);
  EXPECT_THAT(std::vector(placement.offsets.begin() + 1, placement.offsets.begin() + 4), ElementsAre(0, 0, 0));
  EXPECT_EQ(check_placement(items, placement), "");
}

TEST(Placement, TakesAnyTimes) {
  constexpr int64_t least = std::numeric_limits<int64_t>::min();
  constexpr int64_t maximum = std::numeric_limits<int64_t>::max();
  const std::vector<PlacementItem> items = {{least, maximum, 4}, {least, 0, 8}, {-1, maximum, 2}, {0, 1, 8}};
  const Placement placement = place(items);
  EXPECT_EQ(placement.height, 14);
  EXPECT_EQ(check_placement(items, placement), "");
}

TEST(Placement, KeepsTheAlignment) {
  std::mt19937_64 random(7);
  for (const int64_t alignment : {2, 64, 100, 512}) {
    const std::vector<PlacementItem> items = random_items(random, 60, 20, 1000);
    PlacementOptions options;
    options.alignment = alignment;
    const Placement placement = place(items, options);
    EXPECT_EQ(check_placement(items, placement, alignment), "");
    EXPECT_EQ(placement.lower_bound, live_bytes_bound(items, alignment));
    EXPECT_GE(placement.height, placement.lower_bound);
  }
}

TEST(Placement, OfOneLifetimeOrOfNestedOnesHasNoWaste) {
  std::vector<PlacementItem> same;
  std::vector<PlacementItem> nested;
  std::vector<PlacementItem> stairs;
  for (int64_t k = 0; k < 500; ++k) {
    same.push_back({5, 6, 1 + k * 7 % 31});
    nested.push_back({k, 1000 - k, 1 + k * 7 % 31});
    stairs.push_back({k, k + 1, 1 + k * 7 % 31});
  }
  for (const auto& items : {same, nested, stairs}) {
    const Placement placement = place(items);
    EXPECT_EQ(check_placement(items, placement), "");
    EXPECT_EQ(placement.height, live_bytes_bound(items));
  }
}

TEST(Placement, OfRandomProblemsIsValidAndNotFarFromTheBound) {
  std::mt19937_64 random(1);
  PlacementOptions options;
  options.effort = 2000;
  double waste = 0;
  for (int round = 0; round < 500; ++round) {
    const std::vector<PlacementItem> items = random_items(random, draw(random, 1, 120), draw(random, 1, 60),
                                                          draw(random, 1, int64_t{1} << draw(random, 0, 40)));
    const Placement placement = place(items, options);
    ASSERT_EQ(check_placement(items, placement), "") << "round " << round;
    ASSERT_EQ(placement.lower_bound, live_bytes_bound(items)) << "round " << round;
    ASSERT_GE(placement.height, placement.lower_bound) << "round " << round;
    waste += static_cast<double>(placement.height) / static_cast<double>(placement.lower_bound) - 1;
  }
  EXPECT_LT(waste / 500, 0.02);
}

TEST(Placement, OfFewBuffersIsOptimal) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 300; ++round) {
    const std::vector<PlacementItem> items =
        random_items(random, draw(random, 2, 7), draw(random, 3, 8), draw(random, 1, 12));
    const Placement placement = place(items);
    ASSERT_EQ(check_placement(items, placement), "") << "round " << round;
    ASSERT_EQ(placement.height, optimum(items)) << "round " << round;
  }
}

TEST(Placement, SearchFindsWhatGreedyMisses) {
  // Cut from a full rectangle, so a placement without waste is known to exist.
  std::mt19937_64 random(3);
  int improved = 0;
  for (int round = 0; round < 20; ++round) {
    struct Rectangle {
      int64_t lower, upper, size;
    };
    std::vector<Rectangle> pieces = {{0, 64, 512}};
    while (pieces.size() < 60) {
      Rectangle& piece = pieces[static_cast<size_t>(draw(random, 0, static_cast<int64_t>(pieces.size()) - 1))];
      Rectangle other = piece;
      if (draw(random, 0, 1) == 0) {
        if (piece.upper - piece.lower < 2) continue;
        piece.upper = other.lower = draw(random, piece.lower + 1, piece.upper - 1);
      } else {
        if (piece.size < 2) continue;
        piece.size = draw(random, 1, piece.size - 1);
        other.size -= piece.size;
      }
      pieces.push_back(other);
    }
    std::vector<PlacementItem> items;
    for (const Rectangle& piece : pieces) items.push_back({piece.lower, piece.upper, piece.size});
    PlacementOptions greedy;
    greedy.effort = 0;
    PlacementOptions thorough;
    thorough.effort = 200000;
    thorough.capacity = 512;
    const Placement quick = place(items, greedy);
    const Placement placement = place(items, thorough);
    EXPECT_EQ(check_placement(items, quick), "");
    EXPECT_EQ(check_placement(items, placement), "");
    EXPECT_EQ(placement.height, 512) << "round " << round;
    improved += placement.height < quick.height;
  }
  EXPECT_GT(improved, 10);
}

/// One of the smallest problems whose live bytes never pass 6, and that still cannot be placed in 6.
const std::vector<PlacementItem> kNeedsWaste = {{3, 4, 2}, {2, 5, 2}, {0, 3, 3}, {6, 8, 2}, {2, 6, 1},
                                                {4, 6, 1}, {5, 7, 3}, {1, 2, 3}, {4, 7, 1}};

TEST(Placement, IsAboveTheBoundOnlyWhereItHasToBe) {
  EXPECT_EQ(live_bytes_bound(kNeedsWaste), 6);
  EXPECT_EQ(optimum(kNeedsWaste), 7);
  const Placement placement = place(kNeedsWaste);
  EXPECT_EQ(placement.height, 7);
  EXPECT_EQ(check_placement(kNeedsWaste, placement), "");
}

TEST(TreeSearch, ProvesWhatIsImpossibleAndGivesUpInTime) {
  using Outcome = placing::TreeSearch::Outcome;
  const placing::Reduction reduced = placing::reduce(kNeedsWaste, placing::aligned_sizes(kNeedsWaste, 1));
  ASSERT_EQ(reduced.kernels.size(), 1u);
  placing::TreeSearch tree(reduced.kernels.front());
  const int64_t base = reduced.kernels.front().base;
  int64_t work = 1;
  EXPECT_EQ(tree.search(6 - base, &work), Outcome::gave_up);
  work = 100000;
  EXPECT_EQ(tree.search(5 - base, &work), Outcome::impossible);
  EXPECT_EQ(tree.search(6 - base, &work), Outcome::impossible);
  EXPECT_EQ(tree.search(7 - base, &work), Outcome::found);
  EXPECT_EQ(tree.placement().height, 7 - base);
  EXPECT_GT(work, 0);
}

TEST(TreeSearch, NeverCallsAPossibleHeightImpossible) {
  std::mt19937_64 random(4);
  int searched = 0;
  for (int round = 0; round < 300; ++round) {
    const std::vector<PlacementItem> items = random_items(random, 7, 6, 6);
    const placing::Reduction reduced = placing::reduce(items, placing::aligned_sizes(items, 1));
    if (reduced.kernels.empty()) continue;
    const int64_t best = optimum(items);
    for (const placing::Kernel& kernel : reduced.kernels) {
      placing::TreeSearch tree(kernel);
      int64_t work = 1000000;
      ASSERT_EQ(tree.search(best - kernel.base, &work), placing::TreeSearch::Outcome::found) << "round " << round;
      ASSERT_LE(tree.placement().height, best - kernel.base);
      ++searched;
    }
  }
  EXPECT_GT(searched, 20);
}

TEST(Promote, LowersWhatFirstFitLeavesHigh) {
  std::mt19937_64 random(8);
  double first_waste = 0;
  double waste = 0;
  for (int round = 0; round < 20; ++round) {
    const std::vector<PlacementItem> items = random_items(random, 200, 150, 1000);
    const placing::Reduction reduced = placing::reduce(items, placing::aligned_sizes(items, 1));
    ASSERT_EQ(reduced.kernels.size(), 1u);
    const placing::Kernel& kernel = reduced.kernels.front();
    int64_t work = 0;
    placing::KernelPlacement best = placing::best_first_fit(kernel, kernel.lower_bound, &work);
    first_waste += static_cast<double>(best.height - kernel.lower_bound) / static_cast<double>(kernel.lower_bound);
    work = 200000;
    placing::promote(kernel, kernel.lower_bound, &best, &work);
    waste += static_cast<double>(best.height - kernel.lower_bound) / static_cast<double>(kernel.lower_bound);
    Placement placement;
    placement.offsets.resize(items.size());
    placement.height = best.height;
    for (size_t b = 0; b < kernel.items.size(); ++b) placement.offsets[kernel.items[b]] = best.offsets[b];
    std::vector<PlacementItem> in_kernel = items;
    for (size_t i = 0; i < items.size(); ++i) {
      if (std::find(kernel.items.begin(), kernel.items.end(), i) == kernel.items.end()) in_kernel[i].size = 0;
    }
    EXPECT_EQ(check_placement(in_kernel, placement), "") << "round " << round;
  }
  EXPECT_LT(waste, 0.7 * first_waste);
}

TEST(Placement, StopsAtTheCapacity) {
  std::mt19937_64 random(5);
  const std::vector<PlacementItem> items = random_items(random, 100, 40, 1000);
  PlacementOptions options;
  options.effort = 0;
  const Placement greedy = place(items, options);
  options.capacity = greedy.height;
  options.effort = 100000;
  EXPECT_LE(place(items, options).height, greedy.height);
  options.capacity = 1;  // out of reach: as low as the effort allows
  const Placement placement = place(items, options);
  EXPECT_EQ(check_placement(items, placement), "");
  EXPECT_LE(placement.height, greedy.height);
}

TEST(Placement, IsTheSameEveryTime) {
  std::mt19937_64 random(6);
  for (int round = 0; round < 20; ++round) {
    const std::vector<PlacementItem> items = random_items(random, 150, 60, 1 << 20);
    PlacementOptions options;
    options.effort = 5000;
    const Placement first = place(items, options);
    const Placement second = place(items, options);
    EXPECT_EQ(first.offsets, second.offsets);
    EXPECT_EQ(first.height, second.height);
  }
}

TEST(Placement, OfTrainingTracesWastesLittle) {
  PlacementOptions options;
  options.alignment = 64;
  options.effort = 10000;
  for (const int64_t blocks : {2, 8, 24}) {
    const std::vector<PlacementItem> items = training_trace(blocks, static_cast<uint64_t>(blocks));
    const Placement placement = place(items, options);
    EXPECT_EQ(check_placement(items, placement, 64), "");
    EXPECT_EQ(placement.lower_bound, live_bytes_bound(items, 64));
    EXPECT_LE(placement.height, placement.lower_bound * 1.02) << blocks << " blocks, " << items.size() << " buffers";
  }
}

TEST(Placement, RefusesSizesThatCannotBe) {
  constexpr int64_t large = int64_t{1} << 61;
  const auto place_items = [](std::vector<PlacementItem> items, int64_t alignment) {
    return [items = std::move(items), alignment] {
      PlacementOptions options;
      options.alignment = alignment;
      (void)place(items, options);
    };
  };
  EXPECT_THAT(place_items({{0, 1, 8}, {0, 1, -1}}, 1),
              ThrowsMessage<UserError>(HasSubstr("buffer 1 has a size of -1")));
  EXPECT_THAT(place_items({{0, 1, large}, {2, 3, large}, {4, 5, 1}}, 1), ThrowsMessage<UserError>(HasSubstr("2^62")));
  EXPECT_THAT(place_items({{0, 1, std::numeric_limits<int64_t>::max()}}, 64),
              ThrowsMessage<UserError>(HasSubstr("2^62")));
  EXPECT_THAT(place_items({{0, 1, 8}}, 0), ThrowsMessage<UserError>(HasSubstr("alignment")));
  EXPECT_THAT([] { live_bytes_bound({{0, 1, -5}}); }, ThrowsMessage<UserError>(HasSubstr("-5")));
  EXPECT_THAT(
      [] {
        live_bytes_bound({{0, 1, large}, {0, 1, large}, {0, 1, 1}});
      },
      ThrowsMessage<UserError>(HasSubstr("2^62")));
  // Just below the limit all is well.
  const std::vector<PlacementItem> items = {{0, 2, large}, {1, 3, large - 64}};
  PlacementOptions options;
  options.alignment = 64;
  EXPECT_EQ(place(items, options).height, 2 * large - 64);
}

TEST(LiveBytesBound, IsTheGreatestSumOverTime) {
  EXPECT_EQ(live_bytes_bound({}), 0);
  EXPECT_EQ(live_bytes_bound({{0, 2, 5}, {2, 4, 7}}), 7);
  EXPECT_EQ(live_bytes_bound({{0, 3, 5}, {2, 4, 7}}), 12);
  EXPECT_EQ(live_bytes_bound({{0, 3, 5}, {2, 4, 7}}, 8), 16);
  EXPECT_EQ(live_bytes_bound({{3, 3, 5}, {4, 2, 9}, {0, 1, 0}}), 0);
}

TEST(CheckPlacement, NamesThePairAtFault) {
  const std::vector<PlacementItem> items = {{0, 4, 8}, {4, 6, 8}, {3, 5, 8}};
  const auto check_at = [&](std::vector<int64_t> offsets, int64_t height, int64_t alignment = 1) {
    Placement placement;
    placement.offsets = std::move(offsets);
    placement.height = height;
    return check_placement(items, placement, alignment);
  };
  EXPECT_EQ(check_at({0, 0, 8}, 16), "");
  EXPECT_THAT(check_at({0, 0, 7}, 16), HasSubstr("buffers 0 and 2"));
  EXPECT_THAT(check_at({0, 12, 8}, 20), HasSubstr("buffers 1 and 2"));
  EXPECT_THAT(check_at({0, 0, 8}, 15), HasSubstr("buffer 2"));
  EXPECT_THAT(check_at({0, 0, -8}, 16), HasSubstr("below 0"));
  EXPECT_THAT(check_at({0, 0, 12}, 32, 8), HasSubstr("multiple of 8"));
  EXPECT_THAT(check_at({0, 0}, 16), HasSubstr("2 offsets for 3 buffers"));
}

}  // namespace
}  // namespace plimsoll

namespace plimsoll::placing {
namespace {

//   a a . .        In the order of birth, b is placed on a, and c, which meets b alone, finds one free unit below b and
//   b b b b        needs two. Placed first, c is below b.
//   . . c c
Kernel stairs() {
  Kernel kernel;
  kernel.boxes = {{0, 1, 1}, {0, 2, 1}, {1, 2, 2}};
  kernel.items = {0, 1, 2};
  kernel.load = {2, 3};
  kernel.lower_bound = 3;
  return kernel;
}

int64_t height_in_order(const Kernel& kernel, const std::array<int32_t, 3>& order) {
  PlacedBoxes shelves;
  int64_t work = 0;
  return first_fit(kernel, order, Gap::lowest, 100, &shelves, &work).height;
}

TEST(FirstFit, DependsOnTheOrder) {
  EXPECT_EQ(height_in_order(stairs(), {0, 1, 2}), 4);
  EXPECT_EQ(height_in_order(stairs(), {2, 0, 1}), 3);
}

TEST(FirstFit, GivesUpAboveTheLimit) {
  PlacedBoxes shelves;
  int64_t work = 0;
  const std::array<int32_t, 3> order{0, 1, 2};
  EXPECT_EQ(first_fit(stairs(), order, Gap::lowest, 4, &shelves, &work).height, 4);
  EXPECT_EQ(first_fit(stairs(), order, Gap::lowest, 3, &shelves, &work).height, std::numeric_limits<int64_t>::max());
  EXPECT_GT(work, 0);
}

TEST(FirstFit, TriesOtherOrdersThanThatOfBirth) {
  int64_t work = 0;
  const KernelPlacement best = best_first_fit(stairs(), 3, &work);
  EXPECT_EQ(best.height, 3);
  EXPECT_EQ(best.offsets, (std::vector<int64_t>{0, 2, 0}));
}

TEST(FirstFit, ContentionIsTheGreatestLoadOfABoxsSections) {
  EXPECT_EQ(contention(stairs()), (std::vector<int64_t>{2, 3, 3}));
}

}  // namespace
}  // namespace plimsoll::placing
