// Words of programs that train on several devices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "job/job_testing.h"
#include "job/values/many_devices.h"
#include "plimsoll/error.h"
#include "plimsoll/job.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(ManyDevices, AreNotThereAndWhatDoesItsWorkIsNamed) {
  for (const char* copies :
       {"devices: 8", "devices: [0, 1]", "num_gpus: 2", "nproc_per_node: 8", "trainer: {devices: 4}", "strategy: ddp",
        "trainer.strategy: ddp_find_unused_parameters_true", "training: {num_gpus: 8}",
        "world_size: 99999999999999999999"})
    EXPECT_THAT(refusal(copies),
                AllOf(HasSubstr("job.yaml:2: "), HasSubstr("not there yet"), HasSubstr("gradient_accumulation_steps")))
        << copies;
  for (const char* shards :
       {"fsdp: full_shard auto_wrap", "strategy: fsdp", "strategy: deepspeed_stage_2", "zero_optimization: {stage: 2}",
        "zero_optimization.stage: 3", "zero_stage: 1", "fsdp_config: {sharding_strategy: FULL_SHARD}"})
    EXPECT_THAT(refusal(shards),
                AllOf(HasSubstr("sharding over several devices is not there yet"), HasSubstr("host_memory_budget")))
        << shards;
  for (const char* offload :
       {"strategy: deepspeed_stage_3_offload", "zero_optimization: {offload_optimizer: {device: cpu}}",
        "zero_optimization.offload_param.device: nvme", "fsdp: full_shard offload"})
    EXPECT_THAT(refusal(offload), AllOf(HasSubstr("is host_memory_budget: BYTES here"), HasSubstr("disk_budget")))
        << offload;
  EXPECT_THAT(refusal("deepspeed: ds_config.json"), HasSubstr("is not read"));
}

TEST(ManyDevices, OfOneAreTaken) {
  for (const char* one : {"devices: 1", "devices: auto", "devices: -1", "devices: [3]", "num_gpus: 1", "strategy: auto",
                          "trainer: {num_nodes: 1}", "strategy: none"})
    EXPECT_THAT(parsed(one).notes, ElementsAre(HasSubstr("one device is used"))) << one;
  for (const char* nothing :
       {"fsdp: ''", "fsdp: null", "zero_optimization: {stage: 0}", "zero_optimization: {overlap_comm: true}",
        "sync_batchnorm: true", "local_rank: 0", "zero_optimization.reduce_bucket_size: 5e8"})
    EXPECT_THAT(parsed(nothing).notes, ElementsAre(HasSubstr("there is nothing to it on one"))) << nothing;
  EXPECT_THAT(parsed("zero_optimization: {offload_optimizer: {device: none}}").notes,
              ElementsAre(HasSubstr("moves nothing")));
  EXPECT_THAT(refusal("devices: 0"), HasSubstr("device: cpu"));
}

// One sentence each, whatever stands there.
TEST(ManyDevices, SurviveRandomValues) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const std::string letters = "0123456789[],-~.adfnopsz_ ";
  for (const job::Alias& alias : job::aliases_of_devices())
    for (int round = 0; round < 20; ++round) {
      std::string word = alias.name, text;
      if (word.ends_with(".*")) word.replace(word.size() - 1, 1, "x");
      if (const size_t dot = word.find('.'); word.starts_with("trai")) word.erase(0, dot + 1);
      for (size_t length = random() % 8; length > 0; --length) text += letters[random() % letters.size()];
      const auto answer = job::answer_of_devices(word, text);
      ASSERT_TRUE(answer) << word;
      EXPECT_FALSE(answer->what.empty());
      EXPECT_THAT(answer->what, Not(HasSubstr("\n")));
    }
  for (const char* other : {"device", "batch_size", "zero_optimization", "fsdp_configs", "", "zero"})
    EXPECT_FALSE(job::answer_of_devices(other, "8")) << other;
}

}  // namespace
}  // namespace plimsoll
