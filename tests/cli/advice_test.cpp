// Tests that the advice in messages of the program works: each piece is followed as it is written, and the same error
// must not come again. Messages of the job file alone are in tests/job/advice_test.cpp.
#include "advice.h"

#include <deque>

#include "cli/cli_testing.h"

namespace plimsoll::cli_testing {
namespace {

using advice_testing::Advice;
using advice_testing::AdviceReader;
using advice_testing::Input;
using advice_testing::kind_of;

/// A wrong command line.
struct Row {
  Arguments words;
  std::string not_followed = {};  ///< the reason why the advice is not followed here
};

const advice_testing::Samples kSamples = {
    {"VALUE", "3"},
    {"NAME", "rtx4090"},
    {"N", "2"},
    {"FILE", "out.json"},
    {"PATH", "out.safetensors"},
    {"JOB", "job.yaml"},
    {"JOB.yaml", "job.yaml"},
    {"COMMAND", "plan"},
    {"KEY=VALUE", "seed=3"},
    {"--gpu", "rtx4090"},
    {"--json", "out.json"},
    {"--html", "out.html"},
    {"--recipe", "saving"},
    {"--checkpoint", "run/step-00000006.safetensors"},
    {"memory_budget", "64MiB"},
    {"max_steps", "3"},
    {"max_epochs", "1"},
    {"data.sequence_length", "16"},
    {"data.validation_fraction", "0.1"},
};

class AdviceOfTheProgram : public CliTest {
 protected:
  AdviceOfTheProgram() {
    put_tiny_job();
    file_ = get("job.yaml");
  }

  /// Follows the advice in each row's message.
  void expect_all_work(const std::vector<Row>& rows) {
    std::vector<Input> inputs, followed;
    for (const Row& row : rows) inputs.push_back({file_, row.words});
    run_all(inputs);
    std::vector<AdviceReader> readers;
    for (const Input& input : inputs) {
      const std::string& message = stated_value(input);
      readers.emplace_back(message.substr(0, message.find("; see 'plimsoll")), input, kSamples, /*max_names=*/1);
      if (rows[readers.size() - 1].not_followed.empty())
        for (const Advice& each : readers.back().all()) followed.push_back(each.followed);
    }
    run_all(followed);
    for (size_t row = 0; row < rows.size(); ++row) {
      const Input& input = inputs[row];
      const std::string& message = stated_value(input);
      SCOPED_TRACE(input.text() + message);
      EXPECT_NE(message, "") << "no message";
      if (!rows[row].not_followed.empty()) continue;
      EXPECT_THAT(readers[row].not_understood(), ::testing::IsEmpty());
      EXPECT_FALSE(readers[row].all().empty()) << "no advice";
      for (const Advice& each : readers[row].all()) {
        EXPECT_FALSE(each.followed == input) << "advice that changes nothing: " << each.text;
        const std::string& next = stated_value(each.followed);
        EXPECT_NE(kind_of(next, each.followed), kind_of(message, input))
            << "followed: " << each.text << "\nas " << each.followed.text() << next;
      }
    }
    std::cout << rows.size() << " messages, " << followed.size() << " pieces of advice followed\n";
  }

 private:
  struct Started {
    Input input;
    pid_t process;
    std::string err;  ///< the file of its standard error
  };
  static constexpr size_t kAtATime = 2;

  bool is_known(const Input& input) const {
    return std::ranges::any_of(started_, [&](const Started& each) { return each.input == input; }) ||
           std::ranges::any_of(stated_, [&](const auto& each) { return each.first == input; });
  }

  /// Returns what the program said: an error, else a note with advice; "" if the command succeeded.
  const std::string& stated_value(const Input& input) const {
    return std::ranges::find_if(stated_, [&](const auto& each) { return each.first == input; })->second;
  }

  void finish_all_but(size_t count) {
    for (; started_.size() > count; started_.pop_front()) {
      const Started& first = started_.front();
      int status = 0;
      ASSERT_EQ(::waitpid(first.process, &status, 0), first.process);
      std::string stated = WIFEXITED(status) && WEXITSTATUS(status) == 0 ? "" : get(first.err);
      if (const size_t error = stated.find("plimsoll: "); error != std::string::npos) stated.erase(0, error);  // notes
      stated_.emplace_back(first.input, std::move(stated));
    }
  }

