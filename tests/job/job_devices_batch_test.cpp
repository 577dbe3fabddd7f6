// Tests the meaning of batch_size with several devices.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job/job_testing.h"
#include "plimsoll/error.h"
#include "plimsoll/job.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// Returns "2048 = 64 x 4 x 8": the effective batch of one device and of the devices; "256 = 32 x 8" if the micro batch
/// is open.
std::string effective(const Job& job) {
  const std::string all = fmt::format("{} = ", *job.batch_size * job.ranks.count);
  if (!job.micro_batch_size) return all + fmt::format("{} x {}", *job.batch_size, job.ranks.count);
  return all +
         fmt::format("{} x {} x {}", *job.micro_batch_size, job.gradient_accumulation_steps->at(0), job.ranks.count);
}

TEST(JobDevicesBatch, IsThatOfEachDevice) {
  const std::vector<std::pair<const char*, const char*>> files = {
      {"batch_size: 64\ngradient_accumulation_steps: 4\ndevices: 8", "2048 = 64 x 4 x 8"},
      {"batch_size: 32\ndevices: 8", "256 = 32 x 8"},
      {"batch_size: 2\nnproc_per_node: 4", "8 = 2 x 4"},
      {"devices: 4", "32 = 8 x 4"},
      {"micro_batch_size: 4\ndevices: 2", "8 = 4 x 1 x 2"},
      {"micro_batch_size: 4\ngradient_accumulation_steps: 2\ndevices: 2", "16 = 4 x 2 x 2"},
      {"per_device_train_batch_size: 2\ngradient_accumulation_steps: 16\nnum_gpus: 2", "64 = 2 x 16 x 2"},
      {"batch_size: 16\ngradient_accumulation_steps: {0: 4, 4: 2}\ndevices: 2", "128 = 16 x 4 x 2"},
  };
  for (const auto& [file, expected] : files) EXPECT_EQ(effective(parsed(file)), expected) << file;
}

TEST(JobDevicesBatch, IsTheWholeBesideAMicroBatch) {
  const std::vector<std::pair<const char*, const char*>> files = {
      {"batch_size: 256\nmicro_batch_size: 8\ndevices: 8", "256 = 8 x 4 x 8"},
      {"batch_size: 256\nmicro_batch_size: 8\ngradient_accumulation_steps: 4\ndevices: 8", "256 = 8 x 4 x 8"},
      {"batch_size: 256\nmicro_batch_size: auto\ndevices: 8", "256 = 32 x 8"},
      {"batch_size: 64\nmicro_batch_size: auto\ngradient_accumulation_steps: 4\ndevices: 4", "64 = 4 x 4 x 4"},
      {"train_batch_size: 64\ngradient_accumulation_steps: 4\ndevices: 4", "64 = 4 x 4 x 4"},
      {"train_batch_size: 64\ntrain_micro_batch_size_per_gpu: 2\nnum_gpus: 4", "64 = 2 x 8 x 4"},
  };
  for (const auto& [file, expected] : files) {
    EXPECT_EQ(effective(parsed(file)), expected) << file;
    for (const std::string& note : parsed(file).notes) EXPECT_THAT(note, Not(HasSubstr("effective batch"))) << file;
  }
}

TEST(JobDevicesBatch, ThatDoesNotDivideIsRefusedWithNearOnes) {
  EXPECT_EQ(
      refusal("batch_size: 10\nmicro_batch_size: 4\ndevices: 2"),
      "job.yaml:2: batch_size is 10 over all devices; it must be a multiple of 2 devices x micro_batch_size 4 = 8, "
      "because every device has the same micro batches (for example 8 or 16)");
  EXPECT_THAT(refusal("batch_size: 10\nmicro_batch_size: auto\ndevices: 4"),
              AllOf(HasSubstr("a multiple of 4, the number of devices"), HasSubstr("(for example 8 or 12)")));
  EXPECT_THAT(refusal("batch_size: 12\nmicro_batch_size: auto\ngradient_accumulation_steps: 2\ndevices: 4"),
              AllOf(HasSubstr("4 devices x gradient_accumulation_steps 2 = 8"), HasSubstr("(for example 8 or 16)")));
  EXPECT_THAT(refusal("batch_size: 4\nmicro_batch_size: 4\ndevices: 2"), HasSubstr("(for example 8)"));
  EXPECT_THAT(refusal("batch_size: 64\nmicro_batch_size: 8\ngradient_accumulation_steps: 4\ndevices: 4"),
              AllOf(HasSubstr("batch_size 64, micro_batch_size 8"), HasSubstr("8 x 4 x 4 devices = 128, not 64"),
                    HasSubstr("batch_size: 128 or gradient_accumulation_steps: 2 or micro_batch_size: 4")));
  EXPECT_THAT(refusal("batch_size: 1048576\ndevices: 2"), HasSubstr("the largest step in samples"));
  // One device may have a smaller last micro batch.
  EXPECT_EQ(last_micro_batch_of(parsed("batch_size: 10\nmicro_batch_size: 4")), 2);
  EXPECT_EQ(last_micro_batch_of(parsed("batch_size: 10\nmicro_batch_size: 4\ndevices: 1")), 2);
}

