// Declares a loader of batches in order, prepared ahead by threads that persist over epochs.
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
  int64_t num_workers = 1;        ///< threads that prepare batches; 0: the calling thread, during next()
  int64_t prefetch = 4;           ///< batches ready or in progress ahead of the caller's, at least 1; their bytes are
                                  ///< held in memory
  int64_t samples_per_batch = 1;  ///< samples of a batch, at least 1
  int64_t batches_per_step = 1;   ///< batches of a step, counted from the first batch, if the last batch of a step is
                                  ///< smaller
  int64_t samples_of_last = 0;    ///< samples of the last batch of a step; 0: all batches have the same number
  int64_t start = 0;              ///< the position of the first sample, counted over all epochs
  int64_t stride = 1;             ///< distance from one batch of this loader to its next: the number of ranks
  int64_t offset = 0;             ///< index of the first batch of this loader, in [0, stride): this rank
};

/// Calls `make_batch(first_sample, samples)` for start, start + samples_per_batch, … without end, one batch after the
/// other. With a stride it calls only for batches offset, offset + stride, …. The batches and their order do not depend
/// on the number of workers if make_batch returns the same for the same arguments. With more than one worker, several
/// threads call make_batch at the same time.
class Loader {
 public:
  using MakeBatch = std::function<Batch(int64_t first_sample, int64_t samples)>;

  Loader(MakeBatch make_batch, const LoaderOptions& options);

  /// Waits for calls of make_batch that have begun, and for no others. May be called at any time.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Waits for the next batch in order and returns it. Throws the exception of make_batch instead of its batch; the
  /// next call returns the batch after it. Only one thread at a time may call.
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
  int64_t begun_ = 0;       // batches that a worker has begun
  int64_t handed_out_ = 0;  // batches that next() has returned; begun_ is at most prefetch ahead of it
  bool stopping_ = false;
  std::vector<Slot> slots_;  // batch n uses slot n mod prefetch
  std::vector<std::thread> workers_;
};

}  // namespace plimsoll
