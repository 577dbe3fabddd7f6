// Tests the meaning of batch_size by the keys next to it, in the file and on the command line, and the notes about it
// and about the learning rate.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <random>

#include "job/batch_sizes.h"
#include "job/job_testing.h"
#include "plimsoll/error.h"
#include "plimsoll/job.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Returns "32: 16 x 2", or "32" if the rest is open.
std::string sizes(const Job& job) {
  if (!job.micro_batch_size) return fmt::format("{}", *job.batch_size);
  return fmt::format("{}: {} x {}", *job.batch_size, *job.micro_batch_size, job.gradient_accumulation_steps->at(0));
}

TEST(JobBatchMeaning, AProductIsSaidWithTheWayToTheOther) {
  EXPECT_THAT(parsed("batch_size: 16\ngradient_accumulation_steps: 2").notes,
              ElementsAre("job.yaml:2: batch_size: 16 with gradient_accumulation_steps: 2 is 16 x 2 = 32 samples an "
                          "optimizer step; for 16 in all give micro_batch_size: 8"));
  EXPECT_THAT(parsed("batch_size: 10\ngradient_accumulation_steps: 4").notes,
              ElementsAre(HasSubstr("10 x 4 = 40 samples an optimizer step; for 10 in all give micro_batch_size: 3")));
  EXPECT_THAT(parsed("batch_size: 16\ngradient_accumulation_steps: {0: 4, 4: 2, 8: 1}").notes,
              ElementsAre("job.yaml:2: batch_size: 16 with gradient_accumulation_steps: {0: 4, 4: 2, 8: 1} is 16 x 4 = "
                          "64 samples an optimizer step in epoch 0; for 16 in all give micro_batch_size: 4"));
  EXPECT_THAT(parsed("gradient_accumulation_steps: 2").notes,
              ElementsAre("job.yaml:2: gradient_accumulation_steps: 2 without a batch_size is 8 x 2 = 16 samples an "
                          "optimizer step; for 8 in all give micro_batch_size: 4"));
  // 2 samples cannot be cut into 16: this cannot be meant.
  EXPECT_THAT(parsed("batch_size: 2\ngradient_accumulation_steps: 16").notes,
              ElementsAre("job.yaml:2: batch_size: 2 with gradient_accumulation_steps: 16 is 2 x 16 = 32 samples an "
                          "optimizer step"));
}

TEST(JobBatchMeaning, WhatIsTheSameEitherWayIsNotSaid) {
  for (const char* same : {"batch_size: 16", "batch_size: 16\ngradient_accumulation_steps: 1",
                           "batch_size: 16\nmicro_batch_size: 8\ngradient_accumulation_steps: 2",
                           "batch_size: 16\nmicro_batch_size: auto\ngradient_accumulation_steps: 2",
                           "micro_batch_size: 8\ngradient_accumulation_steps: 2", "micro_batch_size: 4"}) {
    const Job job = parsed(same);
    EXPECT_THAT(job.notes, IsEmpty()) << same;
    EXPECT_FALSE(job::batch_size_is_micro_batch(job)) << same;
  }
  EXPECT_TRUE(job::batch_size_is_micro_batch(parsed("batch_size: 16\ngradient_accumulation_steps: 2")));
}

// With each program's own names; of DeepSpeed's three names one is the whole batch.
TEST(JobBatchMeaning, OtherProgramsFilesMeanWhatTheyMeanThere) {
  const std::vector<std::pair<const char*, const char*>> files = {
      {"batch_size: 16\naccumulate_grad_batches: 2", "32: 16 x 2"},
      {"training: {batch_size: 4, gradient_accumulation_steps: 8}", "32: 4 x 8"},
      {"per_device_train_batch_size: 2\ngradient_accumulation_steps: 16", "32: 2 x 16"},
      {"batch_size: 2\ntrainer: {accumulate_grad_batches: 16}", "32: 2 x 16"},
      {"train_batch_size: 32\ngradient_accumulation_steps: 4", "32: 8 x 4"},
      {"train_micro_batch_size_per_gpu: 8\ngradient_accumulation_steps: 4", "32: 8 x 4"},
      {"train_batch_size: 32\ntrain_micro_batch_size_per_gpu: 8\ngradient_accumulation_steps: 4", "32: 8 x 4"},
      {"training: {batch_size: 4}", "4"},
  };
  for (const auto& [file, expected] : files) EXPECT_EQ(sizes(parsed(file)), expected) << file;
}

