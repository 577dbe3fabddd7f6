// Tests the errors of a wrong job file: each mistake with its whole message or the relevant part.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "plimsoll/error.h"
#include "plimsoll/job.h"
#include "refusals.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

/// Returns the message for a file whose first line is valid and whose second begins with `yaml`.
std::string message(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  return refusal_of([&] { parse_job("data: {files: corpus.txt}\n" + yaml, "job.yaml", "", overrides); },
                    UserError::Kind::usage);
}

std::string message_for_override(const std::string& text) {
  return message("", {text});
}

TEST(JobErrors, UnknownKeyNamesTheNearest) {
  EXPECT_EQ(message("optimzer:\n  name: adamw"),
            "job.yaml:3:3: unknown key 'optimzer.name'; did you mean 'optimizer.name'?");
  EXPECT_EQ(message("optimizer:\n  nmae: adamw"),
            "job.yaml:3:3: unknown key 'optimizer.nmae'; did you mean 'optimizer.name'?");
  EXPECT_EQ(message("bacth_size: 3"), "job.yaml:2:1: unknown key 'bacth_size'; did you mean 'batch_size'?");
  EXPECT_EQ(message("modle: 3"), "job.yaml:2:1: unknown key 'modle'; did you mean 'model'?");
  EXPECT_EQ(message("optimzer.name: 3"), "job.yaml:2:1: unknown key 'optimzer.name'; did you mean 'optimizer.name'?");
}

TEST(JobErrors, UnknownKeyOfAnotherSectionNamesThatSection) {
  EXPECT_THAT(message("min_lr_ratio: 1"), HasSubstr("did you mean 'scheduler.min_lr_ratio'?"));
  EXPECT_THAT(message("run: {max_steps: 1}"), HasSubstr("did you mean 'max_steps'?"));
}

TEST(JobErrors, WordsOfOtherProgramsAreAnsweredWithOurs) {
  for (const auto& [expected, ours] : std::map<std::string, std::string>{{"optimizer.wd", "optimizer.weight_decay"},
                                                                         {"model.d_model", "model.hidden_size"},
                                                                         {"model.n_layer", "model.num_layers"},
                                                                         {"model.llm.n_layers", "model.llm.num_layers"},
                                                                         {"data.seq_len", "data.sequence_length"},
                                                                         {"training.epochs", "max_epochs"},
                                                                         {"epochs", "max_epochs"},
                                                                         {"steps", "max_steps"},
                                                                         {"batch", "batch_size"},
                                                                         {"gpu", "device"},
                                                                         {"vram", "memory_budget"}}) {
    EXPECT_THAT(message_for_override(expected + "=3"), HasSubstr("did you mean '" + ours + "'?")) << expected;
  }
  EXPECT_THAT(message_for_override("schedule.steps=3"), HasSubstr("did you mean 'scheduler.steps'?"));
}

TEST(JobErrors, UnknownKeyWithNothingNearListsWhatThereIs) {
  EXPECT_EQ(
      message("scheduler: {flavor: 1}"),
      "job.yaml:2:13: unknown key 'scheduler.flavor'; keys of scheduler: name, steps, warmup_steps, warmup_ratio, "
      "min_lr_ratio");
  EXPECT_THAT(message("flavor: 1"), AllOf(HasSubstr("'flavor'; the job file has: model, data"), HasSubstr("seed")));
}

