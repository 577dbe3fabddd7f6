#include "plan/placement/placement_tree.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/hash.h"

namespace plimsoll::placing {
namespace {

/// Steps of inner loops that count as one unit of work.
constexpr int64_t kStepsOfWork = 32;

}  // namespace

bool TreeSearch::can_search(const Kernel& kernel, const TreeSearchParameters& parameters) {
  if (kernel.boxes.size() > parameters.max_boxes) return false;
  std::vector<int64_t> births(kernel.load.size() + 1, 0);
  for (const Box& box : kernel.boxes) ++births[box.first];
  std::partial_sum(births.begin(), births.end(), births.begin());
  int64_t meetings = 0;  // pairs with boxes born while one is live
  for (const Box& box : kernel.boxes) meetings += births[box.last - 1] - births[box.first];
  return 2 * meetings <= parameters.max_meetings;
}

TreeSearch::TreeSearch(const Kernel& kernel, const TreeSearchParameters& parameters)
    : kernel_(kernel), parameters_(parameters), box_count_(kernel.boxes.size()) {
  const std::vector<Box>& boxes = kernel.boxes;
  unit_ = 0;
  for (const Box& box : boxes) unit_ = std::gcd(unit_, box.size);
  by_birth_.resize(box_count_);
  std::iota(by_birth_.begin(), by_birth_.end(), 0);
  std::stable_sort(by_birth_.begin(), by_birth_.end(),
                   [&](int32_t x, int32_t y) { return boxes[x].first < boxes[y].first; });
  std::vector<std::vector<int32_t>> met(box_count_);
  for (size_t x = 0; x < box_count_; ++x) {
    const int32_t i = by_birth_[x];
    for (size_t y = x + 1; y < box_count_ && boxes[by_birth_[y]].first < boxes[i].last; ++y) {
      met[i].push_back(by_birth_[y]);
      met[by_birth_[y]].push_back(i);
    }
  }
  twins_.resize(box_count_);
  for (size_t i = 0; i < box_count_; ++i) {
    met_begin_.push_back(met_.size());
    met_.insert(met_.end(), met[i].begin(), met[i].end());
    twins_[i] = static_cast<int32_t>(i);
    for (const int32_t j : met[i]) {
      const bool same =
          boxes[j].first == boxes[i].first && boxes[j].last == boxes[i].last && boxes[j].size == boxes[i].size;
      if (same) twins_[i] = std::min(twins_[i], j);
    }
  }
  met_begin_.push_back(met_.size());
  crowd_ = contention(kernel);
}

int64_t TreeSearch::work_per_descent() const {
  int64_t steps = 0;
  for (const Box& box : kernel_.boxes) steps += box.last - box.first + 8;
  return static_cast<int64_t>(box_count_) * steps / kStepsOfWork / 4;
}

TreeSearch::Outcome TreeSearch::search(int64_t height, int64_t* work_left) {
  if (height < kernel_.lower_bound) return Outcome::impossible;
  if (height / unit_ >= kPlaced / 2)
    return Outcome::gave_up;  // more than 32 bits: very large sizes without a common divisor
  size_.clear();
  for (const Box& box : kernel_.boxes) size_.push_back(static_cast<int32_t>(box.size / unit_));
  const auto goal = static_cast<int32_t>(height / unit_);
  if (goal > infeasible_height_) infeasible_.clear();
  infeasible_height_ = goal;

  // The rule and the order that find a placement fast differ between problems by a factor of thousands. So all are
  // tried briefly, then for longer. Every second round randomizes the orders.
  int64_t patience = 4 * work_per_descent() + 1000;
  for (uint64_t round = 0; *work_left > 0; ++round) {
    for (const Rule rule :
         {Rule::forced_then_lowest, Rule::lowest_box, Rule::fewest_choices, Rule::lowest_section, Rule::min_slack}) {
      for (int which = 0; which < std::max(parameters_.orders, 1); ++which) {
        if (*work_left <= 0) break;
        rule_ = rule;
        order_boxes(which, round % 2 == 0 ? 0 : round + parameters_.seed);
        reset(goal);
        work_limit_ = std::min(patience, *work_left);
        const bool found = place_part({0, box_count_});
        *work_left -= work_;
        if (found) {
          placement_.offsets.clear();
          placement_.height = 0;
          for (size_t i = 0; i < box_count_; ++i) {
            placement_.offsets.push_back(offset_[i] * unit_);
            placement_.height = std::max(placement_.height, placement_.offsets[i] + kernel_.boxes[i].size);
          }
          return Outcome::found;
        }
        if (!gave_up_) return Outcome::impossible;
      }
    }
    if (round % 2 == 1) patience *= 2;
  }
  return Outcome::gave_up;
}

void TreeSearch::reset(int32_t height) {
  height_ = height;
  floor_.assign(box_count_, 0);
  low_.assign(box_count_, 0);
  offset_.assign(box_count_, 0);
  room_.clear();
  for (const int64_t load : kernel_.load) room_.push_back(static_cast<int32_t>(height - load / unit_));
  choices_.assign(kernel_.load.size(), 0);
  lowest_.assign(kernel_.load.size(), 0);
  pool_ = by_birth_;
  changes_.clear();
  work_ = 0;
  gave_up_ = false;
}

void TreeSearch::order_boxes(int which, uint64_t seed) {
  std::vector<std::array<double, 3>> keys;
  for (size_t i = 0; i < box_count_; ++i) {
    const Box& box = kernel_.boxes[i];
    const double shake = seed == 0 ? 1.0 : 1.0 + 0.3 * static_cast<double>(splitmix64(seed << 32 | i) >> 11) * 0x1p-53;
    const double crowd = static_cast<double>(crowd_[i]) * shake;
    const double life = static_cast<double>(box.last - box.first) * shake;
    const double size = static_cast<double>(box.size) * shake;
    const double area = life * static_cast<double>(box.size);
    switch (which) {
      case 0:
        keys.push_back({crowd, life, area});
        break;
      case 1:
        keys.push_back({life, area, crowd});
        break;
      case 2:
        keys.push_back({area, crowd, life});
        break;
      default:
        keys.push_back({size, life, area});
        break;
    }
  }
  std::vector<int32_t> order(by_birth_);
  std::stable_sort(order.begin(), order.end(), [&](int32_t x, int32_t y) { return keys[x] > keys[y]; });
  rank_.resize(box_count_);
  for (size_t k = 0; k < box_count_; ++k) rank_[order[k]] = static_cast<int32_t>(k);
}

void TreeSearch::set(int32_t* where, int32_t value) {
  changes_.push_back({where, *where});
  *where = value;
}

void TreeSearch::undo(size_t mark) {
  for (; changes_.size() > mark; changes_.pop_back()) *changes_.back().where = changes_.back().before;
}

/// Returns a hash of the state that the rest of a part depends on: the remaining boxes, their floors and their bounds.
uint64_t TreeSearch::fingerprint(Span part) const {
  uint64_t sum = 0;
  for (size_t k = part.begin; k < part.end; ++k) {
    const auto i = static_cast<uint64_t>(pool_[k]);
    sum += splitmix64(splitmix64(i << 32 | static_cast<uint32_t>(floor_[i])) + static_cast<uint32_t>(low_[i]));
  }
  return sum;
}

/// Places the boxes of a part. On failure everything is restored except floors and bounds, which the caller restores.
bool TreeSearch::place_part(Span part) {
  if (part.end - part.begin == 1) {
    const int32_t i = pool_[part.begin];
    if (low_[i] > floor_[i] || floor_[i] + size_[i] > height_) return false;
    offset_[i] = floor_[i];
    set(&low_[i], kPlaced);
    return true;
  }
  const uint64_t state = fingerprint(part);
  if (infeasible_.contains(state)) return false;
  if (branch_until_placed(part)) return true;
  if (!gave_up_ && infeasible_.size() < parameters_.max_infeasible_states) infeasible_.insert(state);
  return false;
}

bool TreeSearch::branch_until_placed(Span part) {
  int32_t begin = kernel_.boxes[pool_[part.begin]].first;
  int32_t end = 0;
  int64_t steps = 0;
  for (size_t k = part.begin; k < part.end; ++k) {
    const Box& box = kernel_.boxes[pool_[k]];
    end = std::max(end, box.last);
    steps += box.last - box.first + 8;
  }
  while (true) {
    work_ += 1 + steps / kStepsOfWork;
    if (work_ > work_limit_) gave_up_ = true;
    if (gave_up_ || !raise_waiting(part)) return false;
    const int box = choose(part, begin, end);
    if (box < 0) return false;
    const size_t mark = changes_.size();
    if (stack(box) && place_rest(part, box)) return true;
    undo(mark);
    if (gave_up_ || !reject_floor(part, box)) return false;
  }
}

/// Returns the smallest top of a remaining box that `box` can be placed on, if it is not on its floor.
int32_t TreeSearch::min_support(int box) const {
  int32_t least = kPlaced;
  for (size_t k = met_begin_[box]; k < met_begin_[box + 1]; ++k) {
    const int32_t j = met_[k];
    least = std::min(least, low_[j] + size_[j]);
  }
  return least;
}

/// Raises the bounds of boxes that wait for support until nothing changes. Returns false if a box can have no support.
bool TreeSearch::raise_waiting(Span part) {
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t k = part.begin; k < part.end; ++k) {
      const int32_t i = pool_[k];
      if (low_[i] == floor_[i]) continue;
      work_ += static_cast<int64_t>(met_begin_[i + 1] - met_begin_[i]) / kStepsOfWork;
      const int32_t support = min_support(i);
      if (std::max(support, low_[i]) + size_[i] > height_) return false;
      if (support > low_[i]) {
        set(&low_[i], support);
        changed = true;
      }
    }
  }
  return true;
}

