// Tests valid job files: every key read back, defaults, paths, overrides, batch sizes.
#include "plimsoll/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "plimsoll/bytes.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

using ::testing::ElementsAre;

const std::string kMinimal = "data: {files: corpus.txt}\n";

Job parse(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  return parse_job(kMinimal + yaml, "job.yaml", "", overrides);
}

TEST(Job, MinimalFileHasTheDocumentedDefaults) {
  const Job job = parse("");
  EXPECT_THAT(job.data.files, ElementsAre("corpus.txt"));
  EXPECT_EQ(job.data.cache_dir, ".plimsoll-cache");
  EXPECT_EQ(job.batch_size, 8);
  EXPECT_EQ(job.micro_batch_size, std::nullopt);
  EXPECT_EQ(job.gradient_accumulation_steps, std::nullopt);
  EXPECT_EQ(job.budget.device, std::nullopt);
  EXPECT_EQ(job.gradient_checkpointing, Choice::automatic);
  EXPECT_EQ(job.precision, Precision::fp32_true);
  EXPECT_EQ(job.optimizer.learning_rate, 3e-4);
  EXPECT_TRUE(job.file.empty());
}

TEST(Job, ReadsEveryKey) {
  const Job job = parse_job(R"(
model:
  type: decoder
  vocab_size: 1000
  hidden_size: 128
  num_layers: 3
  num_heads: 8
  num_kv_heads: 2
  head_dim: 32
  intermediate_size: 300
  norm: layernorm
  positions: learned
  activation: gelu
  tie_embeddings: false
  attention_bias: true
  mlp_bias: true
  sliding_window: 64
  dropout: 0.1
  norm_eps: 1e-6
  rope_theta: 500000
data:
  type: text
  files: [a.txt, /b/c.txt]
  tokenizer: gpt2
  tokenizer_file: gpt2.tiktoken
  sequence_length: 99
  validation_fraction: 0.25
  shuffle: false
  num_workers: 3
  prefetch: 7
  cache_dir: cache
optimizer:
  name: sgd
  learning_rate: 0.5
  weight_decay: 0
  betas: [0.8, 0.99]
  eps: 1e-7
  momentum: 0.75
scheduler: {name: linear, warmup_steps: 11, min_lr_ratio: 0.2}
checkpoint: {directory: runs, every_n_steps: 12, resume: runs/last, keep: 5}
log: {metrics_file: metrics.jsonl, every_n_steps: 4}
precision: bf16-mixed
batch_size: 24
micro_batch_size: 6
gradient_accumulation_steps: {0: 4, 4: 2, 8: 1}
gradient_checkpointing: true
memory_budget: 1.5GiB
max_grad_norm: 0
max_steps: 13
max_epochs: 14
eval_every_n_steps: 15
eval_batches: 17
device: rocm
threads: 2
seed: 18446744073709551615
)",
                            "job.yaml", "/jobs");
  const DecoderConfig& model = job.model.decoder;
  EXPECT_EQ(job.model.type, "decoder");
  EXPECT_EQ(model.vocab_size, 1000);
  EXPECT_EQ(model.hidden_size, 128);
  EXPECT_EQ(model.num_layers, 3);
  EXPECT_EQ(model.num_heads, 8);
  EXPECT_EQ(model.num_kv_heads, 2);
  EXPECT_EQ(model.head_dim, 32);
  EXPECT_EQ(model.intermediate_size, 300);
  EXPECT_EQ(model.norm, "layernorm");
  EXPECT_EQ(model.positions, "learned");
  EXPECT_EQ(model.activation, "gelu");
  EXPECT_FALSE(model.tie_embeddings);
  EXPECT_TRUE(model.attention_bias);
  EXPECT_TRUE(model.mlp_bias);
  EXPECT_EQ(model.sliding_window, 64);
  EXPECT_EQ(model.dropout, 0.1);
  EXPECT_EQ(model.norm_eps, 1e-6);
  EXPECT_EQ(model.rope_theta, 500000);
  EXPECT_EQ(job.data.type, "text");
  EXPECT_THAT(job.data.files, ElementsAre("/jobs/a.txt", "/b/c.txt"));
  EXPECT_EQ(job.data.tokenizer, "gpt2");
  EXPECT_EQ(job.data.tokenizer_file, "/jobs/gpt2.tiktoken");
  EXPECT_EQ(job.data.sequence_length, 99);
  EXPECT_EQ(job.data.validation_fraction, 0.25);
  EXPECT_FALSE(job.data.shuffle);
  EXPECT_EQ(job.data.num_workers, 3);
  EXPECT_EQ(job.data.prefetch, 7);
  EXPECT_EQ(job.data.cache_dir, "/jobs/cache");
  EXPECT_EQ(job.optimizer.name, "sgd");
  EXPECT_EQ(job.optimizer.learning_rate, 0.5);
  EXPECT_EQ(job.optimizer.weight_decay, 0);
  EXPECT_EQ(job.optimizer.beta1, 0.8);
  EXPECT_EQ(job.optimizer.beta2, 0.99);
  EXPECT_EQ(job.optimizer.eps, 1e-7);
  EXPECT_EQ(job.optimizer.momentum, 0.75);
  EXPECT_EQ(job.scheduler.name, "linear");
  EXPECT_EQ(job.scheduler.warmup_steps, 11);
  EXPECT_EQ(job.scheduler.min_lr_ratio, 0.2);
  EXPECT_EQ(job.checkpoint.directory, "/jobs/runs");
  EXPECT_EQ(job.checkpoint.every_n_steps, 12);
  EXPECT_EQ(job.checkpoint.resume, "/jobs/runs/last");
  EXPECT_EQ(job.checkpoint.keep, 5);
  EXPECT_EQ(job.log.metrics_file, "/jobs/metrics.jsonl");
  EXPECT_EQ(job.log.every_n_steps, 4);
  EXPECT_EQ(job.precision, Precision::bf16_mixed);
  EXPECT_EQ(job.batch_size, 24);
  EXPECT_EQ(job.micro_batch_size, 6);
  EXPECT_EQ(job.gradient_accumulation_steps, (AccumulationSchedule{{0, 4}, {4, 2}, {8, 1}}));
  EXPECT_EQ(job.gradient_checkpointing, Choice::on);
  EXPECT_EQ(job.budget.device, 3 * GiB / 2);
  EXPECT_EQ(job.max_grad_norm, 0);
  EXPECT_EQ(job.max_steps, 13);
  EXPECT_EQ(job.max_epochs, 14);
  EXPECT_EQ(job.eval_every_n_steps, 15);
  EXPECT_EQ(job.eval_batches, 17);
  EXPECT_EQ(job.device, "rocm");
  EXPECT_EQ(job.threads, 2);
  EXPECT_EQ(job.seed, 18446744073709551615u);
}