TEST(JobErrors, WrongTypeSaysWhatWasFoundAndWhatIsAllowed) {
  EXPECT_EQ(message("precision: 16mixed"),
            "job.yaml:2: precision is '16mixed'; allowed: auto, 32-true, 16-mixed, bf16-mixed, bf16-true; did you mean "
            "'16-mixed'?");
  EXPECT_EQ(message("max_steps: many"), "job.yaml:2: max_steps is 'many'; allowed: none, integer from 1 to 1000000000");
  EXPECT_EQ(message("max_steps: [1, 2]"),
            "job.yaml:2: max_steps is a list of 2; allowed: none, integer from 1 to 1000000000");
  EXPECT_EQ(message("max_steps: {a: 2}"),
            "job.yaml:2: max_steps is a mapping; allowed: none, integer from 1 to 1000000000");
  EXPECT_EQ(message("max_steps:\nseed: 1"),
            "job.yaml:2: max_steps is empty; allowed: none, integer from 1 to 1000000000");
  EXPECT_EQ(message("max_steps: 1.5"), "job.yaml:2: max_steps is 1.5; allowed: none, integer from 1 to 1000000000");
  EXPECT_EQ(message("micro_batch_size: x"),
            "job.yaml:2: micro_batch_size is 'x'; allowed: auto, integer from 1 to 1048576");
  EXPECT_EQ(message("model: {tie_embeddings: 1}"),
            "job.yaml:2: model.tie_embeddings is 1; allowed: true, false; did you mean 'true'?");
  EXPECT_EQ(message("gradient_checkpointing: enabled"),
            "job.yaml:2: gradient_checkpointing is 'enabled'; allowed: auto, true, false; did you mean 'true'?");
  EXPECT_EQ(message("optimizer: 3"),
            "job.yaml:2: optimizer is '3'; it is a section, with keys of its own: name, "
            "learning_rate, reference_batch_size, weight_decay, betas, eps, momentum, state_dtype, weight_update, "
            "adamw_parameters");
  EXPECT_EQ(message("seed: \"1\\n2\""), "job.yaml:2: seed is '1?2'; allowed: integer from 0 to 18446744073709551615");
}

TEST(JobErrors, RangesHoldForEveryNumber) {
  // Each key, and values just outside what it allows.
  const std::vector<std::pair<std::string, std::vector<std::string>>> cases = {
      {"model.vocab_size", {"0", "16777217"}},
      {"model.hidden_size", {"0", "-1", "262145", "99999999999999999999"}},
      {"model.num_layers", {"0", "4097"}},
      {"model.num_heads", {"0", "4097"}},
      {"model.num_kv_heads", {"-1", "4097"}},
      {"model.head_dim", {"-2", "262146"}},
      {"model.intermediate_size", {"-1", "1048577"}},
      {"model.sliding_window", {"-1", "1048577"}},
      {"model.dropout", {"-0.1", "1", "nan"}},
      {"model.norm_eps", {"0", "1"}},
      {"model.rope_theta", {"0.5", "inf"}},
      {"data.sequence_length", {"0", "1048577"}},
      {"data.validation_fraction", {"-0.1", "0.51"}},
      {"data.num_workers", {"0", "257"}},
      {"data.prefetch", {"0", "1025"}},
      {"optimizer.learning_rate", {"0", "-1", "inf", "nan", ".inf", "1e999", "1e-3x"}},
      {"optimizer.weight_decay", {"-0.1", "inf"}},
      {"optimizer.betas", {"0.9", "[]", "[0.9]", "[0.9, 1]", "[-1, 0.9]", "[0.9, 0.9, 0.9]", "[a, 0.9]"}},
      {"optimizer.eps", {"0", "1"}},
      {"optimizer.momentum", {"-0.1", "1"}},
      {"scheduler.steps", {"0", "1000000001", "none"}},
      {"scheduler.warmup_steps", {"-1", "1000000001"}},
      {"scheduler.min_lr_ratio", {"-0.1", "1.1"}},
      {"checkpoint.every_n_steps", {"-1"}},
      {"checkpoint.keep", {"-1", "1000001"}},
      {"log.every_n_steps", {"0"}},
      {"batch_size", {"0", "1048577", "auto"}},
      {"micro_batch_size", {"0", "1048577"}},
      {"gradient_accumulation_steps", {"0", "1048577", "{0: 0}", "{-1: 1, 0: 1}", "{0: a}", "[1]"}},
      {"memory_budget", {"0", "-1", "8G", "lots", "9000PiB", "[1GiB]"}},
      {"data.memory_budget", {"0", "-1", "8G", "lots", "9000PiB", "[1GiB]"}},
      {"max_grad_norm", {"-1", "inf"}},
      {"max_steps", {"0", "1000000001"}},
      {"max_epochs", {"0", "auto"}},
      {"eval_every_n_steps", {"-1"}},
      {"eval_batches", {"0"}},
      {"threads", {"-1", "1025"}},
      {"seed", {"-1", "18446744073709551616", "0x1", "1 2"}},
      {"model.type", {"encoder", ""}},
      {"model.norm", {"batchnorm"}},
      {"model.positions", {"alibi"}},
      {"model.activation", {"relu"}},
      {"data.type", {"images"}},
      {"data.tokenizer", {"bpe"}},
      {"data.shuffle", {"maybe"}},
      {"optimizer.name", {"adam", "sgd_8bit", "adamw_16bit"}},
      {"optimizer.state_dtype", {"int8", "8", "8-bit", "[8bit]"}},
      {"optimizer.weight_update", {"exact", "true"}},
      {"optimizer.adamw_parameters", {"''", "{a: b}", "[[a]]", "['']"}},
      {"scheduler.name", {"step"}},
      {"checkpoint.resume", {"\"\"", "[a]"}},
      {"device", {"gpu", "CUDA2"}},
      {"log.metrics_file", {"[a]", "\"a\\0b\""}},
  };
  for (const auto& [key, values] : cases)
    for (const std::string& value : values)
      EXPECT_THAT(message(key + ": " + value), AllOf(StartsWith("job.yaml:2: "), HasSubstr(key))) << value;
}

