// Tests that the advice in messages of the job file works: each piece is followed as it is written, and the same error
// must not come again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "advice.h"
#include "plimsoll/error.h"
#include "plimsoll/job.h"
#include "test_files.h"

namespace plimsoll {
namespace {

using advice_testing::Advice;
using advice_testing::AdviceReader;
using advice_testing::Input;
using advice_testing::kind_of;

/// A wrong job: lines behind those of a valid one, and words of the command line.
struct Row {
  std::string file;
  std::vector<std::string> words;
  std::string not_followed = {};  ///< the reason why no command can follow the advice
  std::string base = "data.files: corpus.txt\ndata.sequence_length: 16\n";
};

const advice_testing::Samples kSamples = {
    {"VALUE", "3"},
    {"N", "3"},
    {"BYTES", "1GiB"},
    {"PATTERN", "'*.mlp'"},
    {"FOLDER", "pictures"},
    {"FILE", "list.csv"},
    {"batch_size", "16"},
    {"micro_batch_size", "4"},
    {"max_epochs", "2"},
    {"host_memory_budget", "1GiB"},
    {"data.label_names", "names.txt"},
    {"data.tokenizer_file", "tokens.json"},
    {"data.test_fraction", "0.15"},
    {"data.test_files", "test.ts"},
    {"data.hilbert_bits", "2"},
    {"data.hilbert_axes", "[0, time]"},
};

class JobAdvice : public ::testing::Test {
 protected:
  /// Returns the first message about a job: its error, else a note with advice; "" if there is none.
  std::string message_of(const Input& input) const {
    try {
      const Job job = parse_job(input.file, "job.yaml", folder_.path(), input.words);
      return job.notes.empty() ? "" : job.notes.front();
    } catch (const UserError& error) {
      return error.what();
    }
  }

  /// Follows each piece of advice of each row's message. Prints the numbers of messages and of pieces.
  void expect_all_work(const std::vector<Row>& rows) const {
    size_t pieces = 0;
    for (const Row& row : rows) {
      const Input input{row.base + row.file, row.words};
      SCOPED_TRACE(input.text());
      const std::string message = message_of(input);
      EXPECT_NE(message, "") << "no message";
      if (!row.not_followed.empty()) continue;
      const AdviceReader advice(message, input, kSamples);
      EXPECT_THAT(advice.not_understood(), ::testing::IsEmpty()) << message;
      EXPECT_FALSE(advice.all().empty()) << "no advice in: " << message;
      for (const Advice& each : advice.all()) {
        ++pieces;
        EXPECT_FALSE(each.followed == input) << message << "\nadvice that changes nothing: " << each.text;
        const std::string next = message_of(each.followed);
        EXPECT_NE(kind_of(next, each.followed), kind_of(message, input))
            << message << "\nfollowed: " << each.text << "\nas " << each.followed.text() << "\n"
            << next;
      }
    }
    RecordProperty("messages", static_cast<int>(rows.size()));
    RecordProperty("followed", static_cast<int>(pieces));
    std::cout << rows.size() << " messages, " << pieces << " pieces of advice followed\n";
  }