TEST(Job, ReadsEveryPrecisionByItsName) {
  for (Precision each : {Precision::fp32_true, Precision::fp16_mixed, Precision::bf16_mixed, Precision::bf16_true})
    EXPECT_EQ(parse("precision: " + std::string(name_of(each))).precision, each);
  EXPECT_EQ(parse("precision: auto").precision, Precision::automatic);
  EXPECT_THROW(name_of(static_cast<Precision>(99)), InternalError);
}

TEST(Job, ReadsTheOptimizersChoices) {
  for (int i = 0; i <= static_cast<int>(StateDtype::automatic); ++i) {
    const auto each = static_cast<StateDtype>(i);
    EXPECT_EQ(parse("optimizer.state_dtype: " + std::string(name_of(each))).optimizer.state_dtype, each);
  }
  for (int i = 0; i <= static_cast<int>(WeightUpdate::automatic); ++i) {
    const auto each = static_cast<WeightUpdate>(i);
    EXPECT_EQ(parse("optimizer.weight_update: " + std::string(name_of(each))).optimizer.weight_update, each);
  }
  EXPECT_EQ(parse("").optimizer.state_dtype, StateDtype::as_parameters);
  EXPECT_EQ(parse("").optimizer.weight_update, WeightUpdate::stochastic);
  EXPECT_THROW(name_of(static_cast<StateDtype>(99)), InternalError);
  EXPECT_THROW(name_of(static_cast<WeightUpdate>(99)), InternalError);
  EXPECT_THAT(parse("optimizer.adamw_parameters: ['*.wte', head]").optimizer.adamw_parameters,
              ElementsAre("*.wte", "head"));
  EXPECT_THAT(parse("optimizer.adamw_parameters: []").optimizer.adamw_parameters, ElementsAre());
}

TEST(Job, AnOptimizersNameMayEndInItsBits) {
  for (const auto& [name, plain, dtype] : {std::tuple{"adamw_8bit", "adamw", StateDtype::bits8},
                                           {"adamw_4bit", "adamw", StateDtype::bits4},
                                           {"lion_8bit", "lion", StateDtype::bits8},
                                           {"lion_4bit", "lion", StateDtype::bits4},
                                           {"muon", "muon", StateDtype::as_parameters},
                                           {"adafactor", "adafactor", StateDtype::as_parameters}}) {
    const Job job = parse("optimizer.name: " + std::string(name));
    EXPECT_EQ(job.optimizer.name, plain);
    EXPECT_EQ(job.optimizer.state_dtype, dtype);
  }
}

