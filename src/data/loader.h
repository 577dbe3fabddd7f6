// Batches in order, prepared ahead by threads that persist over epochs.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "data/batch.h"

namespace plimsoll {

struct LoaderOptions {
  int64_t num_workers = 1;        ///< threads that prepare batches; 0: the caller's own, when it asks
  int64_t prefetch = 4;           ///< batches ready or in work ahead of the caller's, at least 1: their bytes are held
  int64_t samples_per_batch = 1;  ///< at least 1
  int64_t batches_per_step = 1;   ///< from the first on: where the last of so many is smaller
  int64_t samples_of_last = 0;    ///< of the last of a step; 0: all are alike
  int64_t start = 0;              ///< the position of the first sample, counted over all epochs
  int64_t stride = 1;             ///< batches from one that is made to the next: the number of ranks
  int64_t offset = 0;             ///< the first of them, in [0, stride): this rank
};

/// Calls `make_batch(first_sample, samples)` for start, start + samples_per_batch, … without end, one batch after the
/// other, with a stride only for batches offset, offset + stride, …. The batches and their order do not depend on the
/// number of workers as long as make_batch gives the same for the same arguments; with more than one worker it is
/// called from several threads at once.
class Loader {
 public:
  using MakeBatch = std::function<Batch(int64_t first_sample, int64_t samples)>;

  Loader(MakeBatch make_batch, const LoaderOptions& options);

  /// Waits for calls of make_batch that have begun, no others; may come at any time.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// The next batch in order; waits for it. An exception of make_batch is thrown here, in the place of its batch; the
  /// call after that gives the batch after it. One thread at a time.
  Batch next();

 private:
  struct Slot {
    std::optional<Batch> batch;
    std::exception_ptr error;
  };

  void stop();
  void work();
  Batch make(int64_t number) const;

  const MakeBatch make_batch_;
  const LoaderOptions options_;
  std::mutex mutex_;
  std::condition_variable slot_freed_;
  std::condition_variable slot_filled_;
  int64_t begun_ = 0;       // batches that a worker has taken on
  int64_t handed_out_ = 0;  // batches that next() has given; begun_ is at most prefetch ahead of it
  bool stopping_ = false;
  std::vector<Slot> slots_;  // batch n is put in slot n mod prefetch
  std::vector<std::thread> workers_;
};

}  // namespace plimsoll
