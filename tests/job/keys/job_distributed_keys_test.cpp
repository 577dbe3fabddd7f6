// Tests keys of programs that train on several devices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>

#include "job/job_testing.h"
#include "job/keys/distributed_keys.h"
#include "plimsoll/error.h"
#include "plimsoll/job.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(ManyDevices, CountsAreDevices) {
  for (const auto& [yaml, devices] : std::map<const char*, int64_t>{{"devices: 8", 8},
                                                                    {"devices: [0, 1]", 2},
                                                                    {"devices: [3]", 1},
                                                                    {"devices: '0,1'", 2},
                                                                    {"gpus: '0,'", 1},
                                                                    {"devices: auto", 1},
                                                                    {"devices: -1", 1},
                                                                    {"num_gpus: 2", 2},
                                                                    {"nproc_per_node: 8", 8},
                                                                    {"trainer: {devices: 4}", 4},
                                                                    {"training: {devices: 3}", 3},
                                                                    {"training: {num_gpus: 8}", 8},
                                                                    {"num_processes: 4\nworld_size: 4", 4}})
    EXPECT_EQ(parsed(yaml).ranks.count, devices) << yaml;
  EXPECT_THAT(parsed("num_gpus: 1").notes, ElementsAre("job.yaml:2: num_gpus (DeepSpeed's name) is devices: 1 here"));
  EXPECT_THAT(parsed("devices: auto").notes, ElementsAre("job.yaml:2: devices: auto is devices: 1 here"));
  EXPECT_THAT(parsed("devices: 1").notes, IsEmpty());
  EXPECT_EQ(parsed("devices: 4", {"num_gpus=2"}).ranks.count, 2);
  EXPECT_EQ(parsed("").ranks.count, 1);
  EXPECT_THAT(refusal("devices: 0"), HasSubstr("it must be at least 1; to train on the CPU set device: cpu"));
  for (const char* wrong : {"devices: 99999999999999999999", "world_size: many", "devices: 1.5", "devices: {a: 1}"})
    EXPECT_THAT(refusal(wrong), HasSubstr("allowed: integer from 1 to 65536")) << wrong;
  EXPECT_THAT(refusal("num_gpus: 8\nworld_size: 16"), HasSubstr("devices is given twice"));
}

TEST(ManyDevices, WordsOfOtherProgramsAreStrategies) {
  const auto all_of = [](Strategy strategy, std::initializer_list<const char*> words) {
    for (const char* yaml : words) EXPECT_EQ(parsed(yaml).ranks.strategy, strategy) << yaml;
  };
  all_of(Strategy::ddp, {"strategy: ddp", "strategy: ddp_find_unused_parameters_true", "trainer.strategy: ddp",
                         "trainer: {strategy: ddp_spawn}", "fsdp: no_shard", "zero_optimization.stage: 0",
                         "distributed_type: MULTI_GPU", "fsdp_config.fsdp_sharding_strategy: 3"});
  all_of(Strategy::zero1, {"strategy: zero1", "strategy: deepspeed_stage_1", "zero_stage: 1", "strategy: ZeRO-1"});
  all_of(Strategy::zero2,
         {"strategy: deepspeed", "strategy: deepspeed_stage_2", "zero_optimization: {stage: 2}",
          "fsdp: shard_grad_op auto_wrap", "distributed_type: DEEPSPEED\ndeepspeed_config: {zero_stage: 2}",
          "deepspeed_config: {zero_stage: 2}\ndistributed_type: DEEPSPEED"});
  all_of(Strategy::zero3,
         {"fsdp: full_shard auto_wrap", "strategy: fsdp", "zero_optimization.stage: 3", "distributed_type: FSDP",
          "fsdp_config: {sharding_strategy: FULL_SHARD}", "training: {strategy: zero3}"});
  all_of(Strategy::automatic, {"", "strategy: auto", "strategy: none", "trainer.strategy: auto", "fsdp: ''",
                               "distributed_type: DEEPSPEED", "distributed_type: 'NO'"});
  EXPECT_EQ(parsed("distributed_type: FSDP\nfsdp_config: {fsdp_sharding_strategy: SHARD_GRAD_OP}").ranks.strategy,
            Strategy::zero2);
  EXPECT_THAT(parsed("strategy: fsdp").notes, ElementsAre("job.yaml:2: strategy: fsdp is strategy: zero3 here"));
  EXPECT_THAT(parsed("", {"fsdp=full_shard"}).notes, ElementsAre(HasSubstr("is strategy: zero3 here")));
  EXPECT_THAT(refusal("strategy: horovod"), HasSubstr("allowed: auto, ddp, zero1, zero2, zero3"));
  EXPECT_THAT(refusal("zero_optimization.stage: 4"), HasSubstr("allowed: 0, 1, 2, 3"));
  for (const char* typed : {"fsdp9", "fsdpx", "ddp7", "ddpp"})
    EXPECT_THAT(refusal(std::string("strategy: ") + typed), HasSubstr("allowed: auto, ddp")) << typed;
  EXPECT_EQ(parsed("strategy: ddp_fork_find_unused_parameters_false").ranks.strategy, Strategy::ddp);
  EXPECT_THAT(refusal("fsdp: full_shard\nzero_stage: 2"), HasSubstr("strategy is given twice"));
}