TEST(JobBatchMeaning, OneOnTheCommandLineStandsBesideTheFilesOther) {
  EXPECT_EQ(sizes(parsed("batch_size: 16", {"gradient_accumulation_steps=2"})), "32: 16 x 2");
  EXPECT_EQ(sizes(parsed("gradient_accumulation_steps: 2", {"batch_size=16"})), "32: 16 x 2");
  EXPECT_EQ(sizes(parsed("batch_size: 16\ngradient_accumulation_steps: 2", {"batch_size=8"})), "16: 8 x 2");
  EXPECT_EQ(sizes(parsed("batch_size: 16\ngradient_accumulation_steps: 2", {"gradient_accumulation_steps=8"})),
            "128: 16 x 8");
  EXPECT_EQ(sizes(parsed("batch_size: 16\ngradient_accumulation_steps: 2", {"gradient_accumulation_steps=auto"})),
            "16");
  EXPECT_THAT(parsed("batch_size: 16", {"gradient_accumulation_steps=2"}).notes, ElementsAre(HasSubstr("16 x 2 = 32")));
}

TEST(JobBatchMeaning, AMicroBatchOnTheCommandLineMakesTheFilesBatchTheWhole) {
  const Job job = parsed("batch_size: 16\ngradient_accumulation_steps: 2", {"micro_batch_size=8"});
  EXPECT_EQ(sizes(job), "16: 8 x 2");
  EXPECT_THAT(job.notes,
              ElementsAre("command line: micro_batch_size=8: beside it the file's batch_size: 16 is the whole "
                          "step; without it, with gradient_accumulation_steps: 2, 16 x 2 = 32 samples"));
  EXPECT_THAT(refusal("batch_size: 16\ngradient_accumulation_steps: 2", {"micro_batch_size=4"}),
              AllOf(HasSubstr("batch_size 16, micro_batch_size 4 and gradient_accumulation_steps 2 do not agree"),
                    HasSubstr("4 x 2 = 8 (at least 5, if the last micro batch is smaller), not 16"),
                    HasSubstr("or set batch_size: 8 or gradient_accumulation_steps: 4 or")));
}

TEST(JobBatchMeaning, OfTwoOnTheCommandLineTheThirdFollows) {
  const char* three = "batch_size: 32\nmicro_batch_size: 16\ngradient_accumulation_steps: 2";
  EXPECT_EQ(sizes(parsed(three, {"batch_size=2", "gradient_accumulation_steps=16"})), "32: 2 x 16");
  EXPECT_EQ(sizes(parsed(three, {"micro_batch_size=4", "gradient_accumulation_steps=4"})), "16: 4 x 4");
  EXPECT_EQ(sizes(parsed(three, {"batch_size=64", "micro_batch_size=4"})), "64: 4 x 16");
  EXPECT_EQ(sizes(parsed(three, {"micro_batch_size=auto", "gradient_accumulation_steps=auto"})), "32");
  // In the form of advice, to be typed back.
  EXPECT_EQ(sizes(parsed("batch_size: 16\ngradient_accumulation_steps: 2",
                         {"batch_size=32", "micro_batch_size=auto", "gradient_accumulation_steps=auto"})),
            "32");
  EXPECT_EQ(sizes(parsed("batch_size: 8\nmicro_batch_size: auto", {"batch_size=2", "gradient_accumulation_steps=4"})),
            "8: 2 x 4");
  // A schedule is no number that could follow.
  const char* scheduled = "micro_batch_size: 2\ngradient_accumulation_steps: {0: 4, 4: 2}";
  EXPECT_EQ(parsed(scheduled, {"batch_size=16", "micro_batch_size=4"}).gradient_accumulation_steps->size(), 2u);
  EXPECT_THAT(refusal(scheduled, {"batch_size=8", "micro_batch_size=4"}), HasSubstr("do not agree"));
}