TEST(Job, AutoLeavesAChoiceToThePlanner) {
  const Job job = parse(
      "model.vocab_size: auto\nmicro_batch_size: auto\ngradient_accumulation_steps: auto\n"
      "gradient_checkpointing: auto\nmemory_budget: auto\nmax_epochs: none\n");
  EXPECT_EQ(job.model.decoder.vocab_size, 0);
  EXPECT_EQ(job.micro_batch_size, std::nullopt);
  EXPECT_EQ(job.gradient_accumulation_steps, std::nullopt);
  EXPECT_EQ(job.gradient_checkpointing, Choice::automatic);
  EXPECT_EQ(job.budget.device, std::nullopt);
  EXPECT_EQ(job.max_epochs, std::nullopt);
}

TEST(Job, DottedNestedQuotedAndAliasedMeanTheSame) {
  EXPECT_EQ(parse("optimizer.name: sgd").optimizer.name, "sgd");
  EXPECT_EQ(parse("optimizer: {name: 'sgd'}").optimizer.name, "sgd");
  EXPECT_EQ(parse("optimizer:\n  name: &n \"sgd\"\n  # eps: 1\nlog:\nscheduler:\n  # nothing yet\n").optimizer.name,
            "sgd");
  const Job job = parse("eval_batches: &n 7\nmax_steps: *n\ngradient_checkpointing: False");
  EXPECT_EQ(job.max_steps, 7);
  EXPECT_EQ(job.gradient_checkpointing, Choice::off);
}

// Other programs write AdamW and CPU, and a section's name for its main key.
TEST(Job, ValuesAreTakenInAnyCaseAndASectionsWordIsItsMainKey) {
  const Job job = parse_job(
      "model: Decoder\ndata: corpus.txt\noptimizer: AdamW\nscheduler: {name: Cosine}\ndevice: CPU\n"
      "checkpoint: ./runs/a\n",
      "job.yaml", "", {"optimizer=SGD"});
  EXPECT_EQ(job.optimizer.name, "sgd");
  EXPECT_EQ(job.scheduler.name, "cosine");
  EXPECT_EQ(job.device, "cpu");
  EXPECT_EQ(job.data.files, std::vector<std::filesystem::path>{"corpus.txt"});
  EXPECT_EQ(job.checkpoint.directory.lexically_normal(), "runs/a");
  EXPECT_THAT(job.notes, ::testing::Contains("command line: optimizer=SGD: optimizer is optimizer.name here"));
}

TEST(JobOverrides, ReplaceAndAdd) {
  const Job job =
      parse("seed: 1\noptimizer: {name: adamw, eps: 1e-7}",
            {"seed=2", "seed=3", "optimizer.name=sgd", "data.files=[x.txt, y.txt]", "scheduler={name: linear}",
             "gradient_accumulation_steps={0: 4, 4: 2}", "memory_budget=512 MiB", "checkpoint.directory=a=b"});
  EXPECT_EQ(job.seed, 3u);
  EXPECT_EQ(job.optimizer.name, "sgd");
  EXPECT_EQ(job.optimizer.eps, 1e-7);
  EXPECT_THAT(job.data.files, ElementsAre("x.txt", "y.txt"));
  EXPECT_EQ(job.scheduler.name, "linear");
  EXPECT_EQ(job.gradient_accumulation_steps, (AccumulationSchedule{{0, 4}, {4, 2}}));
  EXPECT_EQ(job.budget.device, 512 * MiB);
  EXPECT_EQ(job.checkpoint.directory, "a=b");
}

TEST(JobOverrides, MendAWrongValueOfTheFile) {
  EXPECT_EQ(parse("precision: fp16", {"precision=16-mixed"}).precision, Precision::fp16_mixed);
  EXPECT_TRUE(parse("log: {metrics_file: m}", {"log.metrics_file=\"\""}).log.metrics_file.empty());
}

struct Batches {
  const char* given;
  int64_t batch;
  std::optional<int64_t> micro;
  std::optional<AccumulationSchedule> steps;
};

