// Tests errors that are known before the work: they are reported in one line before planning, and nothing is left
// behind.
#include "cli/cli_testing.h"

namespace plimsoll::cli_testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class BeforeTheWork : public CliTest {
 protected:
  BeforeTheWork() { put_tiny_job(); }

  void expect_line(const Arguments& arguments, int exit_code, const ::testing::Matcher<std::string>& message) const {
    EXPECT_THAT(new_files([&] { expect_refusal(run(arguments), exit_code, message); }), IsEmpty());
  }
};

// The errors of the work itself would come later: the tokenizer's file is missing, the table is none, the job does not
// fit.
TEST_F(BeforeTheWork, AnOutputThatCannotBeWrittenIsRefused) {
  const auto missing = [](const char* option) {
    return AllOf(HasSubstr(option), HasSubstr("the folder no/such does not exist"));
  };
  expect_line(
      {"plan", "job.yaml", "--html", "no/such/plan.html", "data.tokenizer=gpt2", "data.tokenizer_file=absent.tiktoken"},
      2, missing("--html: cannot write no/such/plan.html"));
  put("buffers.csv", "no,table\n");
  expect_line({"place", "buffers.csv", "--capacity", "10", "--output", "no/such/placed.csv"}, 2, missing("--output: "));
  expect_line({"place", "buffers.csv", "--capacity", "10", "--json", "no/such/placed.json"}, 2, missing("--json: "));
  for (const std::string command : {"plan", "train", "trace", "compare"})
    expect_line({command, "job.yaml", "--json", "no/such/out.json", "data.files=absent.txt", "data.type=text",
                 "memory_budget=64KiB", "data.tokenizer=gpt2", "data.tokenizer_file=corpus.txt"},
                2, HasSubstr("--json: cannot write no/such/out.json"));
  expect_line({"train", "job.yaml", "memory_budget=64KiB", "log.metrics_file=no/such/m.jsonl"}, 2,
              missing("log.metrics_file: "));
  expect_line({"train", "job.yaml", "memory_budget=64KiB", "log.metrics_file=."}, 2,
              AllOf(HasSubstr("log.metrics_file: "), HasSubstr("it is a folder; name a file")));
  expect_line({"train", "job.yaml", "memory_budget=64KiB", "checkpoint.directory=corpus.txt/run"}, 2,
              AllOf(HasSubstr("checkpoint.directory: "), HasSubstr(" is a file; name a folder")));
  expect_line({"train", "job.yaml", "memory_budget=64KiB", "data.cache_dir=corpus.txt/cache"}, 2,
              HasSubstr("data.cache_dir: "));
  expect_line({"train", "job.yaml", "memory_budget=64KiB", "disk_budget=1GiB", "disk_path=no/such"}, 2,
              missing("disk_path: "));
  expect_line({"train", "job.yaml", "memory_budget=64KiB", "--profile", "no/such/p.json"}, 2,
              HasSubstr("the folder no/such does not exist"));
}

TEST_F(BeforeTheWork, AnExportsPlaceIsTriedBeforeTheCheckpointIsRead) {
  const std::string checkpoint = put("step-00000001.safetensors", "no checkpoint").string();
  expect_line({"export", "job.yaml", "--checkpoint", checkpoint, "--out", "no/such/model.safetensors"}, 2,
              AllOf(HasSubstr("--out: "), HasSubstr("no/such")));
  expect_line(
      {"export", "job.yaml", "--checkpoint", checkpoint, "--format", "huggingface", "--out", "corpus.txt/model"}, 2,
      AllOf(HasSubstr("--out: "), HasSubstr(" is a file; name a folder")));
  expect_line({"export", "job.yaml", "--checkpoint", checkpoint, "--format", "huggingface", "--out", "new/model"}, 1,
              HasSubstr("step-00000001.safetensors"));
}

TEST_F(BeforeTheWork, AKeyWithoutAValueIsSaidSo) {
  for (const std::string key : {"checkpoint.directory", "log.metrics_file", "disk_path"})
    expect_line({"train", "job.yaml", key + "="}, 2,
                AllOf(HasSubstr(key + " has no value (perhaps a shell variable is not set); allowed: a path"),
                      HasSubstr("'" + key + "=\"\"'")));
  EXPECT_EQ(run({"plan", "job.yaml", "checkpoint.directory=\"\""}).exit_code, 0);
  expect_line({"plan", "job.yaml", "max_steps="}, 2, HasSubstr("max_steps has no value"));
}

class UnpreparedData : public BeforeTheWork {
 protected:
  /// Makes the repository's folders: examples and scripts, and no .data yet.
  UnpreparedData() {
    for (const char* each : {"repository/scripts", "repository/examples/small-lm", "repository/examples/brain"})
      std::filesystem::create_directories(folder() / each);
    put("repository/scripts/prepare-text.sh", "");
    put("repository/examples/brain/prepare", "");
    put_job("small-lm", "{files: ../../.data/gcide.txt, tokenizer: bytes, sequence_length: 16}");
    put_job("brain",
            "{type: series, length: 10, train_ratio_of_vectors: 0.5, files: ../../.data/brain/a.ts, "
            "validation_files: ../../.data/brain/b.ts}",
            "{type: gesture_ssm}");
  }

  void put_job(const std::string& example, const std::string& data,
               const std::string& model = "{hidden_size: 32, num_layers: 2, num_heads: 2}") const {
    put("repository/examples/" + example + "/job.yaml",
        "threads: 1\nmax_steps: 2\nbatch_size: 2\nmemory_budget: 64KiB\nmodel: " + model + "\ndata: " + data + "\n");
  }
};

TEST_F(UnpreparedData, TheTextIsMadeByMake) {
  const std::string job = "repository/examples/small-lm/job.yaml";
  for (const std::string command : {"train", "compare"})
    expect_line({command, job}, 2,
                AllOf(HasSubstr("data.files: repository/.data/gcide.txt does not exist; "),
                      HasSubstr("run 'make text' in repository, which fetches it")));
  EXPECT_THAT(run({"plan", job}).err, HasSubstr("run 'make text' in repository"));
  put_job("small-lm", "{files: ../../.data/gcide.txt, tokenizer: gpt2, tokenizer_file: ../../.data/gpt2.tiktoken}");
  const Outcome plan = run({"plan", job});
  EXPECT_EQ(plan.exit_code, 2);
  EXPECT_THAT(plan.err,
              HasSubstr("data.tokenizer_file: repository/.data/gpt2.tiktoken does not exist; run 'make text'"));
}

TEST_F(UnpreparedData, AnExamplesDataByItsProgram) {
  expect_line({"train", "repository/examples/brain/job.yaml"}, 2,
              AllOf(HasSubstr("data.files: repository/.data/brain/a.ts does not exist (2 files are missing); "),
                    HasSubstr("run repository/examples/brain/prepare, which fetches it")));
}

TEST_F(UnpreparedData, OtherwiseItSaysWherePathsStart) {
  std::filesystem::create_directories(folder() / "jobs");
  std::filesystem::rename(folder() / "job.yaml", folder() / "jobs/job.yaml");
  expect_line({"train", "jobs/job.yaml", "memory_budget=64KiB"}, 2,
              AllOf(HasSubstr("data.files: jobs/corpus.txt does not exist; "),
                    HasSubstr("relative paths start in jobs, where the job file is")));
  expect_line({"train", "jobs/job.yaml", "data.root=elsewhere"}, 2,
              HasSubstr("relative paths start in jobs/elsewhere, which is data.root"));
}

}  // namespace
}  // namespace plimsoll::cli_testing
