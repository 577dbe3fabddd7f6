// Names that other programs have for keys.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "plimsoll/error.h"
#include "plimsoll/job.h"
#include "train/job/aliases.h"
#include "train/job/keys.h"

namespace plimsoll {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kJob = "data.files: a.txt\n";

Job parsed(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  return parse_job(kJob + yaml, "job.yaml", "", overrides);
}

std::string refusal(const std::string& yaml) {
  try {
    parsed(yaml);
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(JobAliases, StandForKeysThatThereAre) {
  std::set<std::string> names;
  for (const job::Alias& alias : job::aliases()) {
    EXPECT_TRUE(names.insert(alias.name).second) << alias.name;
    EXPECT_EQ(job::find_key(alias.name), nullptr) << alias.name << " is a key of ours";
    if (alias.key.empty())
      EXPECT_FALSE(alias.advice.empty()) << alias.name;
    else
      EXPECT_NE(job::find_key(alias.key), nullptr) << alias.key;
  }
}

TEST(JobAliases, OfLightningAreAnsweredWithOurs) {
  const Job job =
      parsed("micro_batch_size: 1\naccumulate_grad_batches: {0: 4, 4: 2, 8: 1}\ntrainer: {gradient_clip_val: 0.5}\n");
  EXPECT_EQ(job.gradient_accumulation_steps, (AccumulationSchedule{{0, 4}, {4, 2}, {8, 1}}));
  EXPECT_EQ(job.max_grad_norm, 0.5);
  EXPECT_THAT(job.notes,
              ElementsAre("job.yaml:3: accumulate_grad_batches (Lightning's name) is gradient_accumulation_steps here",
                          "job.yaml:4: trainer.gradient_clip_val (Lightning's name) is max_grad_norm: 0.5 here"));
}

TEST(JobAliases, OfDeepSpeedMayBeNested) {
  const Job job = parsed(
      "train_batch_size: 32\ntrain_micro_batch_size_per_gpu: 4\nbf16: {enabled: true}\nfp16:\n  enabled: false\n");
  EXPECT_EQ(job.batch_size, 32);
  EXPECT_EQ(job.micro_batch_size, 4);
  EXPECT_EQ(job.precision, Precision::bf16_mixed);
}

TEST(JobAliases, OfHuggingFaceAreConverted) {
  const Job job = parsed("", {"optim=adamw_bnb_8bit", "fp16=true", "learning_rate=1e-4", "lr_scheduler_type=cosine"});
  EXPECT_EQ(job.optimizer.name, "adamw");
  EXPECT_EQ(job.optimizer.state_dtype, StateDtype::bits8);
  EXPECT_EQ(job.precision, Precision::fp16_mixed);
  EXPECT_EQ(job.optimizer.learning_rate, 1e-4);
  EXPECT_EQ(parsed("optim: paged_adamw_32bit").optimizer.state_dtype, StateDtype::as_parameters);
  EXPECT_EQ(parsed("fp16: false").precision, Precision::fp32_true);
}

TEST(JobAliases, OfATrainingSection) {
  const Job job = parsed("training: {batch_size: 4, gradient_accumulation_steps: 8, use_mixed_precision: true}");
  EXPECT_EQ(job.micro_batch_size, 4);
  EXPECT_EQ(job.batch_size, 32);
  EXPECT_EQ(job.precision, Precision::bf16_mixed);
}

TEST(JobAliases, ThatHaveNoKeySayWhatToDo) {
  EXPECT_THAT(refusal("zero_optimization: {stage: 3}"), HasSubstr("host_memory_budget"));
  EXPECT_THAT(refusal("load_in_4bit: true"), HasSubstr("quantize.format: nf4"));
}

TEST(JobAliases, BesideTheKeyItselfAreTwice) {
  EXPECT_THAT(refusal("batch_size: 8\ntrain_batch_size: 8"), HasSubstr("twice"));
}

TEST(JobAliases, ValuesAreCheckedAsTheKeys) {
  EXPECT_THAT(refusal("accumulate_grad_batches: many"), HasSubstr("gradient_accumulation_steps"));
  EXPECT_THAT(refusal("bf16: maybe"), HasSubstr("bf16"));
  EXPECT_THAT(refusal("trainer: 7"), HasSubstr("unknown key"));
}

TEST(JobAliases, LeaveOurOwnNamesAlone) {
  EXPECT_THAT(parsed("batch_size: 8\nprecision: bf16-mixed").notes, IsEmpty());
}

}  // namespace
}  // namespace plimsoll
