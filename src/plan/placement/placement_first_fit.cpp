#include "plan/placement/placement_first_fit.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>
#include <random>

namespace plimsoll::placing {

// Entries of a chunk that are compared in one step.
constexpr int kCompared = 16;

static_assert(std::endian::native == std::endian::little, "the scan of hits reads bytes as words");

PlacedBoxes::Chunk::Chunk() {
  std::fill_n(first, capacity, std::numeric_limits<int32_t>::max());
  std::fill_n(last, capacity, 0);
}

void PlacedBoxes::Chunk::insert_at(int place, const Box& box, int64_t at) {
  const auto make_room = [&](auto* values) {
    std::memmove(values + place + 1, values + place, sizeof(*values) * static_cast<size_t>(count - place));
  };
  make_room(first);
  make_room(last);
  make_room(offset);
  make_room(top);
  first[place] = box.first;
  last[place] = box.last;
  offset[place] = at;
  top[place] = at + box.size;
  ++count;
  earliest = std::min(earliest, box.first);
  latest = std::max(latest, box.last);
  highest = std::max(highest, top[place]);
}

int64_t PlacedBoxes::find(const Box& box, Gap gap, int64_t* work) const {
  int64_t floor = 0;      // everything below is occupied, or too narrow
  int64_t tightest = -1;  // offset of the tightest gap so far
  int64_t tightest_gap = std::numeric_limits<int64_t>::max();
  int64_t looked_at = 0;
  for (size_t c = 0; c < sorted_.size(); ++c) {
    if (gap == Gap::lowest && lowest_[c] - floor >= box.size) break;
    const Chunk& chunk = chunks_[sorted_[c]];
    if (chunk.highest <= floor || chunk.earliest >= box.last || chunk.latest <= box.first) continue;
    ++looked_at;
    alignas(16) uint8_t hit[capacity];
    const int in_use = (chunk.count + kCompared - 1) / kCompared * kCompared;
    for (int block = 0; block < in_use; block += kCompared)
      for (int k = block; k < block + kCompared; ++k)
        hit[k] = static_cast<uint8_t>((chunk.first[k] < box.last) & (chunk.last[k] > box.first));
    for (int word = 0; word < in_use; word += 8) {
      uint64_t bits;
      std::memcpy(&bits, hit + word, sizeof(bits));
      for (; bits != 0; bits &= bits - 1) {
        const int k = word + std::countr_zero(bits) / 8;
        const int64_t room = chunk.offset[k] - floor;
        if (room >= box.size) {
          if (gap == Gap::lowest) {
            *work += looked_at;
            return floor;
          }
          if (room < tightest_gap) {
            tightest_gap = room;
            tightest = floor;
          }
        }
        floor = std::max(floor, chunk.top[k]);
      }
    }
  }
  *work += looked_at;
  return tightest >= 0 ? tightest : floor;
}

int32_t PlacedBoxes::new_chunk() {
  if (used_ == chunks_.size()) {
    chunks_.emplace_back();
  } else {
    chunks_[used_] = Chunk();
  }
  return static_cast<int32_t>(used_++);
}

void PlacedBoxes::insert(const Box& box, int64_t offset) {
  if (sorted_.empty()) {
    sorted_.push_back(new_chunk());
    lowest_.push_back(offset);
  }
  const auto above = std::upper_bound(lowest_.begin(), lowest_.end(), offset);
  size_t c = above == lowest_.begin() ? 0 : static_cast<size_t>(above - lowest_.begin()) - 1;
  if (chunks_[sorted_[c]].count == capacity) {
    const int32_t fresh = new_chunk();
    const Chunk full = chunks_[sorted_[c]];
    Chunk lower;
    Chunk& upper = chunks_[fresh];
    for (int k = 0; k < capacity; ++k) {
      Chunk& half = k < capacity / 2 ? lower : upper;
      half.insert_at(half.count, {full.first[k], full.last[k], full.top[k] - full.offset[k]}, full.offset[k]);
    }
    chunks_[sorted_[c]] = lower;
    sorted_.insert(sorted_.begin() + static_cast<std::ptrdiff_t>(c) + 1, fresh);
    lowest_.insert(lowest_.begin() + static_cast<std::ptrdiff_t>(c) + 1, upper.offset[0]);
    if (offset >= upper.offset[0]) ++c;
  }
  Chunk& chunk = chunks_[sorted_[c]];
  const int place = static_cast<int>(std::upper_bound(chunk.offset, chunk.offset + chunk.count, offset) - chunk.offset);
  chunk.insert_at(place, box, offset);
  lowest_[c] = chunk.offset[0];
}

void PlacedBoxes::clear() {
  sorted_.clear();
  lowest_.clear();
  used_ = 0;
}

KernelPlacement first_fit(const Kernel& kernel, std::span<const int32_t> order, Gap gap, int64_t give_up_above,
                          PlacedBoxes* placed_boxes, int64_t* work) {
  KernelPlacement result;
  result.offsets.assign(kernel.boxes.size(), 0);
  int64_t height = 0;
  placed_boxes->clear();
  for (const int32_t i : order) {
    const Box& box = kernel.boxes[i];
    const int64_t offset = placed_boxes->find(box, gap, work);
    ++*work;
    if (offset + box.size > give_up_above) return result;
    placed_boxes->insert(box, offset);
    result.offsets[i] = offset;
    height = std::max(height, offset + box.size);
  }
  result.height = height;
  return result;
}

std::vector<int64_t> contention(const Kernel& kernel) {
  // A sparse table: level k has the largest load of 2^k sections, for each first section.
  std::vector<std::vector<int64_t>> maximum{kernel.load};
  for (size_t width = 1; 2 * width <= kernel.load.size(); width *= 2) {
    const std::vector<int64_t>& below = maximum.back();
    std::vector<int64_t> level(below.size() - width);
    for (size_t s = 0; s < level.size(); ++s) level[s] = std::max(below[s], below[s + width]);
    maximum.push_back(std::move(level));
  }
  std::vector<int64_t> result;
  result.reserve(kernel.boxes.size());
  for (const Box& box : kernel.boxes) {
    const auto life = static_cast<size_t>(box.last - box.first);
    const size_t width = std::bit_floor(life);
    const std::vector<int64_t>& level = maximum[static_cast<size_t>(std::countr_zero(width))];
    result.push_back(std::max(level[box.first], level[box.first + (life - width)]));
  }
  return result;
}

KernelPlacement best_first_fit(const Kernel& kernel, int64_t goal, int64_t* work) {
  KernelPlacement best;
  PlacedBoxes placed_boxes;
  std::vector<int32_t> order(kernel.boxes.size());
  std::iota(order.begin(), order.end(), 0);
  const std::vector<int32_t> by_birth = order;
  const std::vector<Box>& boxes = kernel.boxes;
  const auto life = [&](int32_t i) { return boxes[i].last - boxes[i].first; };
  const auto area = [&](int32_t i) { return static_cast<double>(boxes[i].size) * life(i); };

  /// Tries one first fit; returns whether the goal is met.
  const auto attempt = [&](Gap gap) {
    KernelPlacement found = first_fit(kernel, order, gap, best.height - 1, &placed_boxes, work);
    if (found.height < best.height) best = std::move(found);
    return best.height <= goal;
  };
  const auto sorted = [&](auto before) {
    order = by_birth;
    std::stable_sort(order.begin(), order.end(), before);
  };

  sorted([&](int32_t x, int32_t y) {
    return boxes[x].size != boxes[y].size ? boxes[x].size > boxes[y].size : life(x) > life(y);
  });
  if (attempt(Gap::lowest) || attempt(Gap::tightest)) return best;
  sorted([&](int32_t x, int32_t y) { return area(x) > area(y); });
  if (attempt(Gap::lowest) || attempt(Gap::tightest)) return best;
  sorted([&](int32_t x, int32_t y) { return life(x) != life(y) ? life(x) > life(y) : boxes[x].size > boxes[y].size; });
  if (attempt(Gap::lowest)) return best;
  const std::vector<int64_t> crowd = contention(kernel);
  sorted([&](int32_t x, int32_t y) { return crowd[x] != crowd[y] ? crowd[x] > crowd[y] : area(x) > area(y); });
  if (attempt(Gap::lowest)) return best;
  sorted(
      [&](int32_t x, int32_t y) { return crowd[x] != crowd[y] ? crowd[x] > crowd[y] : boxes[x].size > boxes[y].size; });
  if (attempt(Gap::lowest)) return best;
  order = by_birth;
  attempt(Gap::lowest);
  return best;
}

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