TEST(ManyDevices, WhatDoesNotExistIsRefusedAndWhatDoesItsWorkIsNamed) {
  for (const char* offload :
       {"strategy: deepspeed_stage_3_offload", "zero_optimization: {offload_optimizer: {device: cpu}}",
        "zero_optimization.offload_param.device: nvme", "fsdp: full_shard offload",
        "deepspeed_config: {offload_optimizer_device: cpu}"})
    EXPECT_THAT(refusal(offload), AllOf(HasSubstr("job.yaml:2: "), HasSubstr("is host_memory_budget: BYTES here"),
                                        HasSubstr("disk_budget")))
        << offload;
  for (const char* parts : {"tensor_parallel_size: 2", "pipeline_model_parallel_size: 4", "context_parallel_size: 2"})
    EXPECT_THAT(refusal(parts), AllOf(HasSubstr("do not exist here"), HasSubstr("strategy: zero3"))) << parts;
  for (const char* machines : {"trainer: {num_nodes: 2}", "nnodes: 4", "num_machines: 2"})
    EXPECT_THAT(refusal(machines), HasSubstr("torchrun --no-python --nnodes")) << machines;
  EXPECT_THAT(refusal("fsdp: hybrid_shard"), HasSubstr("hybrid sharding does not exist"));
  EXPECT_THAT(refusal("deepspeed: ds_config.json"), HasSubstr("is not read"));
  EXPECT_THAT(refusal("fsdp_config: fsdp.json"), HasSubstr("is not read"));
  EXPECT_THAT(refusal("distributed_type: XLA"), HasSubstr("plimsoll gpus"));
}

TEST(ManyDevices, WordsThatAskForNothingAreTaken) {
  for (const char* nothing : {"fsdp_config: {min_num_params: 0}", "zero_optimization: {overlap_comm: true}",
                              "sync_batchnorm: true", "zero_optimization.reduce_bucket_size: 5e8"})
    EXPECT_THAT(parsed(nothing).notes, ElementsAre(HasSubstr("has nothing to do here: the plan"))) << nothing;
  EXPECT_THAT(parsed("local_rank: 0").notes, ElementsAre(HasSubstr("a launcher's variables say it")));
  EXPECT_THAT(parsed("trainer: {num_nodes: 1}").notes, ElementsAre(HasSubstr("is so here in any case")));
  EXPECT_THAT(parsed("tensor_parallel_size: 1").notes, ElementsAre(HasSubstr("is so here in any case")));
  EXPECT_THAT(parsed("zero_optimization: {offload_optimizer: {device: none}}").notes,
              ElementsAre(HasSubstr("moves nothing")));
}

// One sentence each, for any value.
TEST(ManyDevices, SurviveRandomValues) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const std::string letters = "0123456789[],-~.adfnopsz_ ";
  for (const job::Alias& alias : job::distributed_aliases())
    for (int round = 0; round < 20; ++round) {
      std::string word = alias.name, text;
      if (word.ends_with(".*")) word.replace(word.size() - 1, 1, "x");
      if (const size_t dot = word.find('.'); word.starts_with("trai")) word.erase(0, dot + 1);
      for (size_t length = random() % 8; length > 0; --length) text += letters[random() % letters.size()];
      const auto answer = job::reply_to_distributed_key(word, text);
      ASSERT_TRUE(answer) << word;
      EXPECT_TRUE(!answer->what.empty() || answer->kind == job::DistributedKeyReply::Kind::meant);
      EXPECT_THAT(answer->what, Not(HasSubstr("\n")));
    }
  for (const char* other : {"device", "batch_size", "zero_optimization", "fsdp_configs", "", "zero"})
    EXPECT_FALSE(job::reply_to_distributed_key(other, "8")) << other;
}

}  // namespace
}  // namespace plimsoll
