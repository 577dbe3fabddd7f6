// Tests the flags that other programs have.
#include "cli/job_flags.h"

#include <CLI/CLI.hpp>
#include <sstream>

#include "cli/cli_testing.h"

namespace plimsoll::cli_testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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
  int64_t planned(Arguments flags) const {
    Arguments all = {"plan", "job.yaml", "--json", "-"};
    all.insert(all.end(), flags.begin(), flags.end());
    return json::parse(run(all).out)["peak_bytes"];
  }
  /// Returns the overrides that the flags become, without a job.
  static std::vector<std::string> overrides(Arguments flags) {
    CLI::App app;
    cli::JobFlags job_flags;
    job_flags.add_to(app);
    std::ranges::reverse(flags);  // CLI11 parses from the end
    app.parse(flags);
    return job_flags.overrides();
  }
};

TEST_F(JobFlags, AreOverridesOfTheJob) {
  EXPECT_EQ(choices({"--batch-size", "2", "--gradient-accumulation-steps", "3"})["micro_batch_size"], 2);
  EXPECT_EQ(choices({"--batch_size=6", "--gradient_accumulation_steps=3"})["micro_batch_size"], 6);
  EXPECT_EQ(choices({"--use-amp"})["precision"], "bf16-mixed");
  EXPECT_EQ(choices({"precision=bf16-mixed", "--no_use_amp"})["precision"], "bf16-mixed");  // explicit overrides take
                                                                                            // precedence
  EXPECT_EQ(choices({"--no-use-amp"})["precision"], "32-true");
  EXPECT_EQ(choices({"--no-use_amp"})["precision"], "32-true");
  EXPECT_EQ(choices({"--recipe", "saving"})["precision"], "bf16-true");
  EXPECT_EQ(choices({"--recipe", "saving", "--use-amp"})["precision"], "bf16-mixed");
}

// The flags have the keys' rules (tests/job/job_batch_meaning_test.cpp): the file says 4, 2 at a time.
TEST_F(JobFlags, ReplaceWhatTheFileSaysOfTheBatch) {
  const json three = choices({"--batch-size", "3"});
  EXPECT_EQ(three["micro_batch_size"], 2);
  EXPECT_EQ(three["last_micro_batch"], 1);
  EXPECT_EQ(choices({"--batch-size", "1"})["micro_batch_size"], 1);
  EXPECT_EQ(choices({"--batch-size", "5", "--gradient-accumulation-steps", "7"})["micro_batch_size"], 5);
  EXPECT_EQ(run({"plan", "job.yaml", "--gradient-accumulation-steps", "3"}).exit_code, 2);  // 4, or 2 x 3
  EXPECT_THAT(overrides({"--batch-size", "5", "--gradient-accumulation-steps", "7"}),
              ElementsAre("batch_size='5'", "gradient_accumulation_steps='7'"));
  EXPECT_THAT(overrides({"--batch-size", "5"}), ElementsAre("batch_size='5'"));
  EXPECT_THAT(overrides({"--gradient-accumulation-steps", "2"}), ElementsAre("gradient_accumulation_steps='2'"));
}

TEST_F(JobFlags, AndKeysAndTheFileSayTheSameBatch) {
  std::string expected = get("job.yaml");
  const std::string micro = "micro_batch_size: 2";
  expected.replace(expected.find(micro), micro.size(), "gradient_accumulation_steps: 2");
  put("theirs.yaml", expected);
  std::set<std::string> lines;
  for (const Arguments& message : {Arguments{"plan", "theirs.yaml"},
                                   {"plan", "job.yaml", "batch_size=4", "gradient_accumulation_steps=2"},
                                   {"plan", "job.yaml", "--batch-size", "4", "--gradient_accumulation_steps", "2"}}) {
    const Outcome outcome = run(message);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_THAT(outcome.err,
                HasSubstr("is 4 x 2 = 8 samples an optimizer step; for 4 in all give micro_batch_size: 2"));
    std::istringstream out(outcome.out);
    // On a busy machine an early verdict comes before the verdict.
    for (std::string line; std::getline(out, line);)
      if (line.starts_with("effective batch ") && line.find(": micro batch") != std::string::npos) lines.insert(line);
  }
  EXPECT_THAT(lines, ElementsAre("effective batch 8: micro batch 4 x 2"));
}