/// Returns the box to decide on next; -1: some section is infeasible.
int TreeSearch::choose(Span part, int32_t begin, int32_t end) {
  std::fill(choices_.begin() + begin, choices_.begin() + end, 0);
  std::fill(lowest_.begin() + begin, lowest_.begin() + end, kPlaced);
  for (size_t k = part.begin; k < part.end; ++k) {
    const int32_t i = pool_[k];
    const int32_t low = low_[i];
    const int32_t one = low == floor_[i] ? 0x10001 : 1;
    int32_t* const choices = choices_.data();
    int32_t* const lowest = lowest_.data();
    const int32_t* const room = room_.data();
    for (int32_t s = kernel_.boxes[i].first; s < kernel_.boxes[i].last; ++s) {
      choices[s] += low <= room[s] ? one : 0;
      lowest[s] = low < lowest[s] ? low : lowest[s];
    }
  }
  int32_t section = -1;
  std::pair<int32_t, int32_t> least;
  for (int32_t s = begin; s < end; ++s) {
    if (lowest_[s] == kPlaced) continue;  // no remaining box
    const int32_t count = choices_[s] & 0xffff;
    if (count == 0) return -1;
    if (choices_[s] < 0x10000) continue;  // all remaining boxes wait for others
    const int32_t slack = room_[s] - lowest_[s];
    std::pair<int32_t, int32_t> key;
    switch (rule_) {
      case Rule::forced_then_lowest:
        key = {count == 1 ? -1 : lowest_[s], count};
        break;
      case Rule::fewest_choices:
        key = {count, slack};
        break;
      case Rule::lowest_section:
        key = {lowest_[s], count};
        break;
      case Rule::min_slack:
        key = {slack, count};
        break;
      case Rule::lowest_box:
        continue;
    }
    if (section < 0 || key < least) {
      section = s;
      least = key;
    }
  }
  if (section < 0) return lowest_of(part);
  int chosen = -1;
  for (size_t k = part.begin; k < part.end; ++k) {
    const int32_t i = pool_[k];
    const Box& box = kernel_.boxes[i];
    if (box.first > section || box.last <= section || low_[i] != floor_[i] || low_[i] > room_[section]) continue;
    if (chosen < 0 || std::pair(low_[i], rank_[i]) < std::pair(low_[chosen], rank_[chosen])) chosen = i;
  }
  chosen = on_its_floor_beneath(chosen);
  return chosen >= 0 ? chosen : lowest_of(part);
}

