// Every job under examples/ can be planned on any machine, and its arena wastes little.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "plimsoll/train_job.h"

namespace plimsoll {
namespace {

std::vector<std::filesystem::path> example_jobs() {
  std::vector<std::filesystem::path> jobs;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(PLIMSOLL_SOURCE_DIR "/examples"))
    if (entry.path().extension() == ".yaml") jobs.push_back(entry.path());
  std::sort(jobs.begin(), jobs.end());
  return jobs;
}

TEST(Examples, AreThere) {
  std::vector<std::string> names;
  for (const auto& job : example_jobs()) names.push_back(job.parent_path().filename() / job.filename());
  EXPECT_THAT(names, ::testing::IsSupersetOf({"small-lm/job.yaml", "small-lm/nvidia.yaml", "small-lm/amd.yaml",
                                              "small-lm/apple.yaml", "small-lm/quickstart.yaml"}));
}

class ExampleJob : public ::testing::TestWithParam<std::filesystem::path> {};

TEST_P(ExampleJob, FitsItsBudgetWithAWasteOfTwoPercentAtMost) {
  // Free disk and memory are the machine's: the budget is stated in the job.
  const Job job = read_job(GetParam());
  ASSERT_TRUE(job.memory_budget) << "an example states its budget";
  const PlannedJob planned = plan_job(job);
  EXPECT_TRUE(planned.plan.fits);
  EXPECT_LE(planned.plan.peak_bytes, *job.memory_budget);
  EXPECT_LE(planned.plan.arena_waste(), 0.02);
}

TEST_P(ExampleJob, WastesLittleAtItsMinimumBudgetToo) {
  Job job = read_job(GetParam());
  job.memory_budget = plan_job(job).plan.minimum_budget_bytes;
  const PlannedJob planned = plan_job(job);
  EXPECT_TRUE(planned.plan.fits);
  EXPECT_LE(planned.plan.arena_waste(), 0.02);
}

INSTANTIATE_TEST_SUITE_P(All, ExampleJob, ::testing::ValuesIn(example_jobs()), [](const auto& info) {
  std::string name = (info.param.parent_path().filename() / info.param.stem()).string();
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
  return name;
});

}  // namespace
}  // namespace plimsoll