TEST(JobBatchSizes, FillInWhatFollows) {
  const auto once = [](int64_t steps) { return AccumulationSchedule{{0, steps}}; };
  const AccumulationSchedule schedule = {{0, 4}, {4, 2}, {8, 1}};
  const std::vector<Batches> cases = {
      {"", 8, {}, {}},
      {"batch_size: 12", 12, {}, {}},
      {"micro_batch_size: 3", 3, 3, once(1)},
      {"gradient_accumulation_steps: 2", 16, 8, once(2)},
      {"batch_size: 12\nmicro_batch_size: 3", 12, 3, once(4)},
      {"batch_size: 12\ngradient_accumulation_steps: 6", 72, 12, once(6)},
      {"batch_size: 1\ngradient_accumulation_steps: 32", 32, 1, once(32)},
      {"batch_size: 12\ngradient_accumulation_steps: 1", 12, 12, once(1)},
      {"batch_size: 12\nmicro_batch_size: auto\ngradient_accumulation_steps: 6", 12, 2, once(6)},
      {"train_batch_size: 12\ngradient_accumulation_steps: 6", 12, 2, once(6)},
      {"micro_batch_size: 5\ngradient_accumulation_steps: 3", 15, 5, once(3)},
      {"batch_size: 15\nmicro_batch_size: 5\ngradient_accumulation_steps: 3", 15, 5, once(3)},
      {"batch_size: 10\nmicro_batch_size: 4", 10, 4, once(3)},
      {"batch_size: 10\nmicro_batch_size: 4\ngradient_accumulation_steps: 3", 10, 4, once(3)},
      {"batch_size: 10\nmicro_batch_size: auto\ngradient_accumulation_steps: 4", 10, 3, once(4)},
      {"gradient_accumulation_steps: 3", 24, 8, once(3)},
      {"micro_batch_size: auto\ngradient_accumulation_steps: 3", 8, 3, once(3)},
      {"batch_size: 1048575\nmicro_batch_size: 2", 1048575, 2, once(524288)},
      {"gradient_accumulation_steps: {0: 4, 4: 2, 8: 1}", 32, 8, schedule},
      {"micro_batch_size: 5\ngradient_accumulation_steps: {0: 4, 4: 2, 8: 1}", 20, 5, schedule},
      {"batch_size: 32\ngradient_accumulation_steps: {8: 1, 4: 2, 0: 4}", 128, 32, schedule},
      {"batch_size: 32\nmicro_batch_size: 8\ngradient_accumulation_steps: {8: 1, 4: 2, 0: 4}", 32, 8, schedule},
      {"batch_size: 4\ngradient_accumulation_steps: {0: 1, 2: 8}", 4, 4, AccumulationSchedule{{0, 1}, {2, 8}}},
  };
  for (const Batches& each : cases) {
    const Job job = parse(each.given);
    EXPECT_EQ(job.batch_size, each.batch) << each.given;
    EXPECT_EQ(job.micro_batch_size, each.micro) << each.given;
    EXPECT_EQ(job.gradient_accumulation_steps, each.steps) << each.given;
  }
}

TEST(JobBatchSizes, TheLastMicroBatchHasWhatIsLeft) {
  const auto last = [](const char* text) { return last_micro_batch_of(parse(text)); };
  EXPECT_EQ(last("batch_size: 10\nmicro_batch_size: 4"), 2);
  EXPECT_EQ(last("batch_size: 10\nmicro_batch_size: auto\ngradient_accumulation_steps: 4"), 1);
  EXPECT_EQ(last("batch_size: 10\ngradient_accumulation_steps: 4"), 0);  // 10 x 4
  EXPECT_EQ(last("batch_size: 12\nmicro_batch_size: 4"), 0);             // alike
  EXPECT_EQ(last("batch_size: 4\nmicro_batch_size: 4"), 0);
  EXPECT_EQ(last("batch_size: 37"), 0);  // open
  EXPECT_EQ(last("batch_size: 20\ngradient_accumulation_steps: {0: 4, 2: 3}"), 0);
}

TEST(JobFile, IsReadFromDiskWithPathsBesideIt) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "plimsoll_job_test";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "job.yaml") << kMinimal;
  const Job job = read_job(folder / "job.yaml", {"seed=5"});
  EXPECT_EQ(job.file, folder / "job.yaml");
  EXPECT_THAT(job.data.files, ElementsAre(folder / "corpus.txt"));
  EXPECT_EQ(job.data.cache_dir, folder / ".plimsoll-cache");
  EXPECT_EQ(job.seed, 5u);
  std::filesystem::remove_all(folder);
}

TEST(JobNotes, KeysOfAnotherOptimizerAreNamed) {
  EXPECT_THAT(parse("optimizer: {name: sgd, betas: [0.9, 0.99]}").notes,
              ::testing::Contains(HasSubstr("optimizer.betas has no effect with optimizer.name sgd; remove it")));
  EXPECT_THAT(parse("optimizer: {name: adamw, momentum: 0.5}").notes,
              ::testing::Contains(HasSubstr("optimizer.momentum has no effect")));
  for (const char* used : {"optimizer: {name: lion, betas: [0.9, 0.99]}", "optimizer: {name: muon, momentum: 0.9}"})
    EXPECT_THAT(parse(used).notes, ::testing::Not(::testing::Contains(HasSubstr("has no effect")))) << used;
}

}  // namespace
}  // namespace plimsoll