TEST_F(JobFlags, AreTheseKeys) {
  EXPECT_THAT(overrides({}), IsEmpty());
  EXPECT_THAT(overrides({"--max-frames", "8"}), ElementsAre("data.max_frames='8'"));
  EXPECT_THAT(overrides({"--image-size", "96"}), ElementsAre("model.image_size='96'"));
  EXPECT_THAT(overrides({"--num-workers", "3"}), ElementsAre("data.num_workers='3'"));
  EXPECT_THAT(overrides({"--learning-rate", "3e-4"}), ElementsAre("optimizer.learning_rate='3e-4'"));
  EXPECT_THAT(overrides({"--num-epochs", "2"}), ElementsAre("max_epochs='2'"));
  EXPECT_THAT(overrides({"--data-root", "it's, [here]"}), ElementsAre("data.root='it''s, [here]'"));
  EXPECT_THAT(overrides({"--gradient-checkpointing"}), ElementsAre("gradient_checkpointing=true"));
  EXPECT_THAT(overrides({"--no-gradient-checkpointing"}), ElementsAre("gradient_checkpointing=false"));
  EXPECT_THAT(overrides({"--use_amp"}), ElementsAre("precision=bf16-mixed"));
  EXPECT_THAT(overrides({"--no_use_amp"}), ElementsAre("precision=32-true"));
  EXPECT_THAT(overrides({"--max_seq_length", "512"}), ElementsAre("data.sequence_length='512'"));
  EXPECT_THAT(overrides({"--device", "cuda"}), ElementsAre("device='cuda'"));
  EXPECT_THAT(overrides({"--bf16"}), ElementsAre("bf16=true"));
  EXPECT_THAT(overrides({"--fp16"}), ElementsAre("fp16=true"));
  EXPECT_THAT(overrides({"--pin_memory", "--persistent_workers"}),
              ElementsAre("pin_memory=true", "persistent_workers=true"));
  EXPECT_THAT(overrides({"--compile-model"}), ElementsAre("compile=true"));
  EXPECT_THAT(overrides({"--no-compile-model"}), ElementsAre("compile=false"));
}

TEST_F(JobFlags, FalseMeansNotThat) {
  EXPECT_THAT(overrides({"--use-amp=false"}), ElementsAre("precision=32-true"));
  EXPECT_THAT(overrides({"--no-use-amp=false"}), ElementsAre("precision=bf16-mixed"));
  EXPECT_THAT(overrides({"--use-amp=false", "--no-use-amp"}), ElementsAre("precision=32-true"));
  EXPECT_THAT(overrides({"--gradient-checkpointing=false"}), ElementsAre("gradient_checkpointing=false"));
  EXPECT_THAT(overrides({"--compile_model=false"}), ElementsAre("compile=false"));
}

// Overrides in addition to a recipe come after it, and take precedence.
TEST_F(JobFlags, RecipesAreTheseKeys) {
  EXPECT_THAT(
      overrides({"--recipe", "saving"}),
      ElementsAre("precision=bf16-true", "optimizer.state_dtype=8bit", "optimizer.weight_update=stochastic",
                  "update_in_backward=auto", "gradient_accumulation_dtype=8bit", "gradient_checkpointing=auto"));
  EXPECT_THAT(overrides({"--recipe", "balanced"}), ElementsAre("precision=bf16-mixed", "gradient_checkpointing=auto"));
  EXPECT_THAT(overrides({"--recipe", "speed", "--no-use-amp"}),
              ElementsAre("precision=bf16-mixed", "gradient_checkpointing=false", "precision=32-true"));
}

