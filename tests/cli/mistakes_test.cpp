// Tests one mistake a command line. The message must say what is wrong, where, and what to write instead, on one line.
// The exit code tells whose mistake it is. The job is valid except for the row's mistake.
#include <sys/stat.h>

#include <map>

#include "cli/cli_testing.h"

namespace plimsoll::cli_testing {
namespace {

using Phrases = std::vector<std::string>;

struct Mistake {
  Arguments arguments;
  Phrases message;
  int exit_code = 2;
};

class Mistakes : public CliTest {
 protected:
  Mistakes() { put_tiny_job(); }

  /// Runs each; its message is one line with all phrases in it, and nothing is on standard output.
  void expect_each(const std::vector<Mistake>& mistakes) const {
    for (const Mistake& mistake : mistakes) {
      std::string line = "plimsoll";
      for (const std::string& word : mistake.arguments) line += " '" + word + "'";
      SCOPED_TRACE(line);
      const Outcome outcome = run(mistake.arguments);
      expect_refusal(outcome, mistake.exit_code, ::testing::Not(::testing::HasSubstr("internal error")));
      for (const std::string& phrase : mistake.message) EXPECT_THAT(outcome.err, ::testing::HasSubstr(phrase));
    }
  }
};

TEST_F(Mistakes, CommandsAndOptions) {
  put("other.yaml", get("job.yaml"));
  expect_each({
      {{"run", "job.yaml"}, {"unknown command 'run'; did you mean 'train'?"}},
      {{"estimate", "job.yaml"}, {"did you mean 'plan'?"}},
      {{"help"}, {"did you mean '--help'?"}},
      {{"dance"}, {"unknown command 'dance'; there are plan, train, trace"}},
      {{"job.yaml"}, {"the command comes first: plimsoll train job.yaml"}},
      {{"plan"}, {"JOB.yaml is required: plimsoll plan JOB.yaml", "see 'plimsoll plan --help'"}},
      {{"export", "job.yaml", "--output", "a"}, {"unknown option '--output'; did you mean '--out'?"}},
      {{"export", "job.yaml"}, {"--out is required: plimsoll export JOB.yaml --out PATH"}},
      {{"--gpu", "a6000", "plan", "job.yaml"}, {"--gpu stands behind the command"}},
      {{"plan", "job.yaml", "--gpu"}, {"--gpu needs a value: NAME"}},
      {{"train", "job.yaml", "--batch-size"}, {"--batch-size needs a value;"}},
      {{"plan", "job.yaml", "--json", "a.json", "--json", "b.json"}, {"--json is given twice"}},
      {{"plan", "job.yaml", "--recipe", "fast"}, {"--recipe: 'fast' is none; allowed: saving, balanced, speed"}},
      {{"plan", "job.yaml", "--recipe"}, {"--recipe needs a value: saving | balanced | speed"}},
      {{"compare", "job.yaml", "--steps", "0"}, {"--steps: '0' is no whole number from 3 to 100000"}},
      {{"compare", "job.yaml", "--steps", "1e2"}, {"'1e2' is no whole number"}},
      {{"monitor", "--interval", "x"}, {"--interval: 'x' is no number from 0.1 to 3600"}},
      {{"trace", "job.yaml", "--summary", "--hot"}, {"--summary and --hot do not go together"}},
      {{"trace", "job.yaml", "--gpu", "a6000"}, {"--gpu goes with --hot alone"}},
      {{"train", "job.yaml", "--use-amp=maybe"}, {"--use-amp does not take the value 'maybe'"}},
      {{"train", "job.yaml", "--html", "a.html"}, {"unknown option '--html'; it is one of plimsoll plan"}},
      {{"train", "job.yaml", "--config", "x"}, {"the job file stands by itself: plimsoll train JOB.yaml"}},
  });
}

// A key of the job file written as an option, or an override in two words: the message shows the right form.
TEST_F(Mistakes, KeysOnTheCommandLine) {
  put("other.yaml", get("job.yaml"));
  expect_each({
      {{"train", "job.yaml", "--gpu", "rtx3060"},
       {"unknown option '--gpu'", "device=cuda", "plimsoll plan JOB.yaml --gpu rtx3060"}},
      {{"train", "job.yaml", "--max-steps", "10"}, {"a key of the job file stands without dashes: max_steps=10"}},
      {{"train", "job.yaml", "--max_steps=10"}, {"unknown option '--max_steps'", "max_steps=10"}},
      {{"train", "job.yaml", "--lr", "0.1"}, {"optimizer.learning_rate=0.1"}},
      {{"train", "job.yaml", "--steps", "10"}, {"max_steps=10"}},
      {{"train", "job.yaml", "--optimizer", "sgd"}, {"optimizer.name=sgd"}},
      {{"plan", "job.yaml", "--memory_budget", "4GiB"}, {"memory_budget=4GiB"}},
      {{"plan", "job.yaml", "memory_budget", "4GiB"}, {"'memory_budget' is not an override; write memory_budget=4GiB"}},
      {{"plan", "job.yaml", "memory_budget", "=", "4GiB"}, {"write memory_budget=4GiB"}},
      {{"plan", "job.yaml", "memory_budget=4", "GiB"}, {"stands in quotes: 'memory_budget=4 GiB'"}},
      {{"plan", "job.yaml", "other.yaml"}, {"'other.yaml' is not an override; the job file is 'job.yaml'"}},
      {{"plan", "memory_budget=4GiB", "job.yaml"}, {"the job file comes before 'memory_budget=4GiB'", "job.yaml"}},
      {{"plan", "job.yaml", "--gpu", "a6000,", "rtx4090"}, {"several devices stand in one word"}},
      {{"train", "job.yaml", "--use-amp", "true"}, {"a flag takes no value"}},
      {{"train", "job.yaml", "oddity"}, {"write key.path=value"}},
  });
}

TEST_F(Mistakes, NamesOfKeys) {
  expect_each({
      {{"plan", "job.yaml", "lerning_rate=1e-3"}, {"did you mean 'optimizer.learning_rate'?"}},
      {{"plan", "job.yaml", "sequence_lenght=16"}, {"did you mean 'data.sequence_length'?"}},
      {{"plan", "job.yaml", "hidden_size=16"}, {"did you mean 'model.hidden_size'?"}},
      {{"plan", "job.yaml", "lora.r=8"}, {"did you mean 'lora.rank'?"}},
      {{"plan", "job.yaml", "lora.target_modules=layers"}, {"did you mean 'lora.modules'?"}},
      {{"plan", "job.yaml", "model.num_hidden_layers=2"}, {"did you mean 'model.num_layers'?"}},
      {{"plan", "job.yaml", "mixed_precision=bf16"}, {"did you mean 'precision'?"}},
      {{"plan", "job.yaml", "model.bottleneck=2"}, {"did you mean 'model.bottleneck_dim'?"}},
      {{"plan", "job.yaml", "model.layers=2"}, {"did you mean 'model.num_layers'?"}},
      {{"plan", "job.yaml", "model=3"}, {"it is a section", "and ", " more (docs/job-file.md)"}},
      {{"plan", "job.yaml", "model=gpt"}, {"model.type is 'gpt'; allowed: ", "did you mean 'decoder'?"}},
      {{"plan", "job.yaml", "optimizer=adam"}, {"optimizer.name is 'adam'", "did you mean 'adamw'?"}},
      {{"plan", "job.yaml", "lora=true"}, {"; for example 'lora.modules=[\"*.qkv\"]'"}},
      {{"plan", "job.yaml", "lora.rank=8"}, {"lora.rank is given, but lora.modules names no layers"}},
      {{"plan", "job.yaml", "data.tokenizer_file=corpus.txt"}, {"data.tokenizer is bytes, which reads no file"}},
  });
}

TEST_F(Mistakes, Values) {
  expect_each({
      {{"plan", "job.yaml", "memory_budget=8G"}, {"did you mean 8GiB or 8GB?"}},
      {{"plan", "job.yaml", "memory_budget=8gigabytes"}, {"did you mean 8GiB or 8GB?"}},
      {{"plan", "job.yaml", "memory_budget=50%"}, {"a share is not taken"}},
      {{"plan", "job.yaml", "memory_budget=-4GiB"}, {"it is negative"}},
      {{"plan", "job.yaml", "precision=bf16-mixd"}, {"did you mean 'bf16-mixed'?"}},
      {{"plan", "job.yaml", "optimizer.name=adam"}, {"allowed: adamw, ", "did you mean 'adamw'?"}},
      {{"plan", "job.yaml", "optimizer.name=paged_adamw_8bit"}, {"did you mean 'adamw_8bit'?"}},
      {{"plan", "job.yaml", "scheduler.name=cosine_with_restarts"}, {"did you mean 'cosine'?"}},
      {{"plan", "job.yaml", "scheduler.name=linear_warmup"}, {"did you mean 'linear'?"}},
      {{"plan", "job.yaml", "device=cuda:0"}, {"did you mean 'cuda'?"}},
      {{"plan", "job.yaml", "model.type=llama"}, {"did you mean 'decoder'?"}},
      {{"plan", "job.yaml", "quantize.format=fp4"}, {"did you mean 'nf4'?"}},
      {{"plan", "job.yaml", "data.tokenizer=meta-llama/Llama-3.2-1B"}, {"data.tokenizer_file names the file"}},
      {{"plan", "job.yaml", "model.dtype=bf16"}, {"did you mean 'bfloat16'?"}},
      {{"plan", "job.yaml", "optimizer.state_dtype=int8"}, {"did you mean '8bit'?"}},
      {{"plan", "job.yaml", "gradient_accumulation_steps={0:4}"}, {"a space is missing behind the colon"}},
      {{"plan", "job.yaml", "freeze=[head, layers.[0-9].mlp]"}, {"a pattern that has brackets stands in quotes"}},
      {{"plan", "job.yaml", "data.shuffle=1"}, {"allowed: true, false; did you mean 'true'?"}},
      {{"plan", "job.yaml", "gradient_checkpointing=0"}, {"allowed: auto, true, false; did you mean 'false'?"}},
      {{"plan", "job.yaml", "max_steps=1e3"}, {"did you mean 1000?"}},
      {{"plan", "job.yaml", "max_steps=10k"}, {"did you mean 10000?"}},
      {{"plan", "job.yaml", "max_steps=1,000"}, {"did you mean 1000?"}},
      {{"plan", "job.yaml", "model.dropout=10%"}, {"allowed: number in [0, 1) or none; did you mean 0.1?"}},
      {{"plan", "job.yaml", "optimizer.learning_rate=0,001"}, {"did you mean 0.001?"}},
      {{"plan", "job.yaml", "checkpoint.resume=true"}, {"auto goes on from the newest"}},
      {{"plan", "job.yaml", "--gpu", "nvidia"}, {"that is a vendor; 'plimsoll gpus --vendor nvidia'"}},
      {{"plan", "job.yaml", "--gpu", "cuda:0"}, {"a plan is for a model, such as rtx4090"}},
      {{"gpus", "--min-memory", "24"}, {"--min-memory is 24 bytes; did you mean 24GiB?"}},
      {{"gpus", "--min-memory", "24G"}, {"did you mean 24GiB or 24GB?"}},
  });
}

TEST_F(Mistakes, YamlThatIsNone) {
  const std::map<std::string, Phrases> files = {
      {"max_steps: 4\nmodel:\n\thidden_size: 32\n", {"job.yaml:3:", "indented with a tab; YAML takes spaces"}},
      {"max_steps: 4\nmodel: {hidden_size: 32\nseed: 1\n", {"job.yaml:2:", "the { that opens here is not closed"}},
      {"data: {files: [a.txt, b.txt}\nseed: 1\n", {"job.yaml:1:", "not valid YAML"}},
      {"device: \"cpu\nseed: 1\n", {"job.yaml:1:9: ", "the quote that opens here is not closed"}},
      {"max_steps: 4\n batch_size: 4\n", {"job.yaml:2:", "indented further than line 1"}},
      {"max_steps 4\nseed: 1\n", {"job.yaml:1:", "a colon is missing: write max_steps: 4"}},
      {"max_steps = 4\nseed: 1\n", {"job.yaml:1:", "a colon is missing: write max_steps: 4"}},
      {"max_steps:4\nseed: 1\n", {"job.yaml:1:", "a space is missing behind the colon: write max_steps: 4"}},
      {"data: {sequence_length:16}\n", {"job.yaml:1:8: ", "write sequence_length: 16"}},
      {"optimizer: {learning_rate: 0,001}\n", {"job.yaml:1:", "a number has a point: 0.001"}},
      {"{\"seed\": 4 \"data\": {\"files\": [\"a\"]}}\n", {"job.yaml:1:", "a comma is missing"}},
      {"max_steps = 4\n", {"write a colon and a space in place of ="}},
      {"- seed: 4\n", {"leave the '- ' before its keys out"}},
      {"data: {files: \"C:\\data\\a.txt\"}\n", {"between double quotes a backslash begins an escape"}},
      {"seed: 1\nseed: 2\n", {"job.yaml:2:1: the key 'seed' is given twice; the first is on line 1"}},
      {"", {"job.yaml is empty", "docs/job-file.md"}},
      {std::string("GGUF\3\0\0\0", 8), {"it is a GGUF file", "a job file is text, YAML"}},
      {std::string("\x10\0\0\0\0\0\0\0{\"a\":", 13), {"it is a safetensors file"}},
      {std::string("PK\3\4 and so on"), {"it is a zip archive, as a PyTorch checkpoint is"}},
      {std::string("seed: \1 1\n"), {"its byte 6 is 0x01, which no text has"}},
  };
  for (const auto& [text, message] : files) {
    SCOPED_TRACE(text);
    put("job.yaml", text);
    expect_each({{{"plan", "job.yaml"}, message}});
  }
}

TEST_F(Mistakes, FilesThatAreNotThereOrAreSomethingElse) {
  std::filesystem::create_directory(folder() / "jobs");
  std::filesystem::copy(folder() / "job.yaml", folder() / "jobs" / "small.yaml");
  std::filesystem::create_directory(folder() / "empty");
  put("tokens.json", "no JSON");
  put("torch.bin", std::string("PK\3\4") + std::string(60, '\1'));
  expect_each({
      {{"plan", "jbo.yaml"}, {"cannot open job file 'jbo.yaml'", "did you mean 'job.yaml'?"}},
      {{"plan", "jobs"}, {"job file 'jobs' is a folder; name a file in it, such as 'jobs/small.yaml'"}},
      {{"plan", "empty"}, {"is a folder; name a YAML file"}},
      {{"plan", "job.yaml", "model.weights=meta-llama/Llama-3.2-1B"}, {"does not exist", "downloads nothing"}},
      {{"plan", "job.yaml", "data.tokenizer=huggingface", "data.tokenizer_file=tokns.json"},
       {"data.tokenizer_file: tokns.json does not exist", "did you mean 'tokens.json'?"}},
      {{"plan", "job.yaml", "data.tokenizer=huggingface", "data.tokenizer_file=tokens.json"},
       {"data.tokenizer_file: tokens.json is not valid JSON"},
       1},
      {{"plan", "job.yaml", "data.tokenizer=gpt2", "data.tokenizer_file=tokens.json"},
       {"data.tokenizer is 'gpt2', did you mean 'huggingface'?"}},
      {{"plan", "job.yaml", "data.tokenizer=sentencepiece", "data.tokenizer_file=torch.bin"},
       {"is not a SentencePiece model (a field has no number)"}},
      {{"export", "job.yaml", "--out", "a.safetensors", "--checkpoint", "torch.bin"},
       {"it is what torch.save writes", "save the weights as safetensors"},
       1},
  });
}

// A budget without its unit: one note, and the verdict with the minimum budget alone.
TEST_F(Mistakes, ABudgetWithoutAUnitIsAnsweredInShort) {
  for (const std::string command : {"plan", "train"}) {
    const Outcome outcome = run({command, "job.yaml", "memory_budget=256"});
    EXPECT_EQ(outcome.exit_code, 3) << outcome.err;
    EXPECT_THAT(outcome.err, ::testing::HasSubstr("memory_budget is 256 bytes; write the unit"));
    EXPECT_THAT(outcome.out, ::testing::HasSubstr("does not fit: "));
    EXPECT_THAT(outcome.out, ::testing::HasSubstr("the minimum budget is "));
    EXPECT_LE(std::ranges::count(outcome.out, '\n'), 3) << outcome.out;
  }
}

// Standard output may be a file that nobody reads at once.
TEST_F(Mistakes, ARunThatDoesNotFitSaysSoOnBothStreams) {
  const Outcome outcome = run({"train", "job.yaml", "memory_budget=64KiB"});
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_THAT(outcome.out, ::testing::HasSubstr("does not fit: "));
  EXPECT_THAT(outcome.err, ::testing::HasSubstr("does not fit: "));
}

// For errors at the start of training the last line counts: the plan is printed before it.
TEST_F(Mistakes, FilesThatTrainingMisses) {
  ASSERT_EQ(run({"train", "job.yaml", "checkpoint.directory=run"}).exit_code, 0);
  std::filesystem::create_directory(folder() / "empty");
  std::filesystem::create_symlink("loop.txt", folder() / "loop.txt");
  const std::vector<Mistake> mistakes = {
      {{"data.files=loop.txt"},
       {"data.files: loop.txt is a symbolic link to loop.txt, which does not exist or leads back"}},
      {{"data.files=corpsu.txt"}, {"data.files: corpsu.txt does not exist; did you mean 'corpus.txt'?"}},
      {{"data.files='*.txt'"}, {"names are not expanded here"}},
      {{"data.files='a.txt,b.txt'"}, {"several files are a list"}},
      {{"checkpoint.resume=run"},
       {"checkpoint.resume is run, a folder; name a checkpoint in it, such as the newest: "
        "run/step-00000006.safetensors"}},
      {{"checkpoint.resume=empty"}, {"name a checkpoint that plimsoll train wrote"}},
      {{"checkpoint.resume=run/step-00000060.safetensors"}, {"did you mean 'run/step-00000006.safetensors'?"}},
  };
  for (const Mistake& mistake : mistakes) {
    Arguments arguments = {"train", "job.yaml"};
    arguments.insert(arguments.end(), mistake.arguments.begin(), mistake.arguments.end());
    SCOPED_TRACE(mistake.arguments.front());
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.exit_code, mistake.exit_code) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    for (const std::string& phrase : mistake.message) EXPECT_THAT(outcome.err, ::testing::HasSubstr(phrase));
  }
  expect_each({{{"export", "job.yaml", "--out", "a.safetensors", "--checkpoint", "run"},
                {"--checkpoint is run, a folder; name a checkpoint in it"}}});
}

}  // namespace
}  // namespace plimsoll::cli_testing