TEST(JobErrors, FilesMustBeNamed) {
  const auto without_data = [](const std::string& yaml) {
    return refusal_of([&] { parse_job(yaml, "job.yaml", ""); });
  };
  EXPECT_THAT(without_data(""), StartsWith("job.yaml: data.files is missing"));
  EXPECT_THAT(without_data("seed: 1"), StartsWith("job.yaml: data.files is missing"));
  EXPECT_THAT(without_data("data.files: []"), StartsWith("job.yaml:1: data.files is a list of 0"));
  EXPECT_THAT(without_data("data:\n  files:\n    - a\n    - [b]"), StartsWith("job.yaml:4: data.files is a list of 1"));
  EXPECT_THAT(without_data("data.files: ''"), StartsWith("job.yaml:1: data.files is ''"));
}

TEST(JobErrors, HeadsFitTheWidth) {
  EXPECT_EQ(message("model:\n  hidden_size: 256\n  num_heads: 7"),
            "job.yaml:4: model.num_heads is 7; it must divide hidden_size 256 (for example 4 or 8)");
  EXPECT_EQ(message("model:\n  hidden_size: 250"),
            "job.yaml:3: model.num_heads is 4; it must divide hidden_size 250 (for example 1 or 5)");
  EXPECT_EQ(message("model.num_kv_heads: 3"),
            "job.yaml:2: model.num_kv_heads is 3; it must divide num_heads 4 (for example 2 or 4)");
  EXPECT_EQ(message("model.num_kv_heads: 8"),
            "job.yaml:2: model.num_kv_heads is 8; it must divide num_heads 4 (for example 4)");
  EXPECT_EQ(message("model.head_dim: 3"),
            "job.yaml:2: model.head_dim is 3; it must be even where positions are 'rope' (for example 4)");
  EXPECT_THAT(message("model.num_heads: 256"), HasSubstr("must be even (for example 128)"));
  EXPECT_EQ(message("model: {head_dim: 3, positions: learned}"), "accepted");
  EXPECT_EQ(message("model: {num_heads: 7, head_dim: 64}"), "accepted");
  EXPECT_THAT(message("model: {num_heads: 4096, head_dim: 65536}"), HasSubstr("must not exceed 262144"));
}

TEST(JobErrors, BatchSizesAgree) {
  EXPECT_EQ(message("batch_size: 3\nmicro_batch_size: 4"),
            "job.yaml:2: batch_size is 3; it must be at least micro_batch_size, 4");
  EXPECT_EQ(message("batch_size: 9\nmicro_batch_size: auto\ngradient_accumulation_steps: 4"),
            "job.yaml:2: batch_size is 9; it does not fit gradient_accumulation_steps 4: it cannot be divided into 4 "
            "micro batches of which only the last is smaller (for example 8 or 12)");
  // All three and what to change, to the one step or to the other.
  const auto three = [](int64_t batch) {
    return message(fmt::format("batch_size: {}\nmicro_batch_size: 5\ngradient_accumulation_steps: 4", batch));
  };
  const auto words = [](int64_t batch, const std::string& instead) {
    return fmt::format(
        "job.yaml:2: batch_size {}, micro_batch_size 5 and gradient_accumulation_steps 4 do not agree: 5 x 4 = 20 (at "
        "least 16, if the last micro batch is smaller), not {}; remove batch_size, or set batch_size: 20{}",
        batch, batch, instead);
  };
  EXPECT_EQ(three(10), words(10, " or gradient_accumulation_steps: 2 or micro_batch_size: 3"));
  EXPECT_EQ(three(9), words(9, " or gradient_accumulation_steps: 2"));  // in four parts 9 is 3, 3, 3 and none
  EXPECT_EQ(three(15), words(15, " or gradient_accumulation_steps: 3 or micro_batch_size: 4"));
  EXPECT_EQ(three(21), words(21, " or gradient_accumulation_steps: 5 or micro_batch_size: 6"));
  EXPECT_EQ(three(3), words(3, ""));  // neither
  EXPECT_EQ(message("batch_size: 3\nmicro_batch_size: 4\ngradient_accumulation_steps: 1"),
            "job.yaml:2: batch_size 3, micro_batch_size 4 and gradient_accumulation_steps 1 do not agree: 4 x 1 = 4, "
            "not 3; remove batch_size, or set batch_size: 4 or micro_batch_size: 3");
  EXPECT_THAT(message("micro_batch_size: 1048576\ngradient_accumulation_steps: 2"), HasSubstr("more than 1048576"));
  EXPECT_THAT(message("batch_size: 1048576\ngradient_accumulation_steps: {0: 1, 1: 2}"),
              HasSubstr("more than 1048576"));
  EXPECT_THAT(message("batch_size: 1048576\ngradient_accumulation_steps: 2"),
              HasSubstr("batch_size 1048576 x gradient_accumulation_steps 2 is more than 1048576"));
}