// Keys that the job does not have would be rejected: each exists.
TEST_F(JobFlags, ReachTheJob) {
  const auto message = [&](const Arguments& flags) {
    Arguments all = {"plan", "job.yaml"};
    all.insert(all.end(), flags.begin(), flags.end());
    const Outcome outcome = run(all);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.out;
    return outcome.err;
  };
  EXPECT_THAT(message({"--num-workers", "many"}), HasSubstr("data.num_workers"));
  EXPECT_THAT(message({"--learning-rate", "many"}), HasSubstr("optimizer.learning_rate"));
  EXPECT_THAT(message({"--num-epochs", "many"}), HasSubstr("max_epochs"));
  EXPECT_THAT(message({"--gradient-accumulation-steps", "many"}), HasSubstr("gradient_accumulation_steps"));
  EXPECT_THAT(message({"--max-frames", "8"}), HasSubstr("data.max_frames"));  // not of this kind of data
  EXPECT_THAT(message({"--image-size", "96"}), HasSubstr("model.image_size"));
  std::filesystem::create_directory(folder() / "elsewhere");
  EXPECT_EQ(run({"plan", "job.yaml", "--data-root", "."}).exit_code, 0);
  EXPECT_NE(run({"train", "job.yaml", "--data-root", "elsewhere"}).exit_code, 0);  // the text is in another folder
  const json saving = choices({"--recipe", "saving"});
  EXPECT_EQ(saving["precision"], "bf16-true");
  EXPECT_GT(planned({"--no-gradient-checkpointing"}), planned({"--gradient-checkpointing"}));
  EXPECT_LT(planned({"--recipe", "saving"}), planned({"--recipe", "speed"}));
}

TEST_F(JobFlags, WithoutAValueAreRefused) {
  for (const char* flag : {"--batch-size", "--gradient-accumulation-steps", "--max-frames", "--image-size",
                           "--num-workers", "--learning-rate", "--num-epochs", "--data-root", "--recipe"}) {
    const Outcome outcome = run({"plan", "job.yaml", flag, ""});
    EXPECT_EQ(outcome.exit_code, 2) << flag;
    EXPECT_THAT(outcome.err, HasSubstr(flag));
  }
}