/// Returns the box to stack instead of `box`: one that fits between `box` and its floor must be stacked first. -1: the
/// box below waits itself.
int TreeSearch::on_its_floor_beneath(int box) const {
  while (true) {
    int beneath = -1;
    bool waits = false;
    for (size_t k = met_begin_[box]; k < met_begin_[box + 1]; ++k) {
      const int32_t j = met_[k];
      if (low_[j] + size_[j] > floor_[box]) continue;
      if (low_[j] > floor_[j]) {
        waits = true;
      } else if (beneath < 0 || low_[j] < low_[beneath]) {
        beneath = j;
      }
    }
    if (beneath < 0) return waits ? -1 : box;
    box = beneath;
  }
}

/// Returns the lowest box on its floor. One always exists: the bound of a waiting box is above another box's top.
int TreeSearch::lowest_of(Span part) const {
  int chosen = -1;
  for (size_t k = part.begin; k < part.end; ++k) {
    const int32_t i = pool_[k];
    if (low_[i] != floor_[i]) continue;
    if (chosen < 0 || std::pair(low_[i], rank_[i]) < std::pair(low_[chosen], rank_[chosen])) chosen = i;
  }
  return chosen;
}

/// Places a box on its floor. Returns false if a section then has too little room.
bool TreeSearch::stack(int box) {
  const Box& shape = kernel_.boxes[box];
  const int32_t top = floor_[box] + size_[box];
  for (int32_t s = shape.first; s < shape.last; ++s) {
    set(&room_[s], room_[s] + size_[box]);
    if (top > room_[s]) return false;
  }
  offset_[box] = floor_[box];
  set(&low_[box], kPlaced);
  for (size_t k = met_begin_[box]; k < met_begin_[box + 1]; ++k) {
    const int32_t j = met_[k];
    if (low_[j] == kPlaced || floor_[j] >= top) continue;
    set(&floor_[j], top);
    if (low_[j] < top) set(&low_[j], top);
  }
  return true;
}

