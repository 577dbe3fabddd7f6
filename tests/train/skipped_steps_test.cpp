#include "train/skipped_steps.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "data/series/stimuli_files.h"
#include "plimsoll/training.h"
#include "train/tiny_job.h"
#include "train/tiny_systems.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

BatchField field(const char* name, std::vector<int64_t> sizes, const std::vector<float>& values) {
  BatchField made{name, DType::float32, std::move(sizes), std::vector<std::byte>(values.size() * sizeof(float))};
  std::memcpy(made.bytes.data(), values.data(), made.bytes.size());
  return made;
}

std::vector<InputFact> facts_of(const BatchField& field) {
  std::vector<InputFact> facts;
  add_input_facts(
      {0, field.sizes[0], {field}}, [](int64_t sample) { return "s" + std::to_string(sample); }, facts);
  return facts;
}

TEST(SkippedSteps, FindConstantSamplesOfEachInput) {
  EXPECT_TRUE(facts_of(field("voxels", {2, 3}, {1, 2, 3, 4, 4, 5})).empty());
  const auto voxels = facts_of(field("voxels", {3, 2}, {0, 0, 1, 2, 0, 0}));
  ASSERT_EQ(voxels.size(), 1u);
  EXPECT_EQ(voxels[0].value, "0");
  EXPECT_EQ(voxels[0].samples, 2);
  EXPECT_THAT(voxels[0].names, ElementsAre("s0", "s2"));
  // A color is a constant for each channel.
  const auto image = facts_of(field("image", {1, 1, 2, 3}, {1, 2, 3, 1, 2, 3}));
  ASSERT_EQ(image.size(), 1u);
  EXPECT_EQ(image[0].value, "");
  EXPECT_EQ(facts_of(field("frames", {1, 2, 2, 1, 2}, {1, 1, 7, 7, 1, 1, 7, 7})).size(), 1u);
  EXPECT_TRUE(facts_of(field("frames", {1, 2, 2, 1, 2}, {1, 1, 7, 7, 1, 1, 7, 8})).empty());
  // The last number of a vector is its time, and differs in every vector.
  EXPECT_EQ(facts_of(field("vectors", {1, 3, 2}, {5, 1, 5, 2, 5, 3})).size(), 1u);
  EXPECT_TRUE(facts_of(field("vectors", {1, 3, 2}, {5, 1, 6, 2, 5, 3})).empty());
}

TEST(SkippedSteps, FindValuesThatAreNotFinite) {
  const auto facts = facts_of(field("mel", {3, 2}, {1, kNaN, 1, 2, std::numeric_limits<float>::infinity(), 0}));
  ASSERT_EQ(facts.size(), 1u);
  EXPECT_FALSE(facts[0].finite);
  EXPECT_THAT(facts[0].names, ElementsAre("s0", "s2"));
}

TEST(SkippedSteps, LeaveIntegersAndTheSampleMaskOut) {
  EXPECT_TRUE(facts_of(field(kSampleMask, {4}, {1, 1, 1, 1})).empty());
  BatchField tokens{"tokens", DType::int64, {1, 2}, std::vector<std::byte>(16)};
  EXPECT_TRUE(facts_of(tokens).empty());
  // bfloat16: 1 and 1.
  BatchField half{"mel", DType::bfloat16, {1, 2}, std::vector<std::byte>(4)};
  for (size_t i = 0; i < 2; ++i) half.bytes[2 * i] = std::byte{0x80}, half.bytes[2 * i + 1] = std::byte{0x3f};
  ASSERT_EQ(facts_of(half).size(), 1u);
  EXPECT_EQ(facts_of(half)[0].value, "1");
}

FirstBadStep skipped(double loss, double norm) {
  return {.step = 1,
          .loss = loss,
          .gradient_norm = norm,
          .gradient_norms = {{"head.weight", 1}, {"neck.weight", kInfinity}, {"stem.weight", kNaN}},
          .windows = 8};
}