TEST_F(JobFlags, ThatContradictAreRefused) {
  const Outcome outcome = run({"plan", "job.yaml", "--use-amp", "--no-use-amp"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--no-use-amp"));
  EXPECT_EQ(run({"plan", "job.yaml", "--use-amp=false", "--no-use-amp=false"}).exit_code, 2);
  EXPECT_EQ(run({"plan", "job.yaml", "--bf16", "--fp16"}).exit_code, 2);
  EXPECT_EQ(run({"plan", "job.yaml", "--bf16", "--no_use_amp"}).exit_code, 2);
  EXPECT_EQ(run({"plan", "job.yaml", "--batch-size", "many"}).exit_code, 2);
  EXPECT_EQ(run({"plan", "job.yaml", "--recipe", "fast"}).exit_code, 2);
}

TEST_F(JobFlags, StandInTheHelpWithWhatTheyDoToMemory) {
  const Outcome outcome = run({"train", "--help"});
  for (const char* flag : {"--batch-size", "--gradient-accumulation-steps", "--gradient-checkpointing", "--use-amp",
                           "--no-use-amp", "--max-frames", "--image-size", "--num-workers", "--learning-rate",
                           "--num-epochs", "--data-root", "--compile-model", "--recipe", "--max-seq-length", "--device",
                           "--bf16", "--fp16", "--pin-memory", "--persistent-workers"})
    EXPECT_THAT(outcome.out, HasSubstr(flag));
  EXPECT_THAT(outcome.out, HasSubstr("half the memory for activations"));
}

TEST_F(JobFlags, OfSeveralDevicesAreAnsweredWithTheirKeys) {
  const auto answer = [&](const Arguments& flags) {
    Arguments all = {"trace", "job.yaml"};
    all.insert(all.end(), flags.begin(), flags.end());
    const Outcome outcome = run(all);
    EXPECT_EQ(outcome.exit_code, 2) << flags.front();
    return outcome.err;
  };
  EXPECT_THAT(answer({"--num_gpus", "8"}), HasSubstr("stands without dashes: devices=8"));
  EXPECT_THAT(answer({"--nproc_per_node=8"}), HasSubstr("stands without dashes: devices=8"));
  EXPECT_THAT(answer({"--strategy", "fsdp"}), HasSubstr("stands without dashes: strategy=zero3"));
  EXPECT_THAT(answer({"--fsdp", "shard_grad_op"}), HasSubstr("stands without dashes: strategy=zero2"));
  EXPECT_THAT(answer({"--nnodes", "2"}), HasSubstr("'--nnodes' is not taken: one process a device"));
  EXPECT_THAT(answer({"--local_rank", "0"}), HasSubstr("leave it out"));
  EXPECT_THAT(run({"torchrun", "--nproc_per_node=8"}).err, HasSubstr("plimsoll train JOB.yaml --devices N"));
}

TEST_F(JobFlags, ALaunchersVariablesAreUsed) {
  const auto with = [&](const std::vector<std::pair<const char*, const char*>>& variables, const char* more) {
    return run_with(
        [&] {
          for (const auto& [name, value] : variables) ::setenv(name, value, 1);
        },
        {"train", "job.yaml", "max_steps=1", more});
  };
  for (const auto& [size, rank] :
       std::vector<std::pair<const char*, const char*>>{{"WORLD_SIZE", "RANK"},
                                                        {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
                                                        {"PMI_SIZE", "PMI_RANK"},
                                                        {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"}}) {
    const Outcome outcome = with({{size, "8"}}, "seed=1");
    EXPECT_EQ(outcome.exit_code, 2) << size;
    EXPECT_THAT(outcome.err, HasSubstr(std::string("variable ") + rank + " is not set"));
  }
  const std::vector<std::pair<const char*, const char*>> four = {
      {"WORLD_SIZE", "4"}, {"RANK", "0"}, {"MASTER_ADDR", "127.0.0.1"}};
  const Outcome other = with(four, "devices=2");
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.err, HasSubstr("started 4 processes of this command (WORLD_SIZE=4), but the job has devices: 2"));
  EXPECT_THAT(with({{"WORLD_SIZE", "4"}, {"RANK", "4"}}, "seed=1").err, HasSubstr("RANK is '4'; allowed: "));
  EXPECT_EQ(with({{"WORLD_SIZE", "1"}}, "seed=1").exit_code, 0);
}

TEST_F(JobFlags, DevicesOfTrainAreTheKey) {
  for (const char* flag :
       {"--devices", "--ranks", "--num_gpus", "--num-gpus", "--nproc_per_node", "--nproc-per-node"}) {
    const Outcome outcome = run({"train", "job.yaml", flag, "0.5"});
    EXPECT_EQ(outcome.exit_code, 2) << flag;
    EXPECT_THAT(outcome.err, HasSubstr("devices is 0.5; allowed: integer from 1 to 65536")) << flag;
  }
  EXPECT_EQ(run({"train", "job.yaml", "--devices=1", "max_steps=1"}).exit_code, 0);
  EXPECT_THAT(run({"train", "job.yaml", "--devices=2", "batch_size=10", "micro_batch_size=4"}).err,
              HasSubstr("must be a multiple of 2 devices x micro_batch_size 4 = 8"));
  EXPECT_THAT(run({"compare", "job.yaml", "devices=2"}).err, HasSubstr("add devices=1"));
}

TEST_F(JobFlags, OtherProgramsNamesAreAnsweredWithOurs) {
  const Outcome outcome = run({"plan", "job.yaml", "gradient_clip_val=0.5"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("is max_grad_norm"));
}

}  // namespace
}  // namespace plimsoll::cli_testing