TEST(JobErrors, AScheduleHasNoSmallerLastMicroBatch) {
  EXPECT_EQ(message("batch_size: 18\nmicro_batch_size: 5\ngradient_accumulation_steps: {0: 4, 2: 2}"),
            "job.yaml:2: batch_size 18, micro_batch_size 5 and gradient_accumulation_steps {0: 4, 2: 2} do not agree: "
            "5 x 4 = 20 in epoch 0, not 18; remove batch_size, or set batch_size: 20");
  EXPECT_THAT(message("batch_size: 16\nmicro_batch_size: 5\ngradient_accumulation_steps: {0: 4, 2: 2}"),
              EndsWith("or set batch_size: 20 or micro_batch_size: 4"));
  EXPECT_EQ(message("batch_size: 10\nmicro_batch_size: auto\ngradient_accumulation_steps: {0: 4, 2: 2}"),
            "job.yaml:2: batch_size is 10; it must be a multiple of gradient_accumulation_steps 4, because all micro "
            "batches of a schedule have the same size (for example 8 or 12)");
  EXPECT_THAT(message("micro_batch_size: auto\ngradient_accumulation_steps: {0: 3, 2: 2}"),
              HasSubstr("its default, 8, is no multiple of 3; set batch_size or"));
}

TEST(JobErrors, SchedulesStartWithEpochZero) {
  EXPECT_THAT(message("gradient_accumulation_steps: {4: 2}"), HasSubstr("does not say what epoch 0 starts with"));
  EXPECT_THAT(message("gradient_accumulation_steps: {}"), HasSubstr("does not say what epoch 0 starts with"));
  EXPECT_THAT(message("gradient_accumulation_steps:\n  0: 4\n  2: x"),
              StartsWith("job.yaml:4: gradient_accumulation_steps, epoch 2 is 'x'; allowed: integer"));
  EXPECT_THAT(message("gradient_accumulation_steps: {0: 1, 00: 2}"), HasSubstr("names epoch 0 twice"));
}

TEST(JobErrors, AmountsAreWholeBytesOrHaveAUnit) {
  for (const std::string key : {"memory_budget", "host_memory_budget", "disk_budget"})
    EXPECT_THAT(message(key + ": 1.5"), AllOf(StartsWith("job.yaml:2: " + key + " is wrong: '1.5'"),
                                              HasSubstr("is 1.5GiB meant?"), HasSubstr("8GiB")));
  EXPECT_EQ(message("max_grad_norm: never"), "job.yaml:2: max_grad_norm is 'never'; allowed: number >= 0 or none");
}

TEST(JobErrors, KeysThatNeedAnother) {
  EXPECT_THAT(message("data.tokenizer: gpt2"),
              StartsWith("job.yaml:2: data.tokenizer is 'gpt2'; it needs data.tokenizer_file"));
  EXPECT_THAT(message("checkpoint: {every_n_steps: 5}"), HasSubstr("no checkpoint.directory"));
}