/// Places the part without `box`, split at times that no box crosses. Small parts come first, because they fail the
/// soonest.
bool TreeSearch::place_rest(Span part, int box) {
  const size_t pool_mark = pool_.size();
  std::vector<Span> parts;
  int32_t end = 0;
  for (size_t k = part.begin; k < part.end; ++k) {
    const int32_t i = pool_[k];
    if (i == box) continue;
    if (parts.empty() || kernel_.boxes[i].first >= end) parts.push_back({pool_.size(), pool_.size()});
    end = std::max(end, kernel_.boxes[i].last);
    pool_.push_back(i);
    parts.back().end = pool_.size();
  }
  std::stable_sort(parts.begin(), parts.end(),
                   [](const Span& x, const Span& y) { return x.end - x.begin < y.end - y.begin; });
  const bool placed = std::all_of(parts.begin(), parts.end(), [&](const Span& rest) { return place_part(rest); });
  pool_.resize(pool_mark);
  return placed;
}

/// Decides that `box` and its twins are above their floor. Returns false if no box could support it.
bool TreeSearch::reject_floor(Span part, int box) {
  const int32_t floor = floor_[box];
  for (size_t k = part.begin; k < part.end; ++k) {
    const int32_t i = pool_[k];
    if (twins_[i] != twins_[box] || low_[i] != floor || floor_[i] != floor) continue;
    const int32_t support = min_support(i);
    if (support >= kPlaced) return false;
    set(&low_[i], std::max(support, floor + 1));
  }
  return true;
}

}  // namespace plimsoll::placing
