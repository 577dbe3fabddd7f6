// Tests the rule of exit codes for files (docs/runs.md): 2 if a path that the user named cannot be opened or written
// for what it is, 1 if the file is damaged or the disk fails.
#include <sys/stat.h>

#include "cli/cli_testing.h"

namespace plimsoll::cli_testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ExitCodes : public CliTest {
 protected:
  ExitCodes() {
    put_tiny_job();
    put("buffers.csv", "id,lower,upper,size\na,0,2,16\n");
    put("damaged.safetensors", "no tensors");
    std::filesystem::create_directory(folder() / "folder");
    std::filesystem::create_directory_symlink("loop", folder() / "loop");
    EXPECT_EQ(::mkfifo((folder() / "pipe").c_str(), 0600), 0);
  }
};

TEST_F(ExitCodes, AJsonFileThatCannotBeWrittenIsAWrongArgument) {
  const std::vector<Arguments> commands = {{"plan", "job.yaml"},
                                           {"train", "job.yaml"},
                                           {"trace", "job.yaml"},
                                           {"compare", "job.yaml"},
                                           {"export", "job.yaml", "--checkpoint", "damaged.safetensors", "--out", "m"},
                                           {"place", "buffers.csv", "--capacity", "24"},
                                           {"gpus"},
                                           {"gpus", "--links"},
                                           {"doctor"},
                                           {"monitor", "--once"}};
  const std::vector<std::pair<std::string, std::string>> paths = {
      {"folder", "it is a folder; name a file"},
      {"absent/out.json", "the folder absent does not exist"},
      {"corpus.txt/out.json", "corpus.txt is a file; name a folder"},
      {"loop/out.json", "Too many levels of symbolic links"},
      {std::string(300, 'n'), "File name too long"}};
  for (const Arguments& command : commands)
    for (const auto& [path, reason] : paths) {
      Arguments arguments = command;
      arguments.insert(arguments.end(), {"--json", path});
      SCOPED_TRACE(command[0] + " --json " + path);
      expect_refusal(run(arguments), 2, AllOf(HasSubstr("--json: cannot write " + path), HasSubstr(reason)));
    }
}

TEST_F(ExitCodes, AnOtherOutputThatCannotBeWrittenIsAWrongArgument) {
  for (const Arguments& arguments :
       std::vector<Arguments>{{"plan", "job.yaml", "--html", "folder"},
                              {"plan", "job.yaml", "--dump-passes", "corpus.txt"},
                              {"train", "job.yaml", "--profile", "folder"},
                              {"train", "job.yaml", "log.metrics_file=folder"},
                              {"train", "job.yaml", "log.metrics_file=loop/m.jsonl"},
                              {"train", "job.yaml", "checkpoint.directory=corpus.txt"},
                              {"export", "job.yaml", "--checkpoint", "damaged.safetensors", "--out", "folder"},
                              {"place", "buffers.csv", "--capacity", "24", "--output", "folder"}}) {
    SCOPED_TRACE(arguments.back());
    expect_refusal(run(arguments), 2, HasSubstr(arguments.back().substr(arguments.back().find('=') + 1)));
  }
}

TEST_F(ExitCodes, AnInputThatCannotBeOpenedIsAWrongArgument) {
  for (const Arguments& arguments :
       std::vector<Arguments>{{"plan", "folder"},
                              {"plan", "loop/job.yaml"},
                              {"train", "job.yaml", "data.files=folder"},
                              {"train", "job.yaml", "data.files=pipe"},
                              {"train", "job.yaml", "model.weights=absent.safetensors"},
                              {"train", "job.yaml", "model.weights=pipe"},
                              {"train", "job.yaml", "model.weights=absent.safetensors", "devices=2"},
                              {"train", "job.yaml", "model.weights=folder"},
                              {"train", "job.yaml", "data.tokenizer=sentencepiece", "data.tokenizer_file=folder"},
                              {"plan", "job.yaml", "data.tokenizer=sentencepiece", "data.tokenizer_file=folder"},
                              {"train", "job.yaml", "data.tokenizer=sentencepiece", "data.tokenizer_file=pipe"},
                              {"export", "job.yaml", "--out", "m.safetensors", "--checkpoint", "absent.safetensors"},
                              {"export", "job.yaml", "--out", "m.safetensors", "--checkpoint", "pipe"},
                              {"export", "job.yaml", "--out", "m.safetensors", "checkpoint.directory=folder"},
                              {"place", "absent.csv", "--capacity", "24"},
                              {"place", "folder", "--capacity", "24"}}) {
    SCOPED_TRACE(arguments.front() + " " + arguments.back());
    EXPECT_EQ(run(arguments).exit_code, 2) << run(arguments).err;
  }
}

TEST_F(ExitCodes, ADamagedFileAndAFullDiskAreFailures) {
  expect_refusal(run({"export", "job.yaml", "--out", "m.safetensors", "--checkpoint", "damaged.safetensors"}), 1,
                 HasSubstr("damaged.safetensors"));
  EXPECT_EQ(run({"train", "job.yaml", "model.weights=damaged.safetensors"}).exit_code, 1);
  if (!std::filesystem::exists("/dev/full")) return;
  for (const Arguments& arguments :
       std::vector<Arguments>{{"plan", "job.yaml", "--json", "/dev/full"}, {"gpus", "--json", "/dev/full"}})
    EXPECT_THAT(run(arguments).exit_code, 1) << arguments[0];
}

// The folder of the report is gone when the rows are trained.
TEST_F(ExitCodes, AnOutputThatIsLostAfterTheTrainingIsAFailure) {
  std::filesystem::create_directory(folder() / "later");
  const pid_t child =
      start({"compare", "job.yaml", "--steps", "300", "--measure", "0", "--json", "later/compare.json"});
  ASSERT_TRUE(wait_for(child, [&] { return get("err.txt").find("row 2 of ") != std::string::npos; }));
  std::filesystem::remove(folder() / "later");
  const Outcome outcome = finish(child);
  EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("cannot write later/compare.json"));
  EXPECT_THAT(outcome.out, HasSubstr("planner's choice"));
}

}  // namespace
}  // namespace plimsoll::cli_testing