TEST(JobBatchMeaning, AFileThatNamesItsMicroBatchIsChangedByOneNumber) {
  const char* three = "batch_size: 32\nmicro_batch_size: 16\ngradient_accumulation_steps: 2";
  const Job larger = parsed(three, {"batch_size=64"});
  EXPECT_EQ(sizes(larger), "64: 16 x 4");
  EXPECT_THAT(larger.notes, ElementsAre("command line: batch_size=64: the file's gradient_accumulation_steps: 2 is 4 "
                                        "beside it: a step of 64 samples, 16 at a time"));
  EXPECT_EQ(sizes(parsed(three, {"micro_batch_size=4"})), "32: 4 x 8");
  const Job smaller = parsed(three, {"batch_size=8"});
  EXPECT_EQ(sizes(smaller), "8");
  EXPECT_THAT(smaller.notes, ElementsAre("command line: batch_size=8: the file's micro_batch_size: 16 is more than the "
                                         "whole step; the planner chooses it"));
  EXPECT_EQ(sizes(parsed("batch_size: 4\nmicro_batch_size: 2", {"batch_size=3"})), "3: 2 x 2");
  EXPECT_EQ(sizes(parsed("batch_size: 64\nmicro_batch_size: auto", {"micro_batch_size=4"})), "64: 4 x 16");
  EXPECT_EQ(sizes(parsed("batch_size: 64\nmicro_batch_size: auto", {"gradient_accumulation_steps=4"})), "64: 16 x 4");
  // 16 x 4 or 32 in 4: two trainings.
  EXPECT_THAT(refusal(three, {"gradient_accumulation_steps=4"}),
              AllOf(HasSubstr("or set batch_size: 64 or"), HasSubstr("micro_batch_size: 8")));
}

/// The meanings on the page, in its own words: one number or nothing for each of the three.
struct Given {
  std::optional<int64_t> batch, micro, steps;
  bool micro_auto = false;

  std::string text() const {
    std::string all;
    if (batch) all += fmt::format("batch_size: {}\n", *batch);
    if (micro) all += fmt::format("micro_batch_size: {}\n", *micro);
    if (micro_auto) all += "micro_batch_size: auto\n";
    if (steps) all += fmt::format("gradient_accumulation_steps: {}\n", *steps);
    return all;
  }
  std::vector<std::string> overrides() const {
    std::vector<std::string> all;
    if (batch) all.push_back(fmt::format("batch_size={}", *batch));
    if (micro) all.push_back(fmt::format("micro_batch_size={}", *micro));
    if (micro_auto) all.emplace_back("micro_batch_size=auto");
    if (steps) all.push_back(fmt::format("gradient_accumulation_steps={}", *steps));
    return all;
  }
  /// Returns samples a step; nothing if the job is rejected.
  std::optional<int64_t> step() const {
    if (micro && steps) {
      const int64_t product = *micro * *steps;
      // The last of several may be smaller, an only one is whole.
      const int64_t least = *steps == 1 ? product : product - *micro + 1;
      return batch && (*batch > product || *batch < least) ? std::nullopt : std::optional(batch.value_or(product));
    }
    if (micro) return batch && *batch < *micro ? std::nullopt : std::optional(batch.value_or(*micro));
    if (!steps) return batch.value_or(8);
    if (!micro_auto) return batch.value_or(8) * *steps;
    for (int64_t each = 1; each <= batch.value_or(8); ++each)
      if ((batch.value_or(8) + each - 1) / each == *steps) return batch.value_or(8);
    return std::nullopt;
  }
};

TEST(JobBatchMeaning, AnyThreeComeToWhatTheyMean) {
  std::mt19937 random(7);
  const auto below = [&](int64_t end) { return static_cast<int64_t>(random() % static_cast<uint64_t>(end)); };
  const auto draw = [&] {
    Given given;
    if (below(2) == 0) given.batch = 1 + below(24);
    if (below(2) == 0) given.micro = 1 + below(12);
    if (!given.micro && below(3) == 0) given.micro_auto = true;
    if (below(2) == 0) given.steps = 1 + below(6);
    return given;
  };
  int accepted = 0, refused = 0;
  for (int round = 0; round < 2000; ++round) {
    const Given given = draw();
    SCOPED_TRACE(given.text());
    std::optional<Job> from_file, from_line;
    try {
      from_file = parsed(given.text());
    } catch (const UserError&) {
    }
    try {
      from_line = parsed("seed: 1\n", given.overrides());
    } catch (const UserError&) {
    }
    // Keys of a file and of the command line are read alike.
    ASSERT_EQ(from_file.has_value(), from_line.has_value());
    const std::optional<int64_t> expected = given.step();
    ASSERT_EQ(from_file.has_value(), expected.has_value());
    ++(from_file ? accepted : refused);
    if (!from_file) continue;
    ASSERT_EQ(sizes(*from_file), sizes(*from_line));
    ASSERT_EQ(*from_file->batch_size, *expected);
    ASSERT_EQ(from_file->micro_batch_size.has_value(), given.micro.has_value() || given.steps.has_value());
    if (given.micro) {
      ASSERT_EQ(*from_file->micro_batch_size, *given.micro);
    }
    // A file with the meaning that the program reports has this meaning without a note.
    if (!from_file->micro_batch_size) continue;
    Given spelled_out{*from_file->batch_size, *from_file->micro_batch_size,
                      from_file->gradient_accumulation_steps->at(0)};
    ASSERT_EQ(sizes(parsed(spelled_out.text())), sizes(*from_file));
    ASSERT_THAT(parsed(spelled_out.text()).notes, IsEmpty());
  }
  EXPECT_GT(accepted, 500);
  EXPECT_GT(refused, 100);
}

