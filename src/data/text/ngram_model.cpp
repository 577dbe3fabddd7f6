#include "data/text/ngram_model.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/hash.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr size_t kFirstSlots = 1024;
constexpr size_t kSlotBytes = sizeof(uint64_t) + sizeof(uint32_t);
constexpr std::array<double, 3> kFallbackDiscounts = {0.5, 1, 1.5};

uint64_t key_of(uint32_t node, int64_t token) {
  return static_cast<uint64_t>(node) << 32 | static_cast<uint64_t>(token);
}

// `with[i]`: number of n-grams with count i + 1.
std::array<double, 3> estimated_discounts(const std::array<int64_t, 4>& with) {
  if (std::ranges::find(with, 0) != with.end()) return kFallbackDiscounts;
  const auto n = [&](size_t i) { return static_cast<double>(with[i]); };
  const double share = n(0) / (n(0) + 2 * n(1));
  std::array<double, 3> discounts{};
  for (size_t i = 0; i < discounts.size(); ++i) {
    const auto times = static_cast<double>(i + 1);
    discounts[i] = times - (times + 1) * share * n(i + 1) / n(i);
    // Counts of few n-grams can give a discount that no count may have.
    if (!(discounts[i] > 0 && discounts[i] <= times)) return kFallbackDiscounts;
  }
  return discounts;
}

}  // namespace

size_t NgramTable::slots_for(size_t entries) {
  size_t slots = kFirstSlots;
  while (slots * 2 < entries * 3) slots *= 2;  // at most two thirds are taken
  return slots;
}

size_t NgramTable::peak_bytes_with(size_t more) const {
  const size_t slots = std::max(keys_.size(), slots_for(size_ + more));
  return kSlotBytes * (slots > keys_.size() ? slots + slots / 2 : slots);  // the old slots live while they are copied
}

size_t NgramTable::slot_of(uint64_t key) const {
  const size_t mask = keys_.size() - 1;
  size_t slot = static_cast<size_t>(mix64(key)) & mask;
  while (keys_[slot] != kFree && keys_[slot] != key) slot = (slot + 1) & mask;
  return slot;
}

void NgramTable::grow() {
  const std::vector<uint64_t> keys = std::exchange(keys_, {});
  const std::vector<uint32_t> values = std::exchange(values_, {});
  keys_.assign(slots_for(size_ + 1), kFree);
  values_.resize(keys_.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    if (keys[i] == kFree) continue;
    const size_t slot = slot_of(keys[i]);
    keys_[slot] = keys[i];
    values_[slot] = values[i];
  }
}

std::pair<uint32_t*, bool> NgramTable::find_or_add(uint64_t key, uint32_t value_if_new) {
  if (keys_.size() < slots_for(size_ + 1) || keys_.empty()) grow();
  const size_t slot = slot_of(key);
  const bool added = keys_[slot] == kFree;
  if (added) {
    keys_[slot] = key;
    values_[slot] = value_if_new;
    ++size_;
  }
  return {&values_[slot], added};
}

const uint32_t* NgramTable::find(uint64_t key) const {
  if (keys_.empty()) return nullptr;
  const size_t slot = slot_of(key);
  return keys_[slot] == kFree ? nullptr : &values_[slot];
}

NgramModel::NgramModel(int64_t vocabulary, int order) : vocabulary_(vocabulary), order_(order), nodes_(1) {
  check(order >= 1 && order <= kMaxOrder, "an n-gram has 1 to 8 tokens");
  check(vocabulary >= 1 && vocabulary <= int64_t{1} << 31, "a token fits into half a key");
}

size_t NgramModel::peak_bytes_with(size_t tokens) const {
  const size_t inner = tokens * static_cast<size_t>(order_ - 1);
  return (nodes_.size() + inner) * sizeof(Node) + inner_.peak_bytes_with(inner) + whole_.peak_bytes_with(tokens);
}