TEST(JobErrors, AnOptimizersNameAndItsStateAgree) {
  EXPECT_EQ(message("optimizer:\n  state_dtype: 8bit", {"optimizer.name=adamw_4bit"}),
            "command line: optimizer.name=adamw_4bit: optimizer.name is adamw_4bit, and optimizer.state_dtype is 8bit; "
            "leave one of them out, or set optimizer.state_dtype: 4bit or optimizer.name: adamw");
  EXPECT_THAT(message("optimizer:\n  name: lion_8bit", {"optimizer.state_dtype=float32"}),
              AllOf(StartsWith("command line: optimizer.state_dtype=float32: "),
                    HasSubstr("optimizer.name is lion_8bit"), HasSubstr("optimizer.state_dtype is float32")));
  // For any order of the keys.
  for (const char* text :
       {"optimizer:\n  name: adamw_8bit\n  state_dtype: 4bit", "optimizer:\n  state_dtype: 4bit\n  name: adamw_8bit"})
    EXPECT_THAT(message(text), AllOf(StartsWith("job.yaml:"), HasSubstr("optimizer.name is adamw_8bit"),
                                     HasSubstr("optimizer.state_dtype is 4bit")));
  EXPECT_EQ(message("optimizer: {name: adamw_8bit, state_dtype: 8bit}"), "accepted");
  EXPECT_EQ(message("optimizer: {name: adamw, state_dtype: 8bit}", {"optimizer.name=lion_8bit"}), "accepted");
  EXPECT_EQ(message("optimizer: {name: adamw_8bit}", {"optimizer.name=adamw_4bit"}), "accepted");
}

/// The message for a whole file.
std::string message_of_file(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  return refusal_of([&] { parse_job(yaml, "job.yaml", "", overrides); });
}

TEST(JobErrors, KeysOfAnotherTypeAreRefused) {
  const std::string fmri = "model.type: fmri_autoencoder\ndata.type: synthetic\n";
  EXPECT_EQ(message_of_file(fmri), "accepted");
  EXPECT_EQ(message_of_file(fmri + "model.num_layers: 2"),
            "job.yaml:3: model.num_layers is given; it belongs to model.type: decoder | mamba | gesture_ssm, and this "
            "job's is "
            "fmri_autoencoder");
  EXPECT_EQ(message_of_file(fmri + "model.vocab_size: auto"),
            "job.yaml:3: model.vocab_size is given; it belongs to model.type: decoder | mamba, and this job's is "
            "fmri_autoencoder");
  EXPECT_THAT(message_of_file(fmri + "data.sequence_length: 64"), HasSubstr("belongs to model.type: decoder"));
  EXPECT_EQ(message_of_file(fmri + "model: {dropout: 0.1, norm_eps: 1e-6, dtype: auto, weights: w, voxels: 9}"),
            "accepted");
  for (const char* key : {"model.video.width: 64", "model.loss.agreement: 0", "model.bottleneck_dim: 8"})
    EXPECT_THAT(message(key), AllOf(StartsWith("job.yaml:2: model."),
                                    HasSubstr("belongs to model.type: fmri_autoencoder, and this job's is decoder")));
  EXPECT_EQ(message("data.samples: 8"),
            "job.yaml:2: data.samples is given; it belongs to data.type: synthetic, and this job's is text");
  for (const char* key : {"files: a.txt", "tokenizer: bytes", "tokenizer_file: a", "cache_dir: b"})
    EXPECT_THAT(message_of_file("data.type: synthetic\ndata." + std::string(key)),
                AllOf(StartsWith("job.yaml:2: data."), HasSubstr("belongs to data.type: text")));
  EXPECT_EQ(message_of_file("data: {type: synthetic, samples: 8, sequence_length: 8, validation_fraction: 0}"),
            "accepted");
}

TEST(JobErrors, PatternsOfMuonAreAsShortAsOthers) {
  EXPECT_EQ(message("optimizer.adamw_parameters: ['*.wte', " + std::string(256, 'a') + "]"), "accepted");
  EXPECT_THAT(message("optimizer.adamw_parameters: " + std::string(257, 'a')), HasSubstr("a pattern of 257 letters"));
  EXPECT_THAT(message("optimizer.adamw_parameters: ['']"), HasSubstr("allowed: a pattern such as"));
}

// The file's keys of a type that the command line replaces are ignored; the command line's are not.
TEST(JobErrors, ATypeMayBeReplacedOnTheCommandLine) {
  EXPECT_EQ(message("data.tokenizer: bytes", {"data.type=synthetic"}), "accepted");
  EXPECT_EQ(message("data.tokenizer: bytes", {"data.type=synthetic", "data.samples=4"}), "accepted");
  EXPECT_THAT(message("", {"data.type=synthetic", "data.tokenizer=bytes"}),
              StartsWith("command line: data.tokenizer=bytes: data.tokenizer is given; it belongs to data.type: text"));
  EXPECT_THAT(message("", {"data.samples=4"}), HasSubstr("belongs to data.type: synthetic"));
}