// An override that was taken is no other training than the file that says the same.
TEST(JobBatchMeaning, OverridesNeverLeaveAnythingInBetween) {
  std::mt19937 random(11);
  const auto below = [&](int64_t end) { return static_cast<int64_t>(random() % static_cast<uint64_t>(end)); };
  const auto draw = [&](int64_t chance) {
    Given given;
    if (below(chance) == 0) given.batch = 1 + below(24);
    if (below(chance) == 0) given.micro = 1 + below(12);
    if (below(chance) == 0) given.steps = 1 + below(6);
    return given;
  };
  int both = 0;
  for (int round = 0; round < 3000; ++round) {
    const Given file = draw(2), line = draw(3);
    SCOPED_TRACE(file.text() + "--- " + line.text());
    if (!file.step()) continue;
    Job job;
    try {
      job = parsed(file.text(), line.overrides());
    } catch (const UserError&) {
      continue;
    }
    // Every number of the command line is kept: batch_size as the step or as the micro batch, which is reported.
    if (line.micro) {
      ASSERT_EQ(job.micro_batch_size, line.micro);
    }
    if (line.steps) {
      ASSERT_EQ(job.gradient_accumulation_steps->at(0), *line.steps);
    }
    if (line.batch) {
      const bool product = *job.batch_size != *line.batch;
      if (product) {
        ASSERT_EQ(job.micro_batch_size, line.batch);
      }
      ASSERT_EQ(job::batch_size_is_micro_batch(job), product);
      both += product;
    }
    if (job.micro_batch_size) {
      const int64_t last = last_micro_batch_of(job);
      ASSERT_EQ(*job.batch_size, *job.micro_batch_size * job.gradient_accumulation_steps->at(0) -
                                     (last > 0 ? *job.micro_batch_size - last : 0));
    }
  }
  EXPECT_GT(both, 100);
}

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> notes(const std::vector<std::string>& overrides) {
  return parse_job("{data.files: a.txt, batch_size: 32, optimizer: {learning_rate: 3.0e-4, reference_batch_size: 32}}",
                   "job.yaml", "", overrides)
      .notes;
}

TEST(LearningRateNote, SaysWhatTheRulesMakeOfIt) {
  EXPECT_THAT(notes({}), IsEmpty());
  EXPECT_THAT(
      notes({"batch_size=128"}),
      ElementsAre(AllOf(HasSubstr("learning_rate 0.0003 is for steps of 32"),
                        HasSubstr("the steps of this job have 128"), HasSubstr("square-root rule"),
                        HasSubstr("optimizer.learning_rate=0.0006"), HasSubstr("optimizer.reference_batch_size=128"))));
  EXPECT_THAT(notes({"batch_size=8", "optimizer.name=sgd"}),
              ElementsAre(AllOf(HasSubstr("linear rule"), HasSubstr("optimizer.learning_rate=7.5e-05"))));
  // The note disappears once its advice is followed, and the division of a step does not matter.
  EXPECT_THAT(notes({"batch_size=128", "optimizer.reference_batch_size=128"}), IsEmpty());
  EXPECT_THAT(notes({"micro_batch_size=4"}), IsEmpty());
  EXPECT_THAT(notes({"batch_size=128", "optimizer.reference_batch_size=none"}), IsEmpty());
  EXPECT_EQ(parse_job("data.files: a.txt", "job.yaml", "", {"batch_size=128"}).notes.size(), 0u);
}

TEST(LearningRateNote, ChangesNothing) {
  const Job job =
      parse_job("{data.files: a.txt, optimizer.reference_batch_size: 4}", "job.yaml", "", {"batch_size=64"});
  EXPECT_EQ(job.optimizer.learning_rate, OptimizerConfig{}.learning_rate);
  EXPECT_THROW(parse_job("{data.files: a.txt, optimizer.reference_batch_size: 0}", "job.yaml", ""), UserError);
}

}  // namespace
}  // namespace plimsoll