TEST(JobDevicesBatch, ANoteSaysThatItIsLargerAndWhatKeepsIt) {
  const auto note = [](const char* yaml) { return parsed(yaml).notes.back(); };
  EXPECT_EQ(note("batch_size: 64\ndevices: 8\ngradient_accumulation_steps: 4"),
            "job.yaml:3: 8 devices make the effective batch 2048 instead of 256; batch_size: 8 keeps it");
  EXPECT_THAT(note("devices: 4"), HasSubstr("32 instead of 8; batch_size: 2 keeps it"));
  EXPECT_THAT(note("micro_batch_size: 4\ndevices: 2"), HasSubstr("8 instead of 4; micro_batch_size: 2 keeps it"));
  EXPECT_THAT(note("batch_size: 3\ngradient_accumulation_steps: 4\ndevices: 2"),
              HasSubstr("24 instead of 12; gradient_accumulation_steps: 2 keeps it"));
  EXPECT_THAT(note("batch_size: 6\ngradient_accumulation_steps: 2\ndevices: 4"),
              HasSubstr("batch_size: 3 with gradient_accumulation_steps: 1 keeps it"));
  EXPECT_THAT(note("batch_size: 3\ndevices: 2"), HasSubstr("6 instead of 3; 3 cannot be divided by 2"));
  EXPECT_THAT(parsed("batch_size: 64\ndevices: 1").notes, IsEmpty());
}

// The proposal of a note keeps the batch, for any numbers.
TEST(JobDevicesBatch, WhatIsProposedKeepsTheBatch) {
  for (int batch = 1; batch <= 12; ++batch)
    for (int steps = 1; steps <= 4; ++steps)
      for (int devices = 2; devices <= 4; ++devices) {
        const std::string yaml = fmt::format("batch_size: {}\ngradient_accumulation_steps: {}\n", batch, steps);
        const std::string count = fmt::format("devices={}", devices);
        const std::string note = parsed(yaml, {count}).notes.back();
        const size_t end = note.find(" keeps it");
        if (end == std::string::npos) {
          EXPECT_NE(batch * steps % devices, 0) << note;
          continue;
        }
        std::vector<std::string> overrides = {count};
        std::string proposed = note.substr(note.find("; ") + 2, end - note.find("; ") - 2);
        for (const std::string with = " with "; !proposed.empty();) {
          const size_t cut = std::min(proposed.find(with), proposed.size());
          std::string one = proposed.substr(0, cut);
          one.replace(one.find(": "), 2, "=");
          overrides.push_back(one);
          proposed.erase(0, cut + with.size());
        }
        const Job job = parsed(yaml, overrides);
        EXPECT_EQ(*job.batch_size * job.ranks.count, batch * steps) << yaml << note;
      }
}

TEST(JobDevicesBatch, TheCommandLineGoesBeforeTheFile) {
  const auto with = [](const char* yaml, std::vector<std::string> overrides) {
    return effective(parsed(yaml, overrides));
  };
  EXPECT_EQ(with("batch_size: 32\nmicro_batch_size: 8", {"devices=2"}), "32 = 8 x 2 x 2");
  EXPECT_EQ(with("batch_size: 30\nmicro_batch_size: 8\ndevices: 2", {"batch_size=64"}), "64 = 8 x 4 x 2");
  EXPECT_EQ(with("batch_size: 30\nmicro_batch_size: 8\ndevices: 2", {"batch_size=2", "gradient_accumulation_steps=3"}),
            "12 = 2 x 3 x 2");
  EXPECT_EQ(with("batch_size: 30\ndevices: 4", {"micro_batch_size=2", "gradient_accumulation_steps=3"}),
            "24 = 2 x 3 x 4");
  EXPECT_EQ(with("batch_size: 32\nmicro_batch_size: 16\ndevices: 2", {"batch_size=8"}), "8 = 4 x 2");
  EXPECT_EQ(with("batch_size: 32\nmicro_batch_size: 16\ndevices: 2", {"micro_batch_size=4"}), "32 = 4 x 4 x 2");
  EXPECT_EQ(with("batch_size: 16\ngradient_accumulation_steps: 2\ndevices: 2", {"devices=1"}), "32 = 16 x 2 x 1");
}

TEST(JobDevicesBatch, AProductIsSaidOfEachDevice) {
  EXPECT_THAT(parsed("batch_size: 16\ngradient_accumulation_steps: 2\ndevices: 4").notes.front(),
              HasSubstr("16 x 2 = 32 samples an optimizer step on each of 4 devices; for 16 in all give "
                        "micro_batch_size: 2"));
  EXPECT_EQ(effective(parsed("batch_size: 16\ngradient_accumulation_steps: 2\ndevices: 4\nmicro_batch_size: 2")),
            "16 = 2 x 2 x 4");
}

TEST(JobDevicesBatch, TheLearningRatesBatchIsTheEffectiveOne) {
  const char* yaml = "batch_size: 8\ndevices: 4\noptimizer: {reference_batch_size: 32}";
  EXPECT_THAT(parsed(yaml).notes, ElementsAre(HasSubstr("effective batch 32")));
  EXPECT_THAT(parsed(yaml, {"devices=1"}).notes, ElementsAre(HasSubstr("steps of this job have 8")));
}

}  // namespace
}  // namespace plimsoll
