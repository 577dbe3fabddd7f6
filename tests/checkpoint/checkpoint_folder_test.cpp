// Tests the folder of a run's checkpoints: which files it has, keeps and deletes, and from which a run resumes.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/checkpoint.h"
#include "safetensors/safetensors.h"
#include "test_files.h"

namespace plimsoll {
namespace {

using ::testing::HasSubstr;

class CheckpointFolderTest : public ::testing::Test {
 protected:
  CheckpointFolderTest() { config_.directory = folder_.path(); }

  void save(int64_t step) {
    CheckpointInfo info;
    info.step = step;
    save_checkpoint(config_, info, state_);
  }
  std::vector<int64_t> steps() const {
    std::vector<int64_t> steps;
    for (const auto& [step, file] : checkpoints_in(config_.directory)) steps.push_back(step);
    return steps;
  }

  TempFolder folder_;
  CheckpointConfig config_;
  NamedTensors state_ = {{"w", at::zeros({1})}};
};

TEST_F(CheckpointFolderTest, SeesCheckpointsAndNothingElse) {
  for (const char* name : {"step-00000004.safetensors", "step-123456789.safetensors",
                           ".step-00000005.safetensors.x.tmp", ".step-00000006.safetensors", "step-7.safetensors",
                           "step-0000000a.safetensors", "step-00000008.safetensors.bak", "step--0000009.safetensors",
                           "step-.safetensors", "step-99999999999999999999.safetensors", "model.safetensors"})
    put_file(folder_ / name, "");
  EXPECT_THAT(steps(), ::testing::ElementsAre(4, 123456789));
}

TEST_F(CheckpointFolderTest, HasNoneWhereThereIsNoFolder) {
  EXPECT_THAT(checkpoints_in(folder_ / "none"), ::testing::IsEmpty());
}

TEST_F(CheckpointFolderTest, KeepsTheNewest) {
  config_.keep = 2;
  for (int64_t step : {1, 2, 3, 4}) save(step);
  EXPECT_THAT(steps(), ::testing::ElementsAre(3, 4));
}

TEST_F(CheckpointFolderTest, KeepsAllWhereKeepIsZero) {
  config_.keep = 0;
  for (int64_t step : {1, 2, 3}) save(step);
  EXPECT_THAT(steps(), ::testing::ElementsAre(1, 2, 3));
}

// A run that resumes from an older checkpoint writes into a folder that holds later ones.
TEST_F(CheckpointFolderTest, KeepsTheFileJustWrittenNextToLaterOnes) {
  for (const int64_t keep : {1, 2}) {
    config_.keep = 0;
    for (int64_t step : {10, 20, 30}) save(step);
    config_.keep = keep;
    save(5);
    EXPECT_THAT(steps(), ::testing::ElementsAre(5, 10, 20, 30)) << "keep " << keep;
    save(5);
    EXPECT_THAT(steps(), ::testing::ElementsAre(5, 10, 20, 30)) << "keep " << keep << ", written twice";
    std::filesystem::remove(folder_ / "step-00000005.safetensors");
  }
}

TEST_F(CheckpointFolderTest, DeletesEarlierFilesAndKeepsLaterOnes) {
  for (const int64_t keep : {1, 2}) {
    config_.keep = 0;
    for (int64_t step : {1, 2, 3, 10, 20, 30}) save(step);
    config_.keep = keep;
    save(5);
    EXPECT_THAT(steps(), ::testing::ElementsAre(5, 10, 20, 30)) << "keep " << keep;
    save(15);  // earlier than 20 and 30 only
    EXPECT_THAT(steps(), ::testing::ElementsAre(15, 20, 30)) << "keep " << keep;
    for (int64_t step : {15, 20, 30}) std::filesystem::remove(folder_ / fmt::format("step-{:08}.safetensors", step));
  }
}

TEST_F(CheckpointFolderTest, DeletesEarlierFilesOnlyUntilKeepAreLeft) {
  config_.keep = 0;
  for (int64_t step : {1, 2, 30}) save(step);
  config_.keep = 3;
  save(5);
  EXPECT_THAT(steps(), ::testing::ElementsAre(2, 5, 30));
}

TEST_F(CheckpointFolderTest, DeletesNothingUntilTheNewOneIsInPlace) {
  config_.keep = 1;
  save(1);
  std::filesystem::create_directory(folder_ / "step-00000002.safetensors");  // cannot be replaced by a file
  user_error_of([&] { save(2); });
  EXPECT_TRUE(std::filesystem::is_regular_file(folder_ / "step-00000001.safetensors"));
}

TEST_F(CheckpointFolderTest, ResumesFromTheNewestOrAnew) {
  EXPECT_EQ(checkpoint_to_resume(config_), std::nullopt);
  save(9);
  save(10);
  EXPECT_EQ(checkpoint_to_resume(config_), folder_ / "step-00000010.safetensors");
}

TEST_F(CheckpointFolderTest, ResumesFromTheOneThatIsNamed) {
  config_.resume = (folder_ / "elsewhere.safetensors").string();
  EXPECT_THAT(user_error_of([&] { checkpoint_to_resume(config_); }), HasSubstr("does not exist"));
  put_file(config_.resume, "a checkpoint");
  EXPECT_EQ(checkpoint_to_resume(config_), config_.resume);
}

TEST_F(CheckpointFolderTest, NeverStartsAnewInAnEmptyFolderOnly) {
  config_.resume = "never";
  EXPECT_EQ(checkpoint_to_resume(config_), std::nullopt);
  save(5);
  EXPECT_THAT(user_error_of([&] { checkpoint_to_resume(config_); }),
              ::testing::AllOf(HasSubstr("step-00000005.safetensors"), HasSubstr("checkpoint.resume: auto")));
}

TEST_F(CheckpointFolderTest, DoesNotResumeFromAnOlderOneWhileLaterOnesAreThere) {
  save(5);
  save(6);
  config_.resume = (folder_ / "step-00000005.safetensors").string();
  EXPECT_THAT(user_error_of([&] { checkpoint_to_resume(config_); }), HasSubstr("step-00000006.safetensors"));
  config_.resume = (folder_ / "step-00000006.safetensors").string();
  EXPECT_EQ(checkpoint_to_resume(config_), config_.resume);
}

}  // namespace
}  // namespace plimsoll