  const TempFolder folder_;
};

TEST_F(JobAdvice, NamesOfKeys) {
  expect_all_work({
      {"", {"lerning_rate=1e-3"}},
      {"bacth_size: 3\n", {}},
      {"optimzer.name: sgd\n", {}},
      {"modle: decoder\n", {}},
      {"", {"sequence_lenght=16"}},
      {"", {"hidden_size=16"}},
      {"", {"lora.r=8"}},
      {"", {"lora.target_modules=layers"}},
      {"", {"model.num_hidden_layers=2"}},
      {"", {"mixed_precision=bf16"}},
      {"", {"model.bottleneck=2"}},
      {"", {"model.zzzz=2"}},
      {"", {"zzzz=2"}},
      {"", {"model=3"}},
      {"", {"log=true"}},
      {"", {"lora=true"}},
      {"lora: true\n", {}},
      {"quantize: nf4\n", {}},
      {"", {"checkpoint=true"}},
      {"", {"steps"}},
  });
}

TEST_F(JobAdvice, Words) {
  expect_all_work({
      {"", {"model=gpt"}},
      {"", {"optimizer=adam"}},
      {"optimizer: AdamX\n", {}},
      {"", {"optimizer.name=adamm"}},
      {"", {"precision=bf16-mixd"}},
      {"precision: 16mixed\n", {}},
      {"", {"scheduler.name=linear_warmup"}},
      {"", {"device=cuda:0"}},
      {"", {"device=tpu"}},
      {"", {"model.type=llama"}},
      {"", {"data.type=csv"}},
      {"", {"quantize.format=fp4"}},
      {"", {"model.dtype=bf16"}},
      {"", {"model.activation=silu"}},
      {"", {"optimizer.state_dtype=int8"}},
      {"", {"optimizer.weight_update=exact"}},
      {"", {"gradient_accumulation_dtype=int8"}},
      {"", {"strategy=zero4"}},
      {"", {"data.shuffle=1"}},
      {"", {"data.shuffle=maybe"}},
      {"", {"gradient_checkpointing=0"}},
      {"", {"compile=2"}},
      {"", {"checkpoint.resume=true"}},
      {"", {"checkpoint.resume=none"}},
      {"", {"data.tokenizer=tiktokn"}},
      {"", {"data.tokenizer=meta-llama/Llama-3.2-1B"}},
  });
}

TEST_F(JobAdvice, Numbers) {
  expect_all_work({
      {"", {"max_steps=1e3"}},
      {"max_steps: 10k\n", {}},
      {"", {"max_steps=1,000"}},
      {"", {"max_steps=0"}},
      {"", {"seed=x"}},
      {"", {"seed="}},
      {"", {"batch_size=0"}},
      {"", {"eval_batches=some"}},
      {"", {"model.dropout=10%"}},
      {"model.dropout: 2\n", {}},
      {"", {"optimizer.learning_rate=0,001"}},
      {"", {"optimizer.learning_rate=-1"}},
      {"", {"optimizer.betas=0.9"}},
      {"", {"data.validation_fraction=0.9"}},
      {"", {"scheduler.warmup_ratio=5"}},
      {"", {"memory_budget=8G"}},
      {"", {"memory_budget=8gigabytes"}},
      {"memory_budget: 1.5\n", {}},
      {"", {"memory_budget=-4GiB"}},
      {"", {"memory_budget=0"}},
      {"", {"memory_budget=lots"}},
      {"memory_budget: [8GiB]\n", {}},
      {"", {"host_memory_budget=[8GiB]"}},
      {"", {"disk_path="}},
      {"", {"memory_budget=256"}},
      {"", {"gradient_accumulation_steps={0:4}"}},
      {"", {"gradient_accumulation_steps={1: 4}"}},
      {"", {"limit_val_batches=0.5"}},
      {"", {"memory_budget=50%"}, "no amount is known"},
  });
}

TEST_F(JobAdvice, Syntax) {
  expect_all_work({
      {"max_steps 4\nseed: 1\n", {}},
      {"max_steps = 4\nseed: 1\n", {}},
      {"max_steps:4\nseed: 1\n", {}},
      {"optimizer: {learning_rate:1}\n", {}},
      {"optimizer: {learning_rate: 0,001}\n", {}},
      {"model:\n\thidden_size: 32\n", {}},
      {"log.metrics_file: \"C:\\data\\a.txt\"\n", {}},
      {"freeze: [*.qkv]\n", {}},
      {"freeze: [head, layers.[0-9].mlp]\n", {}},
      {"", {"freeze=[head, layers.[0-9].mlp]"}},
      {"max_steps = 4\n", {}, "", ""},
      {"- seed: 4\n", {}, "", ""},
      {"optimizer.adamw_parameters: ''\n", {}},
      {"", {"data.files=corpus.txt", "seed"}},
  });
}

TEST_F(JobAdvice, KeysThatContradict) {
  expect_all_work({
      {"max_steps: none\n", {}},
      {"scheduler.warmup_steps: 4\nscheduler.warmup_ratio: 0.1\n", {}},
      {"model.dtype: float16\n", {}},
      {"", {"model.dtype=float16"}},
      {"", {"model.dtype=float32", "precision=bf16-true"}},
      {"", {"model.dtype=float32", "precision=auto"}},
      {"optimizer.name: adamw_8bit\noptimizer.state_dtype: 4bit\n", {}},
      {"optimizer.name: adamw_8bit\n", {"optimizer.state_dtype=4bit"}},
      {"lora.rank: 8\n", {}},
      {"", {"lora.rank=8"}},
      {"", {"quantize.format=int8"}},
      {"data.tokenizer: bytes\ndata.tokenizer_file: tokens.json\n", {}},
      {"data.tokenizer: gpt2\n", {}, "no file of a tokenizer is here"},
      {"checkpoint.every_n_steps: 3\n", {}, "the message asks for a folder's name"},
      {"bf16: true\nfp16: true\n", {}},
      {"", {"bf16=true", "fp16=true"}},
      {"precision: 32-true\nbf16: true\n", {}},
      {"precision: auto\nbf16: true\n", {}},
      {"precision: auto\n", {"bf16=false"}},
      {"use_amp: true\nbf16: false\nfp16: false\n", {}},
      {"use_cpu: false\ndevice: cpu\n", {}},
      {"use_cpu: false\n", {}},
      {"model.weights: a.safetensors\nmodel.type: video_llm\nmodel.llm.weights: b.safetensors\n", {}, "", ""},
  });
}

TEST_F(JobAdvice, BatchSizes) {
  expect_all_work({
      {"gradient_accumulation_steps: 3\nmicro_batch_size: 4\nbatch_size: 16\n", {}},
      {"train_batch_size: 9\ngradient_accumulation_steps: 4\n", {}},
      {"train_batch_size: 10\ngradient_accumulation_steps: {0: 4, 4: 2}\n", {}},
      {"batch_size: 4\nmicro_batch_size: 8\n", {}, "the message gives a bound"},
      {"batch_size: 16\ngradient_accumulation_steps: 2\n", {}},
      {"batch_size: 10\nmicro_batch_size: 1\ndevices: 4\n", {}},
      {"batch_size: 8\ndevices: 4\n", {}, "a note for every batch size"},
      {"batch_size: 6\nmicro_batch_size: 2\n", {"devices=2"}},
      {"batch_size: 9\ngradient_accumulation_steps: 2\n", {"micro_batch_size=2"}},
      {"optimizer.reference_batch_size: 32\n", {}},
      {"batch_size: 1048576\ngradient_accumulation_steps: 4\n", {}},
      {"batch_size: 1048576\ndevices: 2\n", {}},
      {"batch_size: 1048576\ndata.sequence_length: 1048576\nmodel.num_layers: 4096\n", {}, "names no number", ""},
  });
}

TEST_F(JobAdvice, KeysOfOtherPrograms) {
  expect_all_work({
      {"load_in_4bit: true\n", {}},
      {"", {"load_in_8bit=true"}},
      {"enable_activation_offloading: true\n", {}},
      {"", {"strategy=hybrid_shard"}},
      {"strategy: megatron\n", {}},
      {"strategy: deepspeed_stage_2_offload\n", {}},
      {"tensor_parallel_size: 2\n", {}},
      {"fsdp: full_shard offload\n", {}},
      {"zero_stage: 7\n", {}},
      {"deepspeed: ds.json\n", {}},
      {"devices: 0\n", {}},
      {"", {"num_gpus=0"}},
      {"distributed_type: TPU\n", {}, "a command of the program, which is not run here"},
      {"num_nodes: 2\n", {}, "a launcher's command"},
  });
}

TEST_F(JobAdvice, ShapesOfModels) {
  expect_all_work({
      {"model.hidden_size: 64\nmodel.num_heads: 7\n", {}},
      {"", {"model.num_heads=7"}},
      {"model.num_heads: 4\nmodel.num_kv_heads: 3\n", {}},
      {"model.head_dim: 33\n", {}},
      {"model.hidden_size: 36\nmodel.num_heads: 12\n", {}},
      {"model.type: prompt_segmentation\nmodel.encoder.weights: a.safetensors\ndata.type: synthetic\n", {}, "", ""},
      {"model.type: video_llm\nmodel.dtype: float32\nmodel.llm.dtype: bfloat16\ndata.type: synthetic\n", {}, "", ""},
      {"model.type: video_llm\nmodel.llm.dtype: float16\ndata.type: synthetic\n", {}, "", ""},
      {"model.type: video_llm\nmodel.llm.dtype: float32\nprecision: bf16-true\ndata.type: synthetic\n", {}, "", ""},
      {"model.type: video_llm\nmodel.llm.dtype: float32\nprecision: auto\ndata.type: synthetic\n", {}, "", ""},
      {"model.type: video_llm\nmodel.llm.use_gradient_checkpointing: true\ngradient_checkpointing: false\n"
       "data.type: synthetic\n",
       {},
       "",
       ""},
      {"model.type: gesture_ssm\nmodel.use_checkpoint: true\ngradient_checkpointing: false\ndata.type: synthetic\n",
       {},
       "",
       ""},
      {"model.type: decoder\ndata.type: series\ndata.files: a.ts\n", {}, "", ""},
      {"data.samples: 4\n", {}, "the message names the type that has the key"},
  });
}

TEST_F(JobAdvice, DataThatIsNotNamed) {
  const std::string gesture = "model.type: gesture_ssm\ndata.type: series\n";
  expect_all_work({
      {"model.type: decoder\n", {}, "", ""},
      {"", {"data.type=text"}, "", "model.type: decoder\n"},
      {gesture, {}, "", ""},
      {gesture + "data.files: a.ts\ndata.evaluate_on: test\n", {}, "", ""},
      {gesture + "data.files: a.ts\ndata.test_files: b.ts\ndata.test_fraction: 0.1\n", {}, "", ""},
      {gesture + "data.files: a.ts\ndata.order: hilbert\ndata.hilbert_bits: 32\n", {}, "", ""},
      {"model.type: video_llm\ndata.type: clips\n", {}, "", ""},
      {"model.type: video_llm\ndata.type: clips\ndata.files: a.mp4\ndata.list: a.csv\n", {}, "", ""},
      {"model.type: prompt_segmentation\ndata.type: slices\n", {}, "", ""},
      {"model.type: prompt_segmentation\ndata.type: slices\ndata.files: a.nii.gz\ndata.labels: b.nii.gz\n", {}, "", ""},
      {"model.type: prompt_segmentation\ndata.type: pictures\nmodel.channels: 3\n", {}, "", ""},
      {"model.type: prompt_segmentation\ndata.type: pictures\nmodel.channels: 3\ndata.images: a\n", {}, "", ""},
      {"model.type: prompt_segmentation\ndata.type: pictures\nmodel.channels: 3\ndata.images: a\ndata.masks: b\n"
       "data.list: c.csv\n",
       {},
       "",
       ""},
      {"model.type: fmri_autoencoder\ndata.type: stimuli\n", {}, "", ""},
      {"model.type: fmri_autoencoder\ndata.type: stimuli\ndata.fmri: a.nii.gz\ndata.pictures: a\ndata.videos: b\n",
       {},
       "",
       ""},
      {"data.list: a.csv\n", {}, "", ""},
      {"model.type: prompt_segmentation\ndata.type: slices\ndata.files: a.nii.gz\ndata.labels: b.nii.gz\n"
       "data.label_names: c.txt\ndata.structures: []\n",
       {},
       "",
       ""},
  });
}

// New wording fails a row until a pattern reads it.
TEST_F(JobAdvice, WordingThatNoPatternReadsIsNoticed) {
  EXPECT_THAT(AdviceReader("seed is 'x'; choose a seed that you like", {"", {"seed=x"}}, kSamples).not_understood(),
              ::testing::ElementsAre("choose a seed that you like"));
  EXPECT_THAT(AdviceReader("seed is 'x'; set seed: 3", {"", {"seed=x"}}, kSamples).not_understood(),
              ::testing::IsEmpty());
}

// The two commands whose advice was once refused as well.
TEST_F(JobAdvice, ANameInPlaceOfASection) {
  for (const char* word : {"optimizer=AdamW", "optimizer.name=AdamW", "optimizer=SGD"})
    EXPECT_EQ(message_of({"data.files: corpus.txt\n", {word}}).find(" allowed: "), std::string::npos) << word;
}

}  // namespace
}  // namespace plimsoll
