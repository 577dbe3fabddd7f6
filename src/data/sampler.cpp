#include "data/sampler.h"

#include <numeric>
#include <utility>

#include "base/hash.h"
#include "data/index_permutation.h"
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

}  // namespace plimsoll
