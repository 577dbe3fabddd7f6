// Values in the words that YAML 1.1 and Python have for them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "job/job_testing.h"
#include "plimsoll/error.h"
#include "plimsoll/job.h"

namespace plimsoll {
namespace {

using ::testing::HasSubstr;

TEST(JobValues, BooleansAreThoseOfYamlAndPython) {
  const std::string base = "data.files: a.txt\n";
  for (const char* yes : {"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON", "'yes'"}) {
    EXPECT_FALSE(parsed_file(base + "model.tie_embeddings: false", {std::string("model.tie_embeddings=no")})
                     .model.decoder.tie_embeddings);
    EXPECT_TRUE(parsed_file(base + "model.attention_bias: " + yes).model.decoder.attention_bias) << yes;
    EXPECT_EQ(parsed_file(base + "gradient_checkpointing: " + yes).gradient_checkpointing, Choice::on) << yes;
  }
  for (const char* no : {"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"}) {
    EXPECT_FALSE(parsed_file(base + "model.tie_embeddings: " + no).model.decoder.tie_embeddings) << no;
    EXPECT_EQ(parsed_file(base + "gradient_checkpointing: " + no).gradient_checkpointing, Choice::off) << no;
  }
  EXPECT_THAT(file_refusal(base + "model.tie_embeddings: 1"), HasSubstr("did you mean 'true'?"));
  EXPECT_THAT(file_refusal(base + "model.tie_embeddings: n"), HasSubstr("did you mean 'false'?"));
  EXPECT_THAT(file_refusal(base + "model.tie_embeddings: maybe"), HasSubstr("allowed: true, false"));
}

// A null that is written out is what Python's None is; a value that is missing is a mistake.
TEST(JobValues, ABudgetWithoutAUnitIsBytesAndSaysSo) {
  const Job job =
      parsed_file("data.files: a.txt\nmemory_budget: 256\nhost_memory_budget: 0\ndisk_budget: 8000000000\n");
  EXPECT_EQ(job.budget.device, 256);
  EXPECT_THAT(job.notes, ::testing::ElementsAre("job.yaml:2: memory_budget is 256 bytes; write the unit if more is "
                                                "meant, for example 256MiB"));
  EXPECT_THAT(parsed_file("data.files: a.txt\n", {"memory_budget=256MiB"}).notes, ::testing::IsEmpty());
}

TEST(JobValues, NullIsNoneWhereItIsWritten) {
  const std::string base = "data: {type: synthetic}\nmodel.type: video_llm\n";
  for (const char* none : {"none", "None", "null", "Null", "NULL", "~", "null # all", "'None'"})
    EXPECT_EQ(parsed_file(base + "data.max_frames: " + none + "\nmax_steps: 3").data.clips.max_frames, std::nullopt)
        << none;
  EXPECT_EQ(parsed_file("data: {type: synthetic, max_frames: null, validation_fraction: 0}\nmodel.type: video_llm")
                .data.clips.max_frames,
            std::nullopt);
  EXPECT_EQ(parsed_file(base, {"data.max_frames=null"}).data.clips.max_frames, std::nullopt);
  EXPECT_EQ(parsed_file(base + "max_grad_norm: ~").max_grad_norm, 0);
  EXPECT_THAT(file_refusal(base + "data.max_frames:\nmax_steps: 3"), HasSubstr("job.yaml:3: data.max_frames is empty"));
  EXPECT_THAT(file_refusal(base + "data.max_frames:\nnull_x: 3"), HasSubstr("job.yaml:4:1: unknown key 'null_x'"));
  EXPECT_THAT(file_refusal(base + "batch_size: null"), HasSubstr("batch_size is null; allowed: integer"));
  EXPECT_THAT(file_refusal(base, {"data.max_frames="}), HasSubstr("has no value"));
}

}  // namespace
}  // namespace plimsoll
