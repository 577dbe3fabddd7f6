// The flags that people know from other programs.
#include "cli/cli_testing.h"

namespace plimsoll::cli_testing {
namespace {

using ::testing::HasSubstr;

class JobFlags : public CliTest {
 protected:
  JobFlags() { put_tiny_job(); }
  json choices(Arguments flags) const {
    Arguments all = {"plan", "job.yaml", "--json", "-"};
    all.insert(all.end(), flags.begin(), flags.end());
    const Outcome outcome = run(all);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.exit_code == 0 ? json::parse(outcome.out)["choices"] : json();
  }
};

TEST_F(JobFlags, AreOverridesOfTheJob) {
  EXPECT_EQ(choices({"--batch-size", "2", "--gradient-accumulation-steps", "3"})["micro_batch_size"], 2);
  EXPECT_EQ(choices({"--batch_size=6", "--gradient_accumulation_steps=3"})["micro_batch_size"], 6);
  EXPECT_EQ(choices({"--use-amp"})["precision"], "bf16-mixed");
  EXPECT_EQ(choices({"precision=bf16-mixed", "--no_use_amp"})["precision"], "bf16-mixed");  // what is written out holds
  EXPECT_EQ(choices({"--no-use-amp"})["precision"], "32-true");
  EXPECT_EQ(choices({"--no-use_amp"})["precision"], "32-true");
  EXPECT_EQ(choices({"--recipe", "saving"})["precision"], "bf16-true");
  EXPECT_EQ(choices({"--recipe", "saving", "--use-amp"})["precision"], "bf16-mixed");
}

TEST_F(JobFlags, ReplaceWhatTheFileSaysOfTheBatch) {
  EXPECT_EQ(choices({"--batch-size", "3", "batch_size=3"})["micro_batch_size"].get<int>() > 0, true);
  const json both = choices({"--batch-size", "5", "--gradient-accumulation-steps", "7"});
  EXPECT_EQ(both["micro_batch_size"], 5);
}

TEST_F(JobFlags, ThatContradictAreRefused) {
  const Outcome outcome = run({"plan", "job.yaml", "--use-amp", "--no-use-amp"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--no-use-amp"));
  EXPECT_EQ(run({"plan", "job.yaml", "--batch-size", "many"}).exit_code, 2);
  EXPECT_EQ(run({"plan", "job.yaml", "--recipe", "fast"}).exit_code, 2);
}

TEST_F(JobFlags, StandInTheHelpWithWhatTheyDoToMemory) {
  const Outcome outcome = run({"train", "--help"});
  for (const char* flag : {"--batch-size", "--gradient-accumulation-steps", "--gradient-checkpointing", "--use-amp",
                           "--no-use-amp", "--max-frames", "--image-size", "--num-workers", "--learning-rate",
                           "--num-epochs", "--data-root", "--compile-model", "--recipe"})
    EXPECT_THAT(outcome.out, HasSubstr(flag));
  EXPECT_THAT(outcome.out, HasSubstr("half the memory for activations"));
}

TEST_F(JobFlags, OtherProgramsNamesAreAnsweredWithOurs) {
  const Outcome outcome = run({"plan", "job.yaml", "gradient_clip_val=0.5"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("is max_grad_norm"));
}

}  // namespace
}  // namespace plimsoll::cli_testing