TEST(SkippedSteps, NameTheFactsOfTheFirstStep) {
  const std::vector<InputFact> black = {
      {.input = "image", .value = "0", .samples = 5, .names = {"a.png", "b.png", "c.png", "d.png", "e.png"}}};
  EXPECT_EQ(describe_no_step({30, 30}, skipped(1.25, kInfinity), black, Precision::fp32_true),
            "no step was taken: all 30 steps were skipped because a gradient was not finite; "
            "optimizer.learning_rate is not the cause; at step 1 the loss is 1.25 and the norm of all gradients inf; "
            "the backward pass reaches the gradient of neck.weight first of the 2 of 3 that are not finite; the input "
            "'image' is 0 everywhere in 5 of 8 samples (a.png, b.png, c.png, d.png and 1 more); look at these samples, "
            "and remove them from the data if they are blank by mistake");
}

TEST(SkippedSteps, SayWhatToDo) {
  const std::vector<InputFact> bad = {{.input = "mel", .finite = false, .samples = 1}};
  EXPECT_THAT(describe_no_step({30, 30}, skipped(kNaN, kNaN), bad, Precision::bf16_mixed),
              AllOf(HasSubstr("the loss is nan"), Not(HasSubstr("neck.weight")),
                    HasSubstr("the input 'mel' is not finite in 1 of 8 samples; correct these samples"),
                    HasSubstr("or set precision: 32-true")));
  EXPECT_THAT(describe_no_step({30, 30}, skipped(1, kInfinity), {}, Precision::fp16_mixed),
              AllOf(HasSubstr("look for values that are too large"), HasSubstr("or set precision: bf16-mixed")));
  FirstBadStep overflow = skipped(1, kInfinity);
  overflow.gradient_norms = {{"head.weight", 1}, {"stem.weight", 3e38}};
  EXPECT_THAT(describe_no_step({30, 30}, overflow, {}, Precision::fp32_true),
              HasSubstr("each gradient is finite, the largest is that of stem.weight with a norm of 3e+38"));
}

TEST(SkippedSteps, AStepWithoutAFiniteLossIsNotSound) {
  EXPECT_THAT(describe_no_step({30, 32}, skipped(kInfinity, 1), {}, Precision::fp32_true),
              HasSubstr("no step had a finite loss, and 30 of 32 steps were skipped"));
}

TEST(SkippedSteps, ADivergedRunNamesTheLearningRate) {
  EXPECT_THAT(describe_divergence(30, 47, 10), AllOf(HasSubstr("the run has diverged; lower optimizer.learning_rate"),
                                                     HasSubstr("the last checkpoint is of step 10")));
}

class SkippedStepsTest : public ::testing::Test {
 protected:
  TempFolder folder_;
};

// Steps were taken before: a learning rate of 1e30.
TEST_F(SkippedStepsTest, ARunThatDiverges) {
  Job job = tiny_job(folder_);
  job.optimizer.learning_rate = 1e30;
  job.max_steps = 100;
  EXPECT_THAT(user_error_of([&] { train(job); }), HasSubstr("the run has diverged; lower optimizer.learning_rate"));
}

// The squares of the words are beyond float32. The job has no videos, so frames and sound are constant.
TEST_F(SkippedStepsTest, ARunWithoutASoundStep) {
  const StimuliFiles files(folder_, 4, 2, /*clips=*/false);
  SafetensorsWriter writer(
      files.config.stimuli.text_embeddings,
      {{"rest", DType::float32, {4}, {}}, {"bright", DType::float32, {4}, {}}, {"dark", DType::float32, {4}, {}}});
  const std::vector<float> large(4, 3e38F);
  for (const char* label : {"rest", "bright", "dark"}) writer.write(label, std::as_bytes(std::span(large)));
  writer.commit();
  Job job;
  job.model = tiny_fmri_autoencoder();
  job.model.fmri.loss.text = 1e4;  // the gradient is not finite in the first step
  job.data = files.config;
  job.batch_size = 8;
  job.micro_batch_size = 4;
  job.gradient_accumulation_steps = AccumulationSchedule{{0, 2}};
  job.budget.device = int64_t{1} << 28;
  job.max_steps = 100;
  job.threads = 1;
  EXPECT_THAT(user_error_of([&] { train(job); }),
              AllOf(HasSubstr("no step was taken: all 30 steps were skipped"), HasSubstr("at step 1 the loss is inf"),
                    HasSubstr("the input 'frames' is -1 everywhere in 8 of 8 samples (volume "),
                    HasSubstr("bold.nii and 4 more)"), HasSubstr("'mel'"),
                    HasSubstr("look for values that are too large in the inputs"), Not(HasSubstr("diverged"))));
}

}  // namespace
}  // namespace plimsoll
