#include "data/sampler.h"

#include <bit>
#include <numeric>
#include <utility>

#include "base/hash.h"
#include "plimsoll/error.h"

namespace plimsoll {

WindowOrder::WindowOrder(int64_t count, uint64_t seed, bool shuffle) : count_(count), seed_(seed), shuffle_(shuffle) {
  check(count >= 1 && count <= (int64_t{1} << 32), "an order has 1 to 2^32 windows");
}

int64_t WindowOrder::epoch(int64_t position) const {
  check(position >= 0, "positions count from 0");
  return position / count_;
}

int64_t WindowOrder::index(int64_t position) const {
  const int64_t of_epoch = epoch(position);
  const int64_t within = position % count_;
  if (!shuffle_) return within;
  if (count_ > kMaxListedWindows) return IndexPermutation(count_, key_of(of_epoch))(within);
  return (*permutation(of_epoch))[static_cast<std::size_t>(within)];
}

uint64_t WindowOrder::key_of(int64_t epoch) const {
  // Mixed one after the other: seed 1 in epoch 0 is not seed 0 in epoch 1.
  return mix64(splitmix64(seed_) + static_cast<uint64_t>(epoch));
}

std::shared_ptr<const WindowOrder::Permutation> WindowOrder::permutation(int64_t epoch) const {
  const std::lock_guard lock(mutex_);
  Cached& cached = cached_[epoch % 2];
  if (cached.epoch == epoch) return cached.order;
  auto order = std::make_shared<Permutation>(static_cast<std::size_t>(count_));
  std::iota(order->begin(), order->end(), 0u);
  SplitMix64 random(key_of(epoch));
  for (std::size_t last = order->size(); last-- > 1;) std::swap((*order)[last], (*order)[random.below(last + 1)]);
  cached = {epoch, order};
  return order;
}

IndexPermutation::IndexPermutation(int64_t count, uint64_t key) : count_(static_cast<uint64_t>(count)) {
  check(count >= 1 && count <= int64_t{1} << 62, "a permutation is of 1 to 2^62 numbers");
  const int bits = std::bit_width(count_ - 1);
  low_bits_ = bits / 2;
  high_bits_ = bits - low_bits_;
  SplitMix64 random(key);
  for (uint64_t& each : keys_) each = random.next();
}

uint64_t IndexPermutation::once(uint64_t number) const {
  const uint64_t low_mask = (uint64_t{1} << low_bits_) - 1, high_mask = (uint64_t{1} << high_bits_) - 1;
  uint64_t low = number & low_mask, high = number >> low_bits_;
  // Each half round changes one part by a function of the other part, so it can be undone for any function.
  for (int i = 0; i < kHalfRounds; i += 2) {
    high ^= mix64(low + keys_[static_cast<size_t>(i)]) & high_mask;
    low ^= mix64(high + keys_[static_cast<size_t>(i) + 1]) & low_mask;
  }
  return high << low_bits_ | low;
}

int64_t IndexPermutation::operator()(int64_t index) const {
  check(index >= 0 && static_cast<uint64_t>(index) < count_, "an index of a permutation is below its count");
  uint64_t number = once(static_cast<uint64_t>(index));
  while (number >= count_) number = once(number);
  return static_cast<int64_t>(number);
}

}  // namespace plimsoll
