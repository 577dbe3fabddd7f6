// Tests the two keys that define one training in every program: plan, train, and resuming from older checkpoints.
#include <sstream>

#include "cli/cli_testing.h"

namespace plimsoll::cli_testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class BatchMeaning : public CliTest {
 protected:
  BatchMeaning() {
    put_tiny_job();
    std::string text = get("job.yaml");
    for (const std::string line : {"batch_size: 4\n", "micro_batch_size: 2\n"})
      text.erase(text.find("\n" + line) + 1, line.size());
    bare_ = text + "checkpoint.directory: run\n";
  }
  /// The job with these keys of the batch.
  std::string put_job(const std::string& keys) const {
    put("batch.yaml", bare_ + keys);
    return "batch.yaml";
  }
  json train(const std::string& keys, const Arguments& more = {}) const {
    Arguments all = {"train", put_job(keys), "--json", "-"};
    all.insert(all.end(), more.begin(), more.end());
    const Outcome outcome = run(all);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.exit_code == 0 ? json::parse(outcome.out) : json();
  }
  // Without the early verdict that a plan on a busy machine has.
  static std::string line_of(const std::string& text, int number) {
    std::istringstream lines(text);
    std::string line;
    for (int i = 0; i < number;)
      if (!std::getline(lines, line))
        return "";
      else if (!line.ends_with("searching for the fastest plan"))
        ++i;
    return line;
  }
  std::string bare_;
};

TEST_F(BatchMeaning, ThePlanSaysTheEffectiveBatchFirst) {
  const Outcome fits = run({"plan", put_job("batch_size: 4\ngradient_accumulation_steps: 2\n"), "memory_budget=1GiB"});
  EXPECT_THAT(line_of(fits.out, 1), HasSubstr("fits: "));
  EXPECT_EQ(line_of(fits.out, 2), "effective batch 8: micro batch 4 x 2");
  EXPECT_THAT(fits.err, HasSubstr("4 x 2 = 8 samples an optimizer step; for 4 in all give micro_batch_size: 2"));
  const Outcome misfit = run({"plan", "batch.yaml", "memory_budget=64KiB"});
  EXPECT_EQ(misfit.exit_code, 3);
  EXPECT_LT(misfit.out.find("\neffective batch 8: micro batch 4 x 2\n"),
            misfit.out.find("Largest buffers at the peak"));
  const Outcome scheduled = run({"plan", put_job("batch_size: 4\ngradient_accumulation_steps: {0: 4, 4: 2, 8: 1}\n")});
  EXPECT_EQ(line_of(scheduled.out, 2),
            "effective batch 16: micro batch 4 x 4; from epoch 4 on 8 (x 2), from epoch 8 on 4 (x 1)");
  const Outcome ragged = run({"plan", put_job("batch_size: 10\nmicro_batch_size: 4\n")});
  EXPECT_EQ(line_of(ragged.out, 2), "effective batch 10: micro batch 4 x 2 + 2");
  EXPECT_THAT(ragged.err, Not(HasSubstr("samples an optimizer step")));
  const Outcome several = run({"plan", put_job("batch_size: 4\ngradient_accumulation_steps: 2\n"), "--gpu",
                               "rtx3090,rtx4090", "--json", "plan.json"});
  EXPECT_EQ(line_of(several.out, 1), "effective batch 8");
  const json compared = json::parse(get("plan.json"));
  for (const json& plan : compared["gpus"]) EXPECT_EQ(plan["effective_batch_size"], 8);
}

TEST_F(BatchMeaning, TheTwoKeysTrainAsTheThreeThatSayTheSame) {
  const Arguments apart = {"checkpoint.directory=\"\""};
  const json two = train("batch_size: 4\ngradient_accumulation_steps: 2\n", apart);
  EXPECT_EQ(two["effective_batch_size"], 8);
  EXPECT_EQ(two["losses"],
            train("batch_size: 8\nmicro_batch_size: 4\ngradient_accumulation_steps: 2\n", apart)["losses"]);
  EXPECT_EQ(two["losses"], train("training: {batch_size: 4, gradient_accumulation_steps: 2}\n", apart)["losses"]);
  EXPECT_NE(two["losses"],
            train("batch_size: 4\nmicro_batch_size: 2\ngradient_accumulation_steps: 2\n", apart)["losses"]);
}

TEST_F(BatchMeaning, ARunOfTheOldMeaningIsNotContinuedWithAnotherBatch) {
  // The meaning of {4, 2}: 2 x 2.
  const json before = train("batch_size: 4\nmicro_batch_size: 2\n", {"max_steps=3", "scheduler.name=constant"});
  ASSERT_EQ(before["losses"].size(), 3u);
  const Outcome refused = run({"train", put_job("batch_size: 4\ngradient_accumulation_steps: 2\n")});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_EQ(refused.out, "");
  EXPECT_THAT(refused.err, AllOf(HasSubstr("step-00000003.safetensors has 12 samples in 3 steps"),
                                 HasSubstr("to continue as before, add micro_batch_size: 2;"),
                                 HasSubstr("to continue with 8 samples, replace batch_size by micro_batch_size: 4")));
  // Bit for bit as before.
  const json whole =
      train("batch_size: 4\nmicro_batch_size: 2\n", {"checkpoint.directory=\"\"", "scheduler.name=constant"});
  std::vector<double> losses = before["losses"];
  const json rest = train("batch_size: 4\ngradient_accumulation_steps: 2\nmicro_batch_size: 2\n",
                          {"max_steps=6", "scheduler.name=constant", "checkpoint.keep=0"});
  EXPECT_EQ(rest["resumed_step"], 3);
  for (const json& loss : rest["losses"]) losses.push_back(loss);
  EXPECT_EQ(json(losses), whole["losses"]);
  // Or with eight, which is reported.
  const json larger = train("micro_batch_size: 4\ngradient_accumulation_steps: 2\n",
                            {"checkpoint.resume=run/step-00000003.safetensors", "checkpoint.directory=other"});
  EXPECT_EQ(larger["resumed_step"], 3);
  EXPECT_EQ(larger["effective_batch_size"], 8);
}

}  // namespace
}  // namespace plimsoll::cli_testing
