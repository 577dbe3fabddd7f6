#include "plan/placement/placement_promote.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <random>

namespace plimsoll::placing {
namespace {

/// An order of the boxes that changes from pass to pass.
class Promotion {
 public:
  template <typename Priority>
  Promotion(const Kernel& kernel, Priority priority)
      : kernel_(kernel), order_(kernel.boxes.size()), offsets_(kernel.boxes.size(), 0) {
    std::vector<double> priorities;
    for (size_t i = 0; i < kernel.boxes.size(); ++i) priorities.push_back(priority(i));
    std::iota(order_.begin(), order_.end(), 0);
    std::stable_sort(order_.begin(), order_.end(), [&](int32_t x, int32_t y) { return priorities[x] > priorities[y]; });
  }

  /// Runs first fit until a box exceeds `limit`. That box moves ahead by a random distance, at most half of the way. If
  /// no box does, `*found` gets the placement.
  void pass(int64_t limit, std::mt19937_64* random, PlacedBoxes* placed_boxes, KernelPlacement* found, int64_t* work) {
    placed_boxes->clear();
    int64_t height = 0;
    for (size_t k = 0; k < order_.size(); ++k) {
      const int32_t i = order_[k];
      const Box& box = kernel_.boxes[i];
      // Boxes before the last move keep their offsets.
      if (k >= settled_) offsets_[i] = placed_boxes->find(box, Gap::lowest, work);
      ++*work;
      if (offsets_[i] + box.size > limit) {
        move_ahead(k, (*random)());
        return;
      }
      placed_boxes->insert(box, offsets_[i]);
      height = std::max(height, offsets_[i] + box.size);
    }
    settled_ = order_.size();
    *found = {offsets_, height};
  }

 private:
  void move_ahead(size_t from, uint64_t random) {
    const size_t distance = std::min<size_t>(from, 1 + random % std::max<size_t>(1, from / 2));
    const auto first = order_.begin() + static_cast<std::ptrdiff_t>(from - distance);
    std::rotate(first, first + static_cast<std::ptrdiff_t>(distance),
                first + static_cast<std::ptrdiff_t>(distance) + 1);
    settled_ = from - distance;
  }

  const Kernel& kernel_;
  std::vector<int32_t> order_;
  std::vector<int64_t> offsets_;
  size_t settled_ = 0;  ///< boxes at the front of the order whose offsets hold
};

}  // namespace

void promote(const Kernel& kernel, int64_t goal, KernelPlacement* best, int64_t* work_left, uint64_t seed) {
  const std::vector<Box>& boxes = kernel.boxes;
  const std::vector<int64_t> crowd = contention(kernel);
  const auto size = [&](size_t i) { return static_cast<double>(boxes[i].size); };
  const auto life = [&](size_t i) { return static_cast<double>(boxes[i].last - boxes[i].first); };
  // The best initial order is not known: three run in turn.
  std::array<Promotion, 3> promotions{
      Promotion(kernel, size),
      Promotion(kernel, [&](size_t i) { return size(i) * life(i); }),
      Promotion(kernel, [&](size_t i) { return static_cast<double>(crowd[i]) * life(i); }),
  };
  std::mt19937_64 random(kernel.boxes.size() + seed);
  PlacedBoxes placed_boxes;
  for (size_t turn = 0; *work_left > 0 && best->height > goal; ++turn) {
    int64_t work = 1;
    promotions[turn % promotions.size()].pass(best->height - 1, &random, &placed_boxes, best, &work);
    *work_left -= work;
  }
}

}  // namespace plimsoll::placing
