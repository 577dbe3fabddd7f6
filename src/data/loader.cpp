#include "data/loader.h"

#include <algorithm>
#include <utility>

#include "plimsoll/error.h"

namespace plimsoll {

Loader::Loader(MakeBatch make_batch, const LoaderOptions& options)
    : make_batch_(std::move(make_batch)), options_(options) {
  check(options.num_workers >= 0, "a loader's num_workers is at least 0");
  check(options.samples_per_batch >= 1, "a loader's samples_per_batch is at least 1");
  check(options.batches_per_step >= 1, "a loader's batches_per_step is at least 1");
  check(options.samples_of_last >= 0 && options.samples_of_last <= options.samples_per_batch,
        "a loader's last batch of a step has no more samples than the others");
  check(options.start >= 0, "a loader's start is at least 0");
  if (options.num_workers == 0) return;
  check(options.prefetch >= 1, "a loader's prefetch is at least 1");
  slots_.resize(static_cast<std::size_t>(options.prefetch));
  try {
    // More workers than batches in progress would only wait.
    for (int64_t i = 0; i < std::min(options.num_workers, options.prefetch); ++i)
      workers_.emplace_back([this] { work(); });
  } catch (...) {
    stop();
    throw;
  }
}

Loader::~Loader() {
  stop();
}

void Loader::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  slot_freed_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

Batch Loader::make(int64_t own_number) const {
  const int64_t number = own_number * options_.stride + options_.offset;
  const int64_t samples = options_.samples_per_batch, count = options_.batches_per_step;
  const int64_t missing = options_.samples_of_last > 0 ? samples - options_.samples_of_last : 0;
  const int64_t first = options_.start + number * samples - number / count * missing;
  return make_batch_(first, number % count == count - 1 ? samples - missing : samples);
}

Batch Loader::next() {
  if (workers_.empty()) return make(handed_out_++);
  Slot taken;
  {
    std::unique_lock lock(mutex_);
    Slot& slot = slots_[static_cast<std::size_t>(handed_out_ % options_.prefetch)];
    slot_filled_.wait(lock, [&] { return slot.batch || slot.error; });
    taken = std::exchange(slot, {});
    ++handed_out_;
  }
  slot_freed_.notify_one();
  if (taken.error) std::rethrow_exception(taken.error);
  return std::move(*taken.batch);
}

void Loader::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    slot_freed_.wait(lock, [&] { return stopping_ || begun_ < handed_out_ + options_.prefetch; });
    if (stopping_) return;
    const int64_t number = begun_++;
    lock.unlock();
    Slot filled;
    try {
      filled.batch = make(number);
    } catch (...) {
      filled.error = std::current_exception();
    }
    lock.lock();
    slots_[static_cast<std::size_t>(number % options_.prefetch)] = std::move(filled);
    slot_filled_.notify_one();
  }
}

}  // namespace plimsoll