TEST(JobErrors, ProductsStayCountable) {
  EXPECT_THAT(message("batch_size: 1048576\ndata.sequence_length: 1048576\nmodel.num_layers: 4096"),
              StartsWith("job.yaml:3: data.sequence_length 1048576 with 1048576 sequences at a time"));
  EXPECT_THAT(message("max_steps: 1000000000\ndata.sequence_length: 1048576"),
              HasSubstr("more tokens than can be counted"));
  EXPECT_EQ(message("model: {num_layers: 128, hidden_size: 16384, num_heads: 128}\ndata.sequence_length: 131072"),
            "accepted");
}

TEST(JobErrors, KeysAreGivenOnce) {
  EXPECT_EQ(message("seed: 1\nseed: 2"), "job.yaml:3:1: the key 'seed' is given twice; the first is on line 2");
  EXPECT_EQ(message("log:\n  every_n_steps: 1\n  every_n_steps: 1"),
            "job.yaml:4:3: the key 'every_n_steps' is given twice; the first is on line 3");
  EXPECT_THAT(message("data.files: b.txt"), HasSubstr("data.files is given twice; the first is at job.yaml:1:15"));
}

TEST(JobErrors, MalformedYamlSaysLineAndColumn) {
  EXPECT_THAT(message("a: b: c"), StartsWith("job.yaml:2:5: not valid YAML: "));
  EXPECT_THAT(message("\tseed: 1"), StartsWith("job.yaml:2: not valid YAML: the line is indented with a tab"));
  EXPECT_THAT(message("seed: 'x"), StartsWith("job.yaml:2: not valid YAML: the ' that opens here is not closed"));
  EXPECT_THAT(message("seed: *x"), StartsWith("job.yaml:2:7: not valid YAML: "));
  EXPECT_THAT(message("seed: [1, 2"), StartsWith("job.yaml:2: not valid YAML: the [ that opens here is not closed"));
  EXPECT_THAT(message("? [a]\n: 1"), HasSubstr("a key must be a word or a number; a list or a mapping begins here"));
  EXPECT_THAT(message("---\nseed: 1"), HasSubstr("a second document starts here"));
}

