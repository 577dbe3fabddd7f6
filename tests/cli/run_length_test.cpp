// Tests that plan and train print one length of a run.
#include "cli/cli_testing.h"

namespace plimsoll::cli_testing {
namespace {

using ::testing::HasSubstr;

class RunLengthCommands : public CliTest {
 protected:
  RunLengthCommands() { put_tiny_job(); }
};

TEST_F(RunLengthCommands, PlanAndTrainPrintOneLength) {
  const Outcome planned = run({"plan", "job.yaml", "max_steps=none", "max_epochs=2", "scheduler.warmup_steps=20",
                               "batch_size=32", "micro_batch_size=32", "--json", "plan.json"});
  ASSERT_EQ(planned.exit_code, 0) << planned.err;
  const json length = json::parse(get("plan.json"))["run_length"];
  ASSERT_TRUE(length["steps"].is_number()) << length;
  EXPECT_EQ(length["steps"], length["steps_of_epochs"]);
  const std::string line = length["text"];
  EXPECT_THAT(line, HasSubstr("steps an epoch x 2 = "));
  EXPECT_THAT(line, HasSubstr("warm-up 20, cosine until step " + std::to_string(length["steps"].get<int64_t>())));
  const Outcome trained = run({"train", "job.yaml", "max_steps=none", "max_epochs=2", "scheduler.warmup_steps=20",
                               "batch_size=32", "micro_batch_size=32", "--json", "train.json"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_THAT(trained.err, HasSubstr(line));
  const json report = json::parse(get("train.json"));
  EXPECT_EQ(report["run_length"], length);
  EXPECT_EQ(report["steps"], length["steps"]);
}

// The data are looked at before the plan is made, so neither command says that it fits.
TEST_F(RunLengthCommands, PlanAndTrainRefuseATextThatIsTooShort) {
  put("short.txt", "ten bytes.");
  put("array.txt", "\x93NUMPY\x01" + std::string(4000, '\0'));
  for (const std::string file : {"short.txt", "array.txt", "."})
    for (const char* command : {"plan", "train"}) {
      const Outcome outcome = run({command, "job.yaml", "data.files=[" + file + "]"});
      EXPECT_NE(outcome.exit_code, 0) << command << " " << file;
      EXPECT_THAT(outcome.out, ::testing::Not(HasSubstr("fits"))) << command << " " << file;
      EXPECT_THAT(outcome.err, HasSubstr("data.files")) << command << " " << file;
    }
}

// The data of another machine may be others.
TEST_F(RunLengthCommands, APlanForAnotherDeviceNotesATextThatIsTooShort) {
  put("short.txt", "ten bytes.");
  const Outcome outcome = run({"plan", "job.yaml", "data.files=[short.txt]", "--gpu", "rtx3060-12gb"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("fits"));
  EXPECT_THAT(outcome.err, HasSubstr("the plan does not need it, training does"));
}

TEST_F(RunLengthCommands, ALengthThatTheDataDecideIsSaidByTrain) {
  const Outcome planned =
      run({"plan", "job.yaml", "max_steps=none", "max_epochs=2", "data.files=[missing.txt]", "--json", "-"});
  ASSERT_EQ(planned.exit_code, 0) << planned.err;
  const json length = json::parse(planned.out)["run_length"];
  EXPECT_TRUE(length["steps"].is_null());
  EXPECT_THAT(length["text"].get<std::string>(), HasSubstr("train counts the steps when it has opened the data"));
}

}  // namespace
}  // namespace plimsoll::cli_testing
