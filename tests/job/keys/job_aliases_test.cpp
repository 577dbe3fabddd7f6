// Tests names of keys in other programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "job/job_testing.h"
#include "job/keys/aliases.h"
#include "job/keys/keys.h"
#include "plimsoll/error.h"
#include "plimsoll/job.h"

namespace plimsoll {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(JobAliases, StandForKeysThatThereAre) {
  std::set<std::string> names;
  for (const job::Alias& alias : job::aliases()) {
    EXPECT_TRUE(names.insert(alias.name).second) << alias.name;
    EXPECT_EQ(job::find_key(alias.name), nullptr) << alias.name << " is a key of ours";
    if (alias.name.starts_with("training.")) {  // the reader takes these before it looks for an alias
      EXPECT_EQ(job::find_key(alias.name.substr(std::string("training.").size())), nullptr) << alias.name;
    }
    if (alias.key.empty())
      EXPECT_TRUE(!alias.advice.empty() || alias.convert != nullptr) << alias.name;
    else
      EXPECT_NE(job::find_key(alias.key), nullptr) << alias.key;
  }
}

TEST(JobAliases, OfLightningAreAnsweredWithOurs) {
  const Job job =
      parsed("micro_batch_size: 1\naccumulate_grad_batches: {0: 4, 4: 2, 8: 1}\ntrainer: {gradient_clip_val: 0.5}\n");
  EXPECT_EQ(job.gradient_accumulation_steps, (AccumulationSchedule{{0, 4}, {4, 2}, {8, 1}}));
  EXPECT_EQ(job.max_grad_norm, 0.5);
  EXPECT_THAT(job.notes,
              ElementsAre("job.yaml:3: accumulate_grad_batches (Lightning's name) is gradient_accumulation_steps here",
                          "job.yaml:4: trainer.gradient_clip_val (Lightning's name) is max_grad_norm: 0.5 here"));
}

TEST(JobAliases, WordsForAPrecisionAreTakenInBothPlaces) {
  const Job file = parsed("precision: bf16\n");
  EXPECT_EQ(file.precision, Precision::bf16_mixed);
  EXPECT_THAT(file.notes, ElementsAre("job.yaml:2: precision: bf16 is precision: bf16-mixed here"));
  const Job overridden = parsed("", {"precision=fp16"});
  EXPECT_EQ(overridden.precision, Precision::fp16_mixed);
  EXPECT_THAT(overridden.notes,
              ElementsAre("command line: precision=fp16: precision: fp16 is precision: 16-mixed here"));
  EXPECT_EQ(parsed("training: {precision: bf16}\n").precision, Precision::bf16_mixed);
  EXPECT_EQ(parsed("precision: float32\n").precision, Precision::fp32_true);
  EXPECT_THAT(parsed("precision: bf16-mixed\n").notes, IsEmpty());
  EXPECT_THAT(refusal("precision: bf17"), HasSubstr("allowed: auto, 32-true"));
}

TEST(JobAliases, OfDeepSpeedMayBeNested) {
  const Job job = parsed(
      "train_batch_size: 32\ntrain_micro_batch_size_per_gpu: 4\nbf16: {enabled: true}\nfp16:\n  enabled: false\n");
  EXPECT_EQ(job.batch_size, 32);
  EXPECT_EQ(job.micro_batch_size, 4);
  EXPECT_EQ(job.precision, Precision::bf16_mixed);
}

TEST(JobAliases, OfHuggingFaceAreConverted) {
  const Job job = parsed("", {"optim=adamw_bnb_8bit", "fp16=true", "learning_rate=1e-4", "lr_scheduler_type=cosine"});
  EXPECT_EQ(job.optimizer.name, "adamw");
  EXPECT_EQ(job.optimizer.state_dtype, StateDtype::bits8);
  EXPECT_EQ(job.precision, Precision::fp16_mixed);
  EXPECT_EQ(job.optimizer.learning_rate, 1e-4);
  EXPECT_EQ(parsed("optim: paged_adamw_32bit").optimizer.state_dtype, StateDtype::as_parameters);
  EXPECT_EQ(parsed("fp16: false").precision, Precision::fp32_true);
}

TEST(JobAliases, OfATrainingSection) {
  const Job job = parsed("training: {batch_size: 4, gradient_accumulation_steps: 8, use_mixed_precision: true}");
  EXPECT_EQ(job.micro_batch_size, 4);
  EXPECT_EQ(job.batch_size, 32);
  EXPECT_EQ(job.precision, Precision::bf16_mixed);
}

TEST(JobAliases, ThatHaveNoKeySayWhatToDo) {
  EXPECT_THAT(refusal("zero_optimization: {offload_param: {device: cpu}}"), HasSubstr("host_memory_budget"));
  EXPECT_THAT(refusal("load_in_4bit: true"), HasSubstr("quantize.format: nf4"));
}

TEST(JobAliases, OfATrainingSectionAreAllThatStandAtTheTop) {
  const Job job = parsed(
      "training: {micro_batch_size: 2, gradient_accumulation: {scheduling: {0: 4, 4: 2}}, precision: 16-mixed, "
      "max_steps: 7, "
      "gradient_clip_val: 0.5}");
  EXPECT_EQ(job.gradient_accumulation_steps, (AccumulationSchedule{{0, 4}, {4, 2}}));
  EXPECT_EQ(job.precision, Precision::fp16_mixed);
  EXPECT_EQ(job.max_steps, 7);
  EXPECT_EQ(job.max_grad_norm, 0.5);
  EXPECT_EQ(parsed("gradient_accumulation.scheduling: {0: 3}\nmicro_batch_size: 2").batch_size, 6);
  EXPECT_THAT(refusal("max_steps: 3\ntraining.max_steps: 3"), HasSubstr("twice"));
}

TEST(JobAliases, SectionsMayStandInOtherCases) {
  const Job job =
      parsed("TRAINING: {max_steps: 9}\nMODEL: {hidden_size: 64}\nData:\n  sequence_length: 16\nOPTIMIZER.lr: 0.5",
             {"MODEL.num_layers=3"});
  EXPECT_EQ(job.max_steps, 9);
  EXPECT_EQ(job.model.decoder.hidden_size, 64);
  EXPECT_EQ(job.model.decoder.num_layers, 3);
  EXPECT_EQ(job.data.sequence_length, 16);
  EXPECT_EQ(job.optimizer.learning_rate, 0.5);
  EXPECT_THAT(refusal("MODEL: {hidden_size: 64}\nmodel: {hidden_size: 64}"), HasSubstr("given twice"));
  EXPECT_THAT(refusal("SEED: 1"), HasSubstr("unknown key 'SEED'")) << "keys are as they are written here";
  EXPECT_THAT(refusal("MODEL: {HIDDEN_SIZE: 64}"), HasSubstr("unknown key"));
}

TEST(JobAliases, OfWhatIsSoInAnyCaseAreAnswered) {
  for (const char* yes : {"pin_memory: True", "persistent_workers: yes", "data: {pin_memory: true}",
                          "training: {persistent_workers: on}", "dataloader_pin_memory: true"})
    EXPECT_THAT(parsed(yes).notes, ElementsAre(HasSubstr("is always so here"))) << yes;
  EXPECT_THAT(parsed("pin_memory: False").notes, ElementsAre(HasSubstr("cannot be")));
  EXPECT_THAT(refusal("pin_memory: maybe"), HasSubstr("pin_memory is 'maybe'"));
}

TEST(JobAliases, MixedPrecisionIsFloat16WhereTheWeightsAre) {
  const std::string llm = "model: {type: video_llm, llm: {dtype: float16}}\ndata.type: synthetic\n";
  const auto job = [](const std::string& yaml, const std::vector<std::string>& overrides = {}) {
    return parse_job(yaml, "job.yaml", "", overrides);
  };
  const Job mixed = job(llm + "training: {use_mixed_precision: true}");
  EXPECT_EQ(mixed.precision, Precision::fp16_mixed);
  EXPECT_THAT(mixed.notes, ElementsAre(HasSubstr("is precision: 16-mixed here, as the weights are float16")));
  EXPECT_EQ(job("{model.dtype: float16, use_amp: true, data.type: synthetic}").precision, Precision::fp16_mixed);
  EXPECT_EQ(job(llm + "use_amp: true", {"model.llm.dtype=bfloat16"}).precision, Precision::bf16_mixed);
  EXPECT_EQ(job(llm + "precision: 32-true", {"use_amp=true"}).precision, Precision::fp16_mixed);
  // An explicit precision takes precedence.
  EXPECT_THROW(job(llm + "precision: bf16-mixed"), UserError);
  EXPECT_THROW(job(llm + "use_amp: true", {"precision=bf16-mixed"}), UserError);
}

TEST(JobAliases, BesideTheKeyItselfAreTwice) {
  EXPECT_THAT(refusal("batch_size: 8\ntrain_batch_size: 8"), HasSubstr("twice"));
}

TEST(JobAliases, ValuesAreCheckedAsTheKeys) {
  EXPECT_THAT(refusal("accumulate_grad_batches: many"), HasSubstr("gradient_accumulation_steps"));
  EXPECT_THAT(refusal("bf16: maybe"), HasSubstr("bf16"));
  EXPECT_THAT(refusal("trainer: 7"), HasSubstr("unknown key"));
}

TEST(JobAliases, LeaveOurOwnNamesAlone) {
  EXPECT_THAT(parsed("batch_size: 8\nprecision: bf16-mixed").notes, IsEmpty());
}

}  // namespace
}  // namespace plimsoll
