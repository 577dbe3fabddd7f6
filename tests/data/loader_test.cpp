#include "data/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <latch>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "base/hash.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

/// A batch that shows what it was made for.
Batch numbered(int64_t first, int64_t samples) {
  BatchField field{"numbers", DType::int64, {samples}, std::vector<std::byte>(static_cast<size_t>(samples) * 8)};
  for (int64_t i = 0; i < samples; ++i) {
    const int64_t number = first + i;
    std::memcpy(field.bytes.data() + i * 8, &number, 8);
  }
  return {first, samples, {field}};
}

int64_t first_number(const Batch& batch) {
  int64_t number = -1;
  std::memcpy(&number, batch.fields.at(0).bytes.data(), 8);
  return number;
}

TEST(Loader, GivesTheSameForAnyWorkersAndAnyStart) {
  SplitMix64 random(1);
  for (int64_t workers : {0, 1, 2, 4})
    for (int64_t prefetch : {1, 3, 8})
      for (int64_t start : {int64_t{0}, int64_t{1}, static_cast<int64_t>(random.below(100000))}) {
        const int64_t samples = 1 + static_cast<int64_t>(random.below(5));
        Loader loader(numbered,
                      {.num_workers = workers, .prefetch = prefetch, .samples_per_batch = samples, .start = start});
        for (int64_t i = 0; i < 50; ++i) {
          const Batch batch = loader.next();
          ASSERT_EQ(batch.position, start + i * samples);
          ASSERT_EQ(batch.samples, samples);
          ASSERT_EQ(first_number(batch), start + i * samples);
        }
      }
}

TEST(Loader, TheLastBatchOfAStepMayBeSmaller) {
  for (int64_t workers : {0, 1, 3})
    for (int64_t start : {0, 7, 20}) {
      Loader loader(numbered, {.num_workers = workers,
                               .samples_per_batch = 4,
                               .batches_per_step = 3,
                               .samples_of_last = 2,
                               .start = start});
      int64_t position = start;
      for (int64_t i = 0; i < 30; ++i) {
        const Batch batch = loader.next();
        ASSERT_EQ(batch.position, position);
        ASSERT_EQ(batch.samples, i % 3 == 2 ? 2 : 4);
        position += batch.samples;
      }
      EXPECT_EQ(position, start + 100);
    }
  EXPECT_THROW(Loader(numbered, {.num_workers = 0, .batches_per_step = 0}), InternalError);
  EXPECT_THROW(Loader(numbered, {.num_workers = 0, .samples_of_last = 2}), InternalError);
}

// Batches of all ranks in turn are those of one rank, also if the last of a step is smaller: in each step it belongs to
// another rank if the ranks do not divide a step's batches.
TEST(Loader, RanksInTurnHaveTheBatchesOfOne) {
  for (int64_t ranks : {2, 3, 4})
    for (int64_t workers : {0, 1, 3})
      for (int64_t batches_per_step : {1, 4, 6})
        for (int64_t samples_of_last : {0, 2}) {
          const LoaderOptions options{.num_workers = workers,
                                      .prefetch = 2,
                                      .samples_per_batch = 5,
                                      .batches_per_step = batches_per_step,
                                      .samples_of_last = samples_of_last,
                                      .start = 13};
          Loader one(numbered, options);
          std::vector<std::unique_ptr<Loader>> all;
          for (int64_t rank = 0; rank < ranks; ++rank) {
            LoaderOptions own = options;
            own.stride = ranks;
            own.offset = rank;
            all.push_back(std::make_unique<Loader>(numbered, own));
          }
          for (int64_t i = 0; i < 48; ++i) {
            const Batch expected = one.next(), got = all[static_cast<size_t>(i % ranks)]->next();
            ASSERT_EQ(got.position, expected.position) << "batch " << i << " of " << ranks << " ranks";
            ASSERT_EQ(got.samples, expected.samples) << "batch " << i << " of " << ranks << " ranks";
            ASSERT_EQ(first_number(got), expected.position);
          }
        }
}

// Each batch is made on one rank.
TEST(Loader, ARankMakesNoBatchOfAnother) {
  std::mutex mutex;
  std::set<int64_t> made;
  Loader loader(
      [&](int64_t first, int64_t samples) {
        const std::lock_guard lock(mutex);
        made.insert(first);
        return numbered(first, samples);
      },
      {.num_workers = 2, .prefetch = 4, .samples_per_batch = 2, .start = 0, .stride = 3, .offset = 1});
  for (int64_t i = 0; i < 20; ++i) EXPECT_EQ(loader.next().position, 2 * (3 * i + 1));
  const std::lock_guard lock(mutex);
  for (const int64_t first : made) EXPECT_EQ(first % 6, 2) << first;
}

