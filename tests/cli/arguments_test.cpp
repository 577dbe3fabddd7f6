// Tests the common behavior of every command: help, version, wrong arguments, wrong job files.
#include <regex>

#include "cli/cli_testing.h"

namespace plimsoll::cli_testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class CommandLine : public CliTest {};

TEST_F(CommandLine, HelpNamesEveryCommandAndTheExitCodes) {
  const Outcome outcome = run({"--help"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err, "");
  for (const char* command : {"plan", "train", "trace", "place", "export"})
    EXPECT_THAT(outcome.out, HasSubstr(command));
  EXPECT_THAT(outcome.out, HasSubstr("3 does not fit"));
}

TEST_F(CommandLine, HelpOfACommandHasExamples) {
  for (const std::string command : {"plan", "train", "trace", "place"}) {
    const Outcome outcome = run({command, "--help"});
    EXPECT_EQ(outcome.exit_code, 0) << command;
    EXPECT_EQ(outcome.err, "") << command;
    EXPECT_THAT(outcome.out, AllOf(HasSubstr("Examples:\n  plimsoll " + command), HasSubstr("--json FILE|-")));
  }
}

TEST_F(CommandLine, HelpSaysWhichKeysMoveTheMemory) {
  for (const std::string command : {"plan", "train"}) {
    const std::string help = run({command, "--help"}).out;
    for (const char* key : {"memory_budget", "micro_batch_size", "gradient_checkpointing", "precision",
                            "optimizer.name", "data.sequence_length", "docs/job-file.md"}) {
      EXPECT_THAT(help, HasSubstr(key));
    }
  }
}

TEST_F(CommandLine, VersionIsTheProjects) {
  const std::string project = get_file(PLIMSOLL_SOURCE_DIR "/CMakeLists.txt");
  std::smatch version;
  ASSERT_TRUE(std::regex_search(project, version, std::regex(R"(project\(plimsoll VERSION ([0-9.]+))")));
  const Outcome outcome = run({"--version"});
  EXPECT_EQ(outcome.exit_code, 0);
  // Scripts read the first line.
  EXPECT_THAT(outcome.out, ::testing::StartsWith("plimsoll " + version[1].str() + "\n"));
  EXPECT_EQ(outcome.err, "");
}

TEST_F(CommandLine, VersionDescribesTheBuild) {
  const std::string text = run({"--version"}).out;
  // Values begin in one column.
  EXPECT_THAT(text, ::testing::ContainsRegex("\ncommit        (unknown|[0-9a-f]+(, modified)?)\n"));
  EXPECT_THAT(text, ::testing::ContainsRegex("\nlibtorch      2\\.[0-9]+\\.[0-9]+\n"));
  EXPECT_THAT(text, ::testing::ContainsRegex("\nCUDA          (none|[0-9.]+, with(out)? NCCL)\n"));
  EXPECT_THAT(text, ::testing::ContainsRegex("\nFFmpeg        [0-9]+ \\(libavformat [0-9]+, libavcodec [0-9]+, "));
  EXPECT_THAT(text, ::testing::ContainsRegex("\ncompiler      [A-Za-z]+ [0-9.]+, [A-Za-z]+\n"));
  EXPECT_THAT(text,
              ::testing::ContainsRegex("\ninstructions  (default|avx2|avx512) \\(own kernels\\), .* \\(libtorch\\)\n"));
}

TEST_F(CommandLine, VersionIsShownInSpiteOfAWrongVariable) {
  const Outcome outcome = run_with([] { ::setenv("PLIMSOLL_CPU_CAPABILITY", "sse9", 1); }, {"--version"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out,
              HasSubstr("\ninstructions  not known, because PLIMSOLL_CPU_CAPABILITY is wrong (own kernels)"));
}

// With LD_DEBUG=files the linker of glibc names each library whose destructors an exit runs.
TEST_F(CommandLine, AVariableAsksForANormalExit) {
  const auto outcome_of = [&](const char* requested) {
    return run_with(
        [requested] {
          ::setenv("LD_DEBUG", "files", 1);
          ::setenv("PLIMSOLL_NORMAL_EXIT", requested, 1);
        },
        {"--version"});
  };
  const Outcome normal = outcome_of("1");
  EXPECT_EQ(normal.exit_code, 0);
  if (normal.err.find("calling init: ") == std::string::npos) GTEST_SKIP() << "no linker of glibc";
  EXPECT_THAT(normal.err, ::testing::ContainsRegex("calling fini: [^\n]*/libtorch_cpu"));
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  const Outcome direct = outcome_of("0");
  EXPECT_EQ(direct.exit_code, 0);
  EXPECT_EQ(direct.out, normal.out);
  EXPECT_THAT(direct.err, ::testing::Not(::testing::ContainsRegex("calling fini: [^\n]*/libtorch_cpu")));
#endif
}

TEST_F(CommandLine, CompletionIsOfAKnownShell) {
  expect_refusal(run({"completion", "zssh"}), 2, HasSubstr("'zssh' is none; allowed: bash, zsh, fish, man"));
  expect_refusal(run({"completion"}), 2, HasSubstr("TARGET"));
}

TEST_F(CommandLine, ACommandIsNeeded) {
  expect_refusal(run({}), 2, HasSubstr("a command is needed"));
}

TEST_F(CommandLine, AnUnknownCommandNamesTheNearest) {
  expect_refusal(run({"tarin", "job.yaml"}), 2,
                 AllOf(HasSubstr("unknown command 'tarin'"), HasSubstr("did you mean 'train'?"), HasSubstr("--help")));
  expect_refusal(run({"dance"}), 2, AllOf(HasSubstr("unknown command 'dance'"), Not(HasSubstr("did you mean"))));
}

TEST_F(CommandLine, AnUnknownOptionNamesTheNearest) {
  put_tiny_job();
  expect_refusal(run({"plan", "job.yaml", "--jsno", "-"}), 2,
                 AllOf(HasSubstr("unknown option '--jsno'"), HasSubstr("did you mean '--json'?"),
                       HasSubstr("plimsoll plan --help")));
  expect_refusal(run({"--verison"}), 2, HasSubstr("did you mean '--version'?"));
}

TEST_F(CommandLine, TheJobFileIsNeeded) {
  for (const std::string command : {"plan", "train", "trace"})
    expect_refusal(run({command}), 2, HasSubstr("JOB.yaml is required"));
}

TEST_F(CommandLine, AnOptionCannotBeGivenTwice) {
  put_tiny_job();
  for (const std::string command : {"plan", "train", "trace"}) {
    const auto added = new_files([&] {
      expect_refusal(run({command, "job.yaml", "--json", "a.json", "--json", "b.json"}), 2, HasSubstr("--json"));
    });
    EXPECT_TRUE(added.empty());
  }
}

TEST_F(CommandLine, AnOptionNeedsItsValue) {
  put_tiny_job();
  expect_refusal(run({"plan", "job.yaml", "--json"}), 2, HasSubstr("--json"));
}

TEST_F(CommandLine, AnOverrideIsNoOutput) {
  put_tiny_job();
  EXPECT_TRUE(
      new_files([&] {
        for (const std::string option : {"--json", "--html", "--dump-passes"})
          expect_refusal(run({"plan", "job.yaml", option, "memory_budget=1.5GiB"}), 2,
                         AllOf(HasSubstr("'memory_budget=1.5GiB' is an override"), HasSubstr(option)));
        for (const std::string option : {"--json", "--profile"})
          expect_refusal(run({"train", "job.yaml", option, "model.num_layers=1"}), 2, HasSubstr(option));
        expect_refusal(run({"plan", "job.yaml", "--json", "model.weights=model.safetensors"}), 2,
                       HasSubstr("not a file name"));
        expect_refusal(run({"plan", "job.yaml", "--html", "log.metrics_file=run.json"}), 2, HasSubstr("--html"));
        expect_refusal(run({"plan", "job.yaml", "--dump-passes", "seed=1.json"}), 2, HasSubstr("not a folder name"));
      }).empty());
  for (const std::string name : {"./memory_budget=auto", "seed=1.json", "tone=red"})
    EXPECT_EQ(run({"plan", "job.yaml", "--json", name}).exit_code, 0) << name;
  expect_refusal(run({"plan", "job.yaml", "--json", "memory_budget=auto"}), 2, HasSubstr("--json"));  // it exists
}

// A script's variable for the value is empty.
TEST_F(CommandLine, AnEmptyValueIsNoValue) {
  put_tiny_job();
  for (const std::string option : {"--gpu", "--memory", "--html", "--json", "--recipe", "--dump-passes"})
    expect_refusal(run({"plan", "job.yaml", option, ""}), 2, HasSubstr(option));
  expect_refusal(run({"train", "job.yaml", "--profile", ""}), 2, HasSubstr("--profile"));
  expect_refusal(run({"plan", "job.yaml", "--memory", "12 GBs"}), 2, HasSubstr("--memory"));
  EXPECT_TRUE(new_files([&] {
                expect_refusal(run({"plan", "job.yaml", "--html", "-"}), 2, HasSubstr("--json"));
              }).empty());
}

TEST_F(CommandLine, WhatIsReadIsNotOverwritten) {
  put_tiny_job();
  const std::string job = get("job.yaml"), corpus = get("corpus.txt");
  for (const std::string command : {"plan", "train", "trace"}) {
    expect_refusal(run({command, "job.yaml", "--json", "job.yaml"}), 2, HasSubstr("the job file"));
    expect_refusal(run({command, "job.yaml", "--json", "./corpus.txt"}), 2, HasSubstr("data.files"));
  }
  expect_refusal(run({"plan", "job.yaml", "--html", "job.yaml"}), 2, HasSubstr("--html"));
  expect_refusal(run({"train", "job.yaml", "--profile", "corpus.txt"}), 2, HasSubstr("--profile"));
  expect_refusal(run({"plan", "job.yaml", "--html", "out", "--json", "out"}), 2, HasSubstr("--html and --json"));
  expect_refusal(run({"train", "job.yaml", "log.metrics_file=m.jsonl", "--json", "m.jsonl"}), 2,
                 HasSubstr("log.metrics_file"));
  EXPECT_EQ(get("job.yaml"), job);
  EXPECT_EQ(get("corpus.txt"), corpus);
  EXPECT_EQ(run({"plan", "job.yaml", "--json", "/dev/null"}).exit_code, 0);
}

TEST_F(CommandLine, WeightsInAFolderAreNotOverwritten) {
  std::filesystem::create_directory(folder() / "base");
  put("base/config.json",
      R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 257, "hidden_size": 32,
          "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2, "intermediate_size": 64,
          "max_position_embeddings": 64, "rms_norm_eps": 1e-5})");
  put("base/model.safetensors", "weights");
  put("corpus.txt", std::string(100, 'a'));
  put("job.yaml", "model: {weights: base}\ndata: {files: [corpus.txt], tokenizer: bytes, sequence_length: 16}\n");
  expect_refusal(run({"plan", "job.yaml", "--json", "base/model.safetensors"}), 2, HasSubstr("in model.weights"));
  EXPECT_EQ(get("base/model.safetensors"), "weights");
  EXPECT_EQ(run({"plan", "job.yaml", "--json", "base/plan.json"}).exit_code, 0);
  EXPECT_EQ(run({"plan", "job.yaml", "model.weights=gone.safetensors", "model.config=base"}).exit_code, 0);
}

// A plan of the defaults' architecture would be of another model.
TEST_F(CommandLine, WeightsThatAreNotThereAreNotPlanned) {
  put_tiny_job();
  expect_refusal(run({"plan", "job.yaml", "model.weights=absent"}), 2,
                 AllOf(HasSubstr("model.weights"), HasSubstr("absent"), HasSubstr("model.config")));
  EXPECT_EQ(run({"plan", "job.yaml", "model.weights=absent.safetensors"}).exit_code, 0);  // keys say the architecture
}

TEST_F(CommandLine, WhatAKeyNamesIsToldWithTheKey) {
  put_tiny_job();
  put("afile", "neither a folder nor a checkpoint");
  expect_refusal(run({"plan", "job.yaml", "model.config=absent.json"}), 2,
                 AllOf(HasSubstr("model.config is "), HasSubstr("absent.json")));
  expect_refusal(run({"train", "job.yaml", "checkpoint.resume=absent"}), 2,
                 AllOf(HasSubstr("checkpoint.resume is "), HasSubstr("absent, which does not exist")));
  for (const std::string wrong : {"checkpoint.resume=afile", "checkpoint.directory=afile", "log.metrics_file=no/m"}) {
    const Outcome outcome = run({"train", "job.yaml", wrong});
    EXPECT_EQ(outcome.exit_code, wrong == "checkpoint.resume=afile" ? 1 : 2) << wrong;
    EXPECT_THAT(outcome.err, HasSubstr("plimsoll: " + wrong.substr(0, wrong.find('=')) + ": ")) << wrong;
  }
}

TEST_F(CommandLine, WordsThatAreTooMuchAreNoCommands) {
  put_tiny_job();
  expect_refusal(run({"monitor", "job.yaml"}), 2, HasSubstr("monitor does not take 'job.yaml'"));
  expect_refusal(run({"plan", "job.yaml", "--frontier", "s.yaml"}), 2,
                 AllOf(HasSubstr("--frontier"), HasSubstr("2 to 1000"), HasSubstr("'s.yaml'")));
}

TEST_F(CommandLine, AWrongJobFileIsSaidByFileLineAndKey) {
  put("job.yaml", "max_stepz: 10\ndata: {files: [corpus.txt]}\n");
  for (const std::string command : {"plan", "train", "trace"}) {
    expect_refusal(run({command, "job.yaml"}), 2,
                   AllOf(HasSubstr("job.yaml"), HasSubstr("max_stepz"), HasSubstr("max_steps")));
  }
}

TEST_F(CommandLine, AMissingJobFileIsSaid) {
  expect_refusal(run({"plan", "absent.yaml"}), 2, HasSubstr("absent.yaml"));
}

TEST_F(CommandLine, AnOverrideIsCheckedAsTheFileIs) {
  put_tiny_job();
  expect_refusal(run({"plan", "job.yaml", "optimizer.name=adamm"}), 2,
                 AllOf(HasSubstr("optimizer.name"), HasSubstr("adamw")));
  expect_refusal(run({"plan", "job.yaml", "nonsense"}), 2, HasSubstr("nonsense"));
}

TEST_F(CommandLine, AFolderThatIsMissingIsSaidBeforeTheWork) {
  put_tiny_job();
  for (const std::string command : {"plan", "train", "trace"}) {
    const auto added = new_files([&] {
      expect_refusal(run({command, "job.yaml", "--json", "absent/out.json"}), 2, HasSubstr("absent"));
    });
    EXPECT_TRUE(added.empty()) << command;
  }
}

TEST_F(CommandLine, AFullDiskIsNotSuccess) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  put_tiny_job();
  const Outcome outcome = run({"plan", "job.yaml", "--json", "-"}, "/dev/full");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("standard output"));
}

}  // namespace
}  // namespace plimsoll::cli_testing
