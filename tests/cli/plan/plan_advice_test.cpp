// Tests plan for a job that does not fit: the answer first, then changes that fit, within a time limit.
#include <signal.h>

#include "cli/cli_testing.h"

namespace plimsoll::cli_testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// A step of many schedules: with host memory its search goes on for long.
constexpr const char* kLarge =
    "batch_size: 64\n"
    "precision: bf16-mixed\n"
    "optimizer: {name: adamw}\n"
    "model: {hidden_size: 4096, num_layers: 16, num_heads: 32, vocab_size: 32000}\n"
    "data: {type: synthetic, sequence_length: 2048}\n";

class AdviceCommand : public CliTest {
 protected:
  AdviceCommand() { put_tiny_job(); }

  json plan() const { return json::parse(get("plan.json")); }
};

TEST_F(AdviceCommand, NoneIsTheVerdictAlone) {
  const Outcome outcome = run({"plan", "job.yaml", "memory_budget=64KiB", "--advice", "none", "--json", "plan.json"});
  EXPECT_EQ(outcome.exit_code, 3) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("does not fit"), HasSubstr("Largest buffers at the peak"),
                                 HasSubstr("The step"), Not(HasSubstr("would fit"))));
  EXPECT_TRUE(plan()["would_fit"].empty());
  EXPECT_EQ(plan()["would_fit_search"]["complete"], false);
  EXPECT_EQ(plan()["would_fit_search"]["planned"], 0);
}

TEST_F(AdviceCommand, TheWholeSearchSaysThatItIs) {
  const Outcome outcome = run({"plan", "job.yaml", "memory_budget=200KiB", "--advice", "full", "--json", "plan.json"});
  EXPECT_EQ(outcome.exit_code, 3) << outcome.err;
  const json search = plan()["would_fit_search"];
  EXPECT_EQ(search["complete"], true);
  EXPECT_EQ(search["limit_seconds"], nullptr);
  EXPECT_GE(search["planned"], 1);
  EXPECT_TRUE(search["not_planned"].empty());
  EXPECT_THAT(outcome.out, Not(HasSubstr("--advice full")));
  expect_refusal(run({"plan", "job.yaml", "--advice", "quick"}), 2, HasSubstr("none, fast, full or a number"));
  expect_refusal(run({"plan", "job.yaml", "--advice", "0"}), 2, HasSubstr("--advice"));
}

// A limit is binding within one plan, and unplanned changes are reported.
TEST_F(AdviceCommand, AtTheLimitItSaysWhatItHas) {
  put("large.yaml", kLarge);
  const Outcome outcome = run({"plan", "large.yaml", "--gpu", "rtx3070", "--advice", "0.001", "--json", "plan.json"});
  EXPECT_EQ(outcome.exit_code, 3) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("does not fit"), HasSubstr("0 changes tried"), HasSubstr("--advice full")));
  const json search = plan()["would_fit_search"];
  EXPECT_EQ(search["complete"], false);
  EXPECT_EQ(search["interrupted"], false);
  EXPECT_EQ(search["limit_seconds"], 0.001);
}

// The answer is printed while the search continues; Ctrl-C ends the search, and the exit code is still the answer's.
TEST_F(AdviceCommand, InterruptedItStillSaysThatItDoesNotFit) {
  put("large.yaml", kLarge);
  const pid_t child =
      start({"plan", "large.yaml", "--gpu", "rtx3070", "--advice", "full", "--what-if", "--json", "plan.json"});
  const auto answered = [&] { return get("out.txt").find("The step") != std::string::npos; };
  ASSERT_TRUE(wait_for(child, answered)) << get("err.txt");
  EXPECT_THAT(get("out.txt"), AllOf(HasSubstr("does not fit"), HasSubstr("Largest buffers at the peak")));
  // Signals have an effect once the search has begun: before, the default handler is active.
  const auto caught = [&] {
    const std::string status = get_file("/proc/" + std::to_string(child) + "/status");
    const size_t at = status.find("SigCgt:");
    return at != std::string::npos && (std::stoull(status.substr(at + 7), nullptr, 16) >> (SIGINT - 1) & 1) != 0;
  };
  ASSERT_TRUE(wait_for(child, caught));
  ASSERT_EQ(::kill(child, SIGINT), 0);
  const Outcome outcome = finish(child);
  EXPECT_EQ(outcome.signal, 0);
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_THAT(outcome.err,
              HasSubstr("stopping; the changes found so far follow; press Ctrl-C again to stop immediately"));
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("ended at the interrupt"), Not(HasSubstr("Smaller values of keys"))));
  EXPECT_EQ(plan()["would_fit_search"]["interrupted"], true);
  EXPECT_FALSE(plan().contains("what_if"));
}

// Float32 weights of a frozen model: a change of their type helps, and is listed before host memory.
TEST_F(AdviceCommand, TheTypeOfFrozenWeightsIsProposed) {
  const std::string job = PLIMSOLL_SOURCE_DIR "/examples/video-llm/job.yaml";
  // With fewer layers, for faster planning.
  const Outcome outcome =
      run({"plan", job, "--gpu", "rtx3070", "--memory", "4.3GiB", "data.type=synthetic", "precision=32-true",
           "model.llm.dtype=float32", "model.llm.num_layers=6", "--advice", "60", "--json", "plan.json"});
  ASSERT_EQ(outcome.exit_code, 3) << outcome.err;
  const json found = plan()["would_fit"];
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0]["change"], "precision=bf16-mixed model.llm.dtype=bfloat16");
  EXPECT_THAT(outcome.out, HasSubstr("\nprecision=bf16-mixed model.llm.dtype=bfloat16\n"));
}

}  // namespace
}  // namespace plimsoll::cli_testing