void NgramModel::count(std::span<const int64_t> piece) {
  check(!finished_, "the model is still counting");
  // ends[k]: node of the last k tokens before the current one; the n-grams that end there begin at the piece's start
  // at the earliest.
  std::array<uint32_t, kMaxOrder> ends{};
  for (size_t i = 0; i < piece.size(); ++i) {
    const int64_t token = piece[i];
    check(token >= 0 && token < vocabulary_, "a token of the vocabulary");
    const int longest = static_cast<int>(std::min<size_t>(i + 1, static_cast<size_t>(order_)));
    std::array<uint32_t, kMaxOrder> next{};
    for (int length = 1; length <= longest; ++length) {
      const uint64_t key = key_of(ends[static_cast<size_t>(length - 1)], token);
      bool added = false;
      if (length == order_) {
        const auto [occurrences, is_new] = whole_.find_or_add(key, 0);
        *occurrences += *occurrences < std::numeric_limits<uint32_t>::max();
        added = is_new;
      } else {
        const auto [node, is_new] = inner_.find_or_add(key, static_cast<uint32_t>(nodes_.size()));
        if (is_new) nodes_.push_back({.length = static_cast<uint32_t>(length)});
        next[static_cast<size_t>(length)] = *node;
        added = is_new;
      }
      // The n-gram without its first token has one more different token before it.
      if (added && length > 1) ++nodes_[next[static_cast<size_t>(length - 1)]].count;
    }
    ends = next;
  }
}

void NgramModel::finish() {
  check(!finished_, "a model is finished once");
  finished_ = true;
  std::vector<std::array<int64_t, 4>> with(static_cast<size_t>(order_) + 1);
  const auto follow = [&](uint64_t key, uint32_t count) {
    if (count == 0) return;  // occurs at the start of pieces only
    Node& context = nodes_[key >> 32];
    context.total += count;
    ++context.follows;
    context.follows_once += count == 1;
    context.follows_twice += count == 2;
    if (count <= 4) ++with[context.length + 1][count - 1];
  };
  inner_.for_each([&](uint64_t key, uint32_t node) { follow(key, nodes_[node].count); });
  whole_.for_each(follow);
  for (const auto& counts : with)
    for (const double each : estimated_discounts(counts)) discounts_.push_back(each);
}

std::span<const double, 3> NgramModel::discounts(int length) const {
  check(finished_ && length >= 1 && length <= order_, "an n-gram of the finished model");
  return std::span<const double, 3>(discounts_.data() + 3 * length, 3);
}

double NgramModel::probability(std::span<const int64_t> context, int64_t token) const {
  check(finished_, "the model is finished");
  const size_t before = std::min(context.size(), static_cast<size_t>(order_ - 1));
  double probability = 1 / static_cast<double>(vocabulary_);
  for (size_t length = 0; length <= before; ++length) {
    uint32_t node = 0;
    for (const int64_t each : context.last(length)) {
      const uint32_t* next = inner_.find(key_of(node, each));
      if (!next) return probability;  // a longer context has not been seen either
      node = *next;
    }
    const Node& seen = nodes_[node];
    if (seen.total == 0) continue;  // occurs before the end of pieces only, or before an n-gram at a start
    uint32_t count = 0;
    if (static_cast<int>(length) + 1 == order_) {
      if (const uint32_t* occurrences = whole_.find(key_of(node, token))) count = *occurrences;
    } else if (const uint32_t* found = inner_.find(key_of(node, token))) {
      count = nodes_[*found].count;
    }
    const auto discount = discounts(static_cast<int>(length) + 1);
    const auto often = static_cast<double>(seen.follows - seen.follows_once - seen.follows_twice);
    const double kept_back = discount[0] * seen.follows_once + discount[1] * seen.follows_twice + discount[2] * often;
    const double own = count == 0 ? 0 : count - discount[std::min<uint32_t>(count, 3) - 1];
    probability = (own + kept_back * probability) / seen.total;
  }
  return probability;
}

}  // namespace plimsoll
