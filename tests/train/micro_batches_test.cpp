#include "train/micro_batches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/text/text_dataset.h"
#include "train/tiny_job.h"

namespace plimsoll {
namespace {

std::vector<int64_t> numbers(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.contiguous();
  return {flat.const_data_ptr<int64_t>(), flat.const_data_ptr<int64_t>() + flat.numel()};
}

class MicroBatchesTest : public ::testing::Test {
 protected:
  MicroBatches open(const Job& job) { return {job, text_samples(job.data, *tokenizer_, {})}; }

  TempFolder folder_;
  std::unique_ptr<Tokenizer> tokenizer_ = make_tokenizer("bytes", {});
};

TEST_F(MicroBatchesTest, TensorsLieOverTheBytesOfTheBatch) {
  const Job job = tiny_job(folder_);
  MicroBatches data = open(job);
  data.start(0);
  Batch batch = data.next();
  MicroBatch tensors = tensors_over(batch);
  EXPECT_THAT(tensors, ::testing::SizeIs(2));
  EXPECT_EQ(tensors.at("tokens").sizes(), (std::vector<int64_t>{2, 16}));
  EXPECT_EQ(tensors.at("tokens").scalar_type(), at::kLong);
  EXPECT_EQ(tensors.at("tokens").const_data_ptr(), static_cast<const void*>(batch.fields[0].bytes.data()));
  EXPECT_EQ(tensors.at("targets").const_data_ptr(), static_cast<const void*>(batch.fields[1].bytes.data()));
}

TEST_F(MicroBatchesTest, StartsAtAnyPositionWithTheBatchThatComesThere) {
  Job job = tiny_job(folder_);
  MicroBatches data = open(job);
  data.start(0);
  std::vector<std::vector<std::byte>> straight;
  for (int i = 0; i < 7; ++i) straight.push_back(data.next().fields[0].bytes);
  for (int64_t position : {10, 4}) {
    data.start(position);
    const Batch batch = data.next();
    EXPECT_EQ(batch.position, position);
    EXPECT_EQ(batch.fields[0].bytes, straight[static_cast<size_t>(position / 2)]);
  }
}

TEST_F(MicroBatchesTest, ASmallerLastMicroBatchGoesOnFromAnyStep) {
  Job job = tiny_job(folder_);
  const auto windows_of = [&](int64_t position, int count) {
    MicroBatches data = open(job);
    data.start(position);
    std::vector<int64_t> sizes;
    std::vector<std::byte> bytes;
    for (int i = 0; i < count; ++i) {
      const Batch batch = data.next();
      sizes.push_back(batch.samples);
      bytes.insert(bytes.end(), batch.fields[0].bytes.begin(), batch.fields[0].bytes.end());
    }
    return std::pair(sizes, bytes);
  };
  job.batch_size = 5;
  const auto [sizes, whole] = (job.gradient_accumulation_steps = AccumulationSchedule{{0, 3}}, windows_of(0, 9));
  EXPECT_EQ(sizes, (std::vector<int64_t>{2, 2, 1, 2, 2, 1, 2, 2, 1}));
  const auto [later_sizes, later] = windows_of(10, 3);
  EXPECT_EQ(later_sizes, (std::vector<int64_t>{2, 2, 1}));
  EXPECT_TRUE(std::equal(later.begin(), later.end(), whole.begin() + std::ssize(whole) / 3 * 2));
  job.micro_batch_size = 5;
  job.gradient_accumulation_steps = AccumulationSchedule{{0, 1}};
  EXPECT_EQ(windows_of(0, 3).second, whole);
}

TEST_F(MicroBatchesTest, CountsEpochsInWindows) {
  MicroBatches data = open(tiny_job(folder_, /*windows=*/8));
  EXPECT_EQ(data.epoch(0), 0);
  EXPECT_EQ(data.epoch(7), 0);
  EXPECT_EQ(data.epoch(8), 1);
}

TEST_F(MicroBatchesTest, HasNothingToEvaluateWithoutValidationText) {
  EXPECT_EQ(open(tiny_job(folder_, 8, /*validation=*/0)).evaluation_batches(), 0);
}

TEST_F(MicroBatchesTest, EvaluatesEveryWindowOnceAndFillsUpWithRowsThatDoNotCount) {
  Job job = tiny_job(folder_, 8, /*validation=*/5);
  const MicroBatches data = open(job);
  ASSERT_EQ(data.evaluation_batches(), 3);
  std::vector<int64_t> tokens;
  int64_t windows = 0;
  for (int64_t i = 0; i < 3; ++i) {
    int64_t counted = 0;
    Batch batch = data.evaluation_batch(i, counted);
    MicroBatch tensors = tensors_over(batch);
    const auto rows = numbers(tensors.at("tokens").narrow(0, 0, counted));
    tokens.insert(tokens.end(), rows.begin(), rows.end());
    windows += counted;
    EXPECT_THAT(numbers(tensors.at("targets").narrow(0, 0, counted)), ::testing::Each(::testing::Ge(0)));
    EXPECT_THAT(numbers(tensors.at("targets").narrow(0, counted, 2 - counted)), ::testing::Each(-100));
    EXPECT_THAT(numbers(tensors.at("tokens")), ::testing::Each(::testing::Ge(0)));
  }
  EXPECT_EQ(windows, 5);
  // The held-out text is at the end: 5 windows and the token after the last.
  std::vector<int64_t> text;
  for (char byte : sample_text(8 * 16 + 1 + 5 * 16)) text.push_back(static_cast<unsigned char>(byte));
  EXPECT_EQ(tokens, std::vector<int64_t>(text.end() - 5 * 16, text.end()));
}

TEST_F(MicroBatchesTest, EvaluatesNoMoreThanAskedFor) {
  Job job = tiny_job(folder_, 8, /*validation=*/5);
  job.eval_batches = 1;  // a batch of batch_size 4
  EXPECT_EQ(open(job).evaluation_batches(), 2);
  job.eval_batches = kAllBatches;
  EXPECT_EQ(open(job).evaluated(), 5);
}

TEST_F(MicroBatchesTest, EvaluatesTheSameWindowsWhateverTheBatch) {
  for (const int64_t batch : {2, 4, 32}) {
    Job job = tiny_job(folder_, 2 * kEvaluatedSamples, /*validation=*/kEvaluatedSamples + 40);
    job.batch_size = batch;
    job.micro_batch_size = 2;
    job.gradient_accumulation_steps = AccumulationSchedule{{0, batch / 2}};
    EXPECT_EQ(open(job).evaluated(), kEvaluatedSamples) << batch;
  }
}

// The loss of a job does not depend on its budget, which the micro batch follows.
TEST_F(MicroBatchesTest, EvaluatesTheSameWindowsWhateverTheMicroBatch) {
  for (int64_t micro : {1, 2, 3, 4}) {
    Job job = tiny_job(folder_, 12, /*validation=*/9);
    job.eval_batches = 1;
    job.micro_batch_size = micro;
    const MicroBatches batches = open(job);
    int64_t sum = 0;
    for (int64_t i = 0; i < batches.evaluation_batches(); ++i) {
      int64_t windows = 0;
      batches.evaluation_batch(i, windows);
      sum += windows;
    }
    EXPECT_EQ(sum, 4);
  }
}

}  // namespace
}  // namespace plimsoll