TEST(Loader, PreparesNoMoreThanAsked) {
  for (int64_t workers : {1, 4}) {
    std::atomic<int64_t> made = 0;
    Loader loader([&](int64_t first, int64_t samples) { return ++made, numbered(first, samples); },
                  {.num_workers = workers, .prefetch = 3, .samples_per_batch = 2, .start = 0});
    for (int64_t taken = 0; taken < 200; ++taken) {
      ASSERT_LE(made, taken + 3);
      ASSERT_EQ(loader.next().position, taken * 2);
      ASSERT_GE(made, taken + 1);
    }
  }
}

TEST(Loader, WorksAheadWhileTheCallerIsBusy) {
  std::latch four_made(4);
  Loader loader(
      [&](int64_t first, int64_t samples) {
        if (first < 4) four_made.count_down();
        return numbered(first, samples);
      },
      {.num_workers = 1, .prefetch = 4, .samples_per_batch = 1, .start = 0});
  four_made.wait();  // without a single next()
  EXPECT_EQ(loader.next().position, 0);
}

TEST(Loader, WorkersShareTheWork) {
  std::latch both_at_work(2);
  Loader loader(
      [&](int64_t first, int64_t samples) {
        if (first < 2) both_at_work.arrive_and_wait();  // one worker alone would wait here for ever
        return numbered(first, samples);
      },
      {.num_workers = 2, .prefetch = 2, .samples_per_batch = 1, .start = 0});
  EXPECT_EQ(loader.next().position, 0);
  EXPECT_EQ(loader.next().position, 1);
}

TEST(Loader, WorkersPersist) {
  std::mutex mutex;
  std::set<std::thread::id> threads;
  Loader loader(
      [&](int64_t first, int64_t samples) {
        const std::lock_guard lock(mutex);
        threads.insert(std::this_thread::get_id());
        return numbered(first, samples);
      },
      {.num_workers = 2, .prefetch = 4, .samples_per_batch = 1, .start = 0});
  for (int i = 0; i < 200; ++i) loader.next();
  const std::lock_guard lock(mutex);
  EXPECT_LE(threads.size(), 2u);
  EXPECT_FALSE(threads.contains(std::this_thread::get_id()));
}

TEST(Loader, UsesTheCallersThreadWithoutWorkers) {
  std::thread::id used;
  int made = 0;
  Loader loader([&](int64_t first,
                    int64_t samples) { return used = std::this_thread::get_id(), ++made, numbered(first, samples); },
                {.num_workers = 0, .prefetch = 4, .samples_per_batch = 1, .start = 0});
  EXPECT_EQ(made, 0);
  loader.next();
  EXPECT_EQ(made, 1);
  EXPECT_EQ(used, std::this_thread::get_id());
}

TEST(Loader, ThrowsInThePlaceOfTheBatch) {
  for (int64_t workers : {0, 1, 4}) {
    Loader loader(
        [](int64_t first, int64_t samples) {
          if (first == 5) throw UserError("sample 5 is bad");
          return numbered(first, samples);
        },
        {.num_workers = workers, .prefetch = 4, .samples_per_batch = 1, .start = 0});
    for (int64_t i = 0; i < 10; ++i) {
      if (i == 5)
        EXPECT_THROW(loader.next(), UserError);
      else
        EXPECT_EQ(loader.next().position, i);
    }
  }
}

TEST(Loader, EndsAtAnyTime) {
  for (int64_t workers : {0, 1, 4})
    for (int64_t taken = 0; taken < 20; ++taken) {
      Loader loader(numbered, {.num_workers = workers, .prefetch = 3, .samples_per_batch = 4, .start = taken});
      for (int64_t i = 0; i < taken; ++i) loader.next();
    }
}

TEST(Loader, RefusesOptionsThatMeanNothing) {
  EXPECT_THROW(Loader(numbered, {.num_workers = -1, .prefetch = 1, .samples_per_batch = 1, .start = 0}), InternalError);
  EXPECT_THROW(Loader(numbered, {.num_workers = 1, .prefetch = 0, .samples_per_batch = 1, .start = 0}), InternalError);
  EXPECT_THROW(Loader(numbered, {.num_workers = 0, .prefetch = 1, .samples_per_batch = 0, .start = 0}), InternalError);
  EXPECT_THROW(Loader(numbered, {.num_workers = 0, .prefetch = 1, .samples_per_batch = 1, .start = -1}), InternalError);
}

}  // namespace
}  // namespace plimsoll
