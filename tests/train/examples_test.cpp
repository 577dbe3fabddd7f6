// Tests that every job under examples/ can be planned on any machine, and that its arena wastes little. Tests that
// replay of the language model equals eager libtorch autograd, bit for bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/utils.h>

#include <algorithm>
#include <filesystem>

#include "base/measurement.h"
#include "plimsoll/bytes.h"
#include "plimsoll/devices.h"
#include "plimsoll/train_job.h"
#include "run/equality.h"
#include "run/training_runs.h"

namespace plimsoll {
namespace {

std::vector<std::filesystem::path> example_jobs() {
  std::vector<std::filesystem::path> jobs;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(PLIMSOLL_SOURCE_DIR "/examples"))
    // A system's own words have a test of their own.
    if (entry.path().extension() == ".yaml" && entry.path().parent_path().filename() != "user-requests")
      jobs.push_back(entry.path());
  std::sort(jobs.begin(), jobs.end());
  return jobs;
}

TEST(Examples, AreThere) {
  std::vector<std::string> names;
  for (const auto& job : example_jobs()) names.push_back(job.parent_path().filename() / job.filename());
  EXPECT_THAT(names, ::testing::IsSupersetOf({"small-lm/job.yaml", "small-lm/nvidia.yaml", "small-lm/amd.yaml",
                                              "small-lm/apple.yaml", "small-lm/quickstart.yaml"}));
}

/// Plans the job with time for most measurements: within the seconds of target_of(), a loaded machine measures the
/// scratch of fewer ops in one plan than in the next.
PlannedJob plan_with_more_time(const Job& job) {
  PlanTarget target = target_of(job);
  target.measuring = std::make_shared<MeasureAllowance>(MeasureLimits{.seconds = 15});
  return plan_job(job, target);
}

class ExampleJob : public ::testing::TestWithParam<std::filesystem::path> {};

TEST_P(ExampleJob, FitsItsBudgetWithAWasteOfTwoPercentAtMost) {
  // Free disk and memory are the machine's: the budget is stated in the job.
  const Job job = read_job(GetParam());
  ASSERT_TRUE(job.budget.device) << "an example states its budget";
  const PlannedJob planned = plan_job(job);
  EXPECT_TRUE(planned.plan.fits);
  EXPECT_LE(planned.plan.peak_bytes, *job.budget.device);
  EXPECT_LE(planned.plan.arena_waste(), 0.02);
}

TEST_P(ExampleJob, WastesLittleAtItsMinimumBudgetToo) {
  Job job = read_job(GetParam());
  job.budget.device = plan_with_more_time(job).minimum_budget_bytes;
  const PlannedJob planned = plan_with_more_time(job);
  EXPECT_TRUE(planned.plan.fits);
  EXPECT_LE(planned.plan.arena_waste(), 0.02);
}

INSTANTIATE_TEST_SUITE_P(All, ExampleJob, ::testing::ValuesIn(example_jobs()), [](const auto& info) {
  std::string name = (info.param.parent_path().filename() / info.param.stem()).string();
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
  return name;
});

// examples/fmri-autoencoder/README.md: one card of 48 GB holds it, without host memory.
TEST(Examples, TheLargestAutoencoderFitsOneCard) {
  const Job job = read_job(PLIMSOLL_SOURCE_DIR "/examples/fmri-autoencoder/job.yaml", {"micro_batch_size=4"});
  PlanTarget target = target_of(*find_device("a6000"));
  EXPECT_NEAR(static_cast<double>(*target.budget.device), 47.4 * static_cast<double>(GiB),
              0.05 * static_cast<double>(GiB));
  // The options are those of `plimsoll plan --gpu a6000`: with host memory if the job has some.
  target.budget.host = job.budget.host;
  target.budget.disk = job.budget.disk;
  target.budget.device = std::min(*target.budget.device, *job.budget.device);
  const PlannedJob planned = plan_job(job, target);
  EXPECT_TRUE(planned.plan.fits);
  EXPECT_LE(planned.plan.peak_bytes, *target.budget.device);
  EXPECT_EQ(planned.plan.host_bytes, 0);
  EXPECT_EQ(planned.plan.disk_bytes, 0);
  EXPECT_GE(planned.settings.micro_batch(), 4);
  EXPECT_EQ(planned.settings.parameters, 8'499'653'234);
}

class WholeModel : public ::testing::TestWithParam<const char*> {};

TEST_P(WholeModel, TrainsAsEagerDoes) {
  const Job job = read_job(PLIMSOLL_SOURCE_DIR "/examples/small-lm/job.yaml",
                           {std::string("precision=") + GetParam(), "micro_batch_size=2", "batch_size=4",
                            "gradient_accumulation_steps=2", "data.sequence_length=96", "data.validation_fraction=0"});
  torch::manual_seed(4);
  const int64_t vocab = job.model.decoder.vocab_size;
  // Its ops are not checked: that reads the whole arena for each, four minutes for a model of this size.
  testing::expect_equal(
      step_of(job, 2), options_of(job), [&] { return testing::token_batch(2, 96, vocab); }, 2, 2, /*checks=*/false);
}

INSTANTIATE_TEST_SUITE_P(Precisions, WholeModel, ::testing::Values("32-true", "bf16-mixed"),
                         [](const auto& info) { return std::string(info.index == 0 ? "fp32" : "bf16_mixed"); });

}  // namespace
}  // namespace plimsoll
