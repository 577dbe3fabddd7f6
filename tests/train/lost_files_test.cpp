// Tests the kind of the error of a run whose data cannot be read: it depends on whether the run has trained.
#include <gmock/gmock.h>

#include <system_error>

#include "files/picture_files.h"
#include "plimsoll/error.h"
#include "plimsoll/train_job.h"
#include "refusals.h"
#include "train/tiny_job.h"
#include "train/tiny_systems.h"

namespace plimsoll {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class LostFiles : public ::testing::Test {
 protected:
  LostFiles() {
    job_.model = tiny_prompt_segmentation();
    job_.model.segmentation.prompt_length = 40;
    job_.data = scenes(folder_, 60);  // more than are prepared ahead of a step
    job_.batch_size = job_.micro_batch_size = 2;
    job_.gradient_accumulation_steps = AccumulationSchedule{{0, 1}};
    job_.budget.device = int64_t{1} << 30;
    job_.max_steps = 100;
    job_.seed = test_seed();
    job_.threads = 1;
  }

  void remove_pictures() const { std::filesystem::remove_all(job_.data.pictures.images); }

  const TempFolder folder_;
  Job job_;
  Watcher watcher_;
};

TEST_F(LostFiles, BeforeTheFirstStepTheJobIsWrong) {
  remove_pictures();
  EXPECT_THAT(refusal_of([&] { train_job(job_, watcher_); }, UserError::Kind::usage),
              HasSubstr(job_.data.pictures.images.filename().string()));
  EXPECT_THAT(watcher_.steps, SizeIs(0));
}

TEST_F(LostFiles, AfterAStepTheRunHasFailed) {
  watcher_.after_step = [&](const TrainProgress&) { remove_pictures(); };
  EXPECT_THAT(refusal_of([&] { train_job(job_, watcher_); }, UserError::Kind::failure),
              HasSubstr(job_.data.pictures.images.filename().string()));
  EXPECT_GE(watcher_.steps.size(), 1u);
}

}  // namespace
}  // namespace plimsoll