TEST(JobErrors, HostileTextIsRefusedAndNotFollowed) {
  const auto repeated = [](const std::string& part, size_t times) {
    std::string text;
    for (size_t i = 0; i < times; ++i) text += part;
    return text;
  };
  EXPECT_THAT(message(repeated("#", 1 << 20)), HasSubstr("longer than 1048576 bytes"));
  EXPECT_THAT(message("seed:\n  " + repeated("- ", 400'000)), HasSubstr("more than 32 levels of nesting"));
  EXPECT_THAT(message("seed:\n" + repeated("[\n", 100'000)), HasSubstr("job.yaml:"));
  EXPECT_THAT(message("seed: " + repeated("{a: ", 200'000)), HasSubstr("job.yaml:"));
  EXPECT_THAT(message(repeated("? ", 400'000)), HasSubstr("job.yaml:"));
  // Each list holds the one before twice: 2^20 items if it were ever written out.
  std::string bomb = "seed: &a0 [x]\n";
  for (int i = 1; i <= 20; ++i)
    bomb += "b" + std::to_string(i) + ": &a" + std::to_string(i) + " [*a" + std::to_string(i - 1) + ", *a" +
            std::to_string(i - 1) + "]\n";
  EXPECT_THAT(message(bomb), HasSubstr("unknown key 'b1'"));
  EXPECT_THAT(message("model: &m {hidden_size: *m}"), HasSubstr("model.hidden_size is a mapping"));
  EXPECT_THAT(message("model: &m {model: *m}"), HasSubstr("unknown key 'model.model'"));
  // A chain of aliases far deeper than the stack.
  std::string chain = "a0: &a0 [x]\n";
  for (int i = 1; i < 30'000; ++i)
    chain += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [*a" + std::to_string(i - 1) + "]\n";
  EXPECT_THAT(message(chain), HasSubstr("unknown key 'a0'"));
}

TEST(JobErrors, ReachTheReaderOnOneShortLine) {
  const std::string text = message("\"" + std::string(100'000, 'x') + "\\n\": 1");
  EXPECT_LT(text.size(), 1000u);
  EXPECT_EQ(text.find('\n'), std::string::npos);
}

TEST(JobErrors, OverridesAreNamedAsTheyWereWritten) {
  EXPECT_EQ(message_for_override("optimzer.name=sgd"),
            "command line: optimzer.name=sgd: unknown key 'optimzer.name'; did you mean 'optimizer.name'?");
  EXPECT_EQ(message_for_override("optimizer=sgdx"),
            "command line: optimizer=sgdx: optimizer.name is 'sgdx'; allowed: adamw, adamw_8bit, adamw_4bit, lion, "
            "lion_8bit, lion_4bit, sgd, adafactor, muon; did you mean 'sgd'?");
  EXPECT_THAT(message_for_override("optimizer="), HasSubstr("optimizer is empty; it is a section"));
  EXPECT_THAT(message_for_override("precision=16mixed"),
              StartsWith("command line: precision=16mixed: precision is '16mixed'; allowed: auto, 32-true"));
  EXPECT_THAT(message_for_override("seed="),
              StartsWith("command line: seed=: seed has no value (perhaps a shell variable is not set); allowed: "));
  EXPECT_THAT(message_for_override("seed='1"), StartsWith("command line: seed='1: not valid YAML: "));
  EXPECT_THAT(message_for_override("model.num_heads=7"),
              StartsWith("command line: model.num_heads=7: model.num_heads is 7; it must divide hidden_size 256"));
  EXPECT_THAT(message_for_override("model={norm: a, norm: b}"), HasSubstr("the key 'norm' is given twice"));
  EXPECT_THAT(message_for_override("seed"), HasSubstr("'seed' is not an override; write key.path=value"));
  EXPECT_THAT(message_for_override("=1"), HasSubstr("'=1' is not an override"));
  EXPECT_THAT(message("model:\n  num_heads: 7", {"model.hidden_size=512"}),
              StartsWith("job.yaml:3: model.num_heads is 7; it must divide hidden_size 512"));
}

TEST(JobErrors, FilesThatCannotBeRead) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "plimsoll_job_errors_test";
  std::filesystem::create_directories(folder);
  const auto message_of = [](const std::filesystem::path& file) { return refusal_of([&] { read_job(file); }); };
  EXPECT_THAT(message_of(folder / "none.yaml"), AllOf(HasSubstr("none.yaml"), HasSubstr("No such file")));
  EXPECT_THAT(message_of(folder), HasSubstr("is a folder"));
  std::ofstream(folder / "big.yaml") << std::string((1 << 20) + 1, '\n');
  EXPECT_THAT(message_of(folder / "big.yaml"), HasSubstr("big.yaml: longer than 1048576 bytes"));
  std::ofstream(folder / "bad.yaml") << "sede: 1\n";
  EXPECT_EQ(message_of(folder / "bad.yaml"),
            (folder / "bad.yaml").string() + ":1:1: unknown key 'sede'; did you mean 'seed'?");
  std::filesystem::remove_all(folder);
}

// Keys, values and names come from outside: a message holds nothing that acts on a terminal or turns its line.
TEST(JobErrors, MessagesHoldNoControlCharacters) {
  const std::string hostile = "\x1b[2J\x7f\u009b\u202e\u2066";
  const std::string quoted = R"("\e[2J\x7F\x9b\u202e\u2066")";
  const std::vector<std::string> stated = {message(quoted + ": 1"),
                                           message("optimizer:\n  " + quoted + ": 1"),
                                           message("optimizer:\n  name: " + quoted),
                                           message("max_steps: " + quoted),
                                           message("model: {type: " + quoted + "}"),
                                           message("precision: " + quoted),
                                           message_for_override(hostile + "=1"),
                                           message_for_override("max_steps=" + hostile),
                                           refusal_of([&] { parse_job("x: [", hostile + ".yaml", "", {}); }),
                                           refusal_of([&] { read_job(hostile + ".yaml", {}); })};
  for (const std::string& each : stated) {
    EXPECT_NE(each, "accepted") << "message " << &each - stated.data();
    for (const char* control : {"\x1b", "\x7f", "\u009b", "\u202e", "\u2066", "\n"})
      EXPECT_THAT(each, Not(HasSubstr(control)));
  }
}

}  // namespace
}  // namespace plimsoll