  /// Runs the program for inputs that it has not had yet, two at a time. An input with a job file of its own runs
  /// alone.
  void run_all(const std::vector<Input>& inputs) {
    for (const Input& input : inputs) {
      if (is_known(input)) continue;
      const bool alone = input.file != file_;
      finish_all_but(alone ? 0 : kAtATime - 1);
      if (alone) put("job.yaml", input.file);
      const std::string number = std::to_string(stated_.size() + started_.size()), err = "err-" + number + ".txt";
      started_.push_back(
          {input, start(input.words, "out-" + number + ".txt", [&] { open_as(err.c_str(), STDERR_FILENO); }), err});
      if (!alone) continue;
      finish_all_but(0);
      put("job.yaml", file_);
    }
    finish_all_but(0);
  }

  std::string file_;
  std::deque<Started> started_;
  std::vector<std::pair<Input, std::string>> stated_;
};

TEST_F(AdviceOfTheProgram, CommandsAndOptions) {
  put("other.yaml", get("job.yaml"));
  expect_all_work({
      {{"tarin", "job.yaml", "max_steps=1"}},
      {{"help"}},
      {{"dance", "job.yaml"}, "names all commands, some of which wait or train"},
      {{"job.yaml"}},
      {{"plan"}},
      {{"export", "job.yaml", "--output", "a"}},
      {{"export", "job.yaml"}},
      {{"--gpu", "a6000", "plan", "job.yaml"}},
      {{"plan", "job.yaml", "--gpu"}},
      {{"plan", "job.yaml", "--json", "a.json", "--json", "b.json"}},
      {{"plan", "job.yaml", "--recipe", "fast"}},
      {{"plan", "job.yaml", "--html", ""}},
      {{"trace", "job.yaml", "--summary", "--hot", "--measure", "0"}},
      {{"trace", "job.yaml", "--gpu", "a6000"}},
      {{"trace", "job.yaml", "--segment", "mikro"}},
      {{"train", "job.yaml", "--html", "a.html"}},
      {{"train", "job.yaml", "--config", "x"}},
      {{"plan", "job.yaml", "--use-amp", "--no-use-amp"}},
      {{"plan", "job.yaml", "--bf16", "--no-use-amp"}},
      {{"plan", "job.yaml", "--link", "nvlink"}},
      {{"plan", "job.yaml", "--devices"}},
      {{"train", "job.yaml", "--profile", "p.json", "max_steps=1"}},
      {{"gpus", "--min-memory", "24"}},
      {{"gpus", "--vendor", "nvidea"}},
      {{"gpus", "--links", "--vendor", "nvidia"}},
      {{"completion", "zssh"}},
  });
}

TEST_F(AdviceOfTheProgram, KeysOnTheCommandLine) {
  put("other.yaml", get("job.yaml"));
  expect_all_work({
      {{"train", "job.yaml", "--gpu", "rtx3060"}},
      {{"train", "job.yaml", "--max-steps", "2"}},
      {{"plan", "job.yaml", "--lr", "0.1"}},
      {{"plan", "job.yaml", "--optimizer", "AdamW"}},
      {{"plan", "job.yaml", "--model", "decoder"}},
      {{"plan", "job.yaml", "--num-gpus", "2"}},
      {{"plan", "job.yaml", "memory_budget", "4GiB"}},
      {{"plan", "job.yaml", "memory_budget", "=", "4GiB"}},
      {{"plan", "job.yaml", "memory_budget:", "4GiB"}},
      {{"plan", "job.yaml", "data.files: [corpus.txt, other.yaml]"}},
      {{"plan", "job.yaml", "memory_budget=4", "GiB"}},
      {{"plan", "job.yaml", "other.yaml"}, "says which of the two files is read"},
      {{"plan", "memory_budget=4GiB", "job.yaml"}},
      {{"plan", "job.yaml", "--gpu", "a6000,", "rtx4090"}},
      {{"plan", "job.yaml", "--use-amp", "true"}},
      {{"plan", "job.yaml", "oddity"}},
  });
}

TEST_F(AdviceOfTheProgram, Devices) {
  expect_all_work({
      {{"plan", "job.yaml", "--gpu", "rtx4091"}},
      {{"plan", "job.yaml", "--gpu", "a100"}},
      {{"plan", "job.yaml", "--gpu", "nvidia"}},
      {{"plan", "job.yaml", "--gpu", "cuda:0"}},
      {{"plan", "job.yaml", "--gpu", "rtx4090", "--memory", "0"}},
      {{"plan", "job.yaml", "--gpu", "a100-80gb-sxm", "--devices", "4", "--link", "nvlnk3"}},
      {{"train", "job.yaml", "device=mps"}},
      {{"plan", "job.yaml", "device=mps", "compile=true"}},
      {{"compare", "job.yaml", "devices=2"}, "compare trains for seconds"},
  });
}

TEST_F(AdviceOfTheProgram, FilesAndFolders) {
  std::filesystem::create_directory(folder() / "jobs");
  std::filesystem::copy(folder() / "job.yaml", folder() / "jobs" / "small.yaml");
  put("tokens.json", "no JSON");
  ASSERT_EQ(run({"train", "job.yaml", "checkpoint.directory=run"}).exit_code, 0);
  expect_all_work({
      {{"plan", "jbo.yaml"}},
      {{"plan", "jobs"}},
      {{"train", "job.yaml", "data.files=corpsu.txt"}},
      {{"train", "job.yaml", "data.files='*.txt'"}},
      {{"train", "job.yaml", "data.files='corpus.txt,b.txt'"}},
      {{"plan", "job.yaml", "data.tokenizer=huggingface", "data.tokenizer_file=tokns.json"}},
      {{"plan", "job.yaml", "data.tokenizer=gpt2", "data.tokenizer_file=tokens.json"}},
      {{"train", "job.yaml", "checkpoint.resume=run"}},
      {{"train", "job.yaml", "checkpoint.resume=run/step-00000060.safetensors"}},
      {{"export", "job.yaml", "--out", "a.safetensors", "--checkpoint", "run"}},
      {{"export", "job.yaml", "--out", "a.safetensors"}},
      {{"export", "job.yaml", "--out", "a", "--checkpoint", "run/step-00000006.safetensors", "--format", "hf"}},
      {{"plan", "job.yaml", "--json", "absent/out.json"}, "the folder is to be made"},
  });
}

TEST_F(AdviceOfTheProgram, ModelsAndData) {
  put("gesture.yaml",
      "threads: 1\nmax_steps: 1\nbatch_size: 2\n"
      "model: {type: gesture_ssm, channels: 3, num_classes: 2, hidden_dim: 16, num_layers: 1, head_dim: 16}\n"
      "data: {type: series, files: [gestures.csv], length: 4, validation_fraction: 0}\n");
  put("gestures.csv", "series,label,x,y\n1,a,0.5,1.5\n1,a,0.7,1.1\n2,b,0.1,0.2\n2,b,0.4,0.9\n");
  put("list.jsonl", "{\"text\": \"a\"}\n");
  expect_all_work({
      {{"train", "gesture.yaml"}},
      {{"train", "gesture.yaml", "model.channels=2", "model.num_classes=5"}},
      {{"train", "job.yaml", "data.sequence_length=100000"}},
      {{"plan", "job.yaml", "freeze=[q_proj]"}},
      {{"plan", "job.yaml", "lora.modules=[q_proj, v_proj]"}},
      {{"plan", "job.yaml", "model.vocab_size=100"}},
      {{"plan", "job.yaml", "update_in_backward=true", "max_grad_norm=1"}},
  });
}

// Every error of arguments ends with this; the helps are in arguments_test.cpp.
TEST_F(AdviceOfTheProgram, TheHelpThatAMessageNamesIsThere) {
  EXPECT_THAT(run({"place", "--zzzz"}).err, ::testing::HasSubstr("see 'plimsoll place --help'"));
  EXPECT_EQ(run({"place", "--help"}).exit_code, 0);
}

}  // namespace
}  // namespace plimsoll::cli_testing
