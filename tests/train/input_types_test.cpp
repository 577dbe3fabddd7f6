// Tests that inputs are in memory in the type that the step computes in, and are cast on the host.
#include <gmock/gmock.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "plimsoll/models.h"
#include "plimsoll/train_job.h"
#include "plimsoll/training.h"
#include "test_files.h"
#include "train/micro_batches.h"

namespace plimsoll {
namespace {

using ::testing::HasSubstr;

FmriAutoencoderConfig small() {
  FmriAutoencoderConfig config;
  config.video = config.audio = config.text = {.width = 8, .depth = 1, .decoder_depth = 1, .num_heads = 2};
  config.fusion.width = config.fmri.width = 16;
  config.bottleneck_dim = 8;
  config.voxels = 20;
  return config;
}

TrainingOptions options_in(Precision precision) {
  TrainingOptions options;
  options.precision = precision;
  options.budget.device = int64_t{1} << 30;
  options.evaluate = true;
  options.threads = 1;
  options.seed = 3;
  return options;
}

int64_t input_bytes(const Trace& trace, const Step& step) {
  int64_t bytes = 0;
  for (const InputSpec& spec : step.inputs)
    bytes += trace.buffers[Trace::find(trace.inputs, spec.name)->view.buffer].bytes;
  return bytes;
}

TEST(InputTypes, Bfloat16InputsTakeHalf) {
  const Step step = fmri_autoencoder_step(small(), 4);
  const Trace wide = record_step(step, options_in(Precision::fp32_true));
  const Trace narrow = record_step(step, options_in(Precision::bf16_true));
  EXPECT_EQ(2 * input_bytes(narrow, step), input_bytes(wide, step));
  EXPECT_EQ(input_bytes(record_step(step, options_in(Precision::bf16_mixed)), step), input_bytes(wide, step));
  for (const InputSpec& spec : step.inputs)
    EXPECT_EQ(Trace::find(narrow.inputs, spec.name)->view.dtype, DType::bfloat16) << spec.name;
}

std::vector<double> losses_of(const Step& step, const std::function<torch::Tensor(const torch::Tensor&)>& given) {
  torch::manual_seed(5);
  Training training(step, options_in(Precision::bf16_true));
  training.start();
  std::vector<double> losses;
  for (int i = 0; i < 3; ++i) {
    std::map<std::string, torch::Tensor> batch;
    for (const InputSpec& spec : step.inputs)
      batch[spec.name] = given(spec.name == kSampleMask ? torch::ones(spec.sizes) : torch::randn(spec.sizes));
    losses.push_back(training.step({batch}, 1e-2).loss);
    losses.push_back(training.evaluate(batch));
  }
  return losses;
}

TEST(InputTypes, TheLossesAreThoseOfInputsCastInTheStep) {
  const Step step = fmri_autoencoder_step(small(), 4);
  const auto as_declared = losses_of(step, [](const torch::Tensor& x) { return x; });
  EXPECT_EQ(as_declared, losses_of(step, [](const torch::Tensor& x) { return x.to(torch::kBFloat16); }));
  EXPECT_EQ(as_declared,
            losses_of(step, [](const torch::Tensor& x) { return x.to(torch::kBFloat16).to(torch::kFloat); }));
  EXPECT_THAT(user_error_of([&] { losses_of(step, [](const torch::Tensor& x) { return x.to(torch::kDouble); }); }),
              HasSubstr("is Double"));
  EXPECT_THAT(user_error_of([&] { losses_of(step, [](const torch::Tensor& x) { return x.to(torch::kDouble); }); }),
              HasSubstr("the step declares Float"));
}

Job small_job(Precision precision) {
  Job job;
  job.model.type = "fmri_autoencoder";
  job.model.fmri = small();
  job.data.type = "synthetic";
  job.data.samples = 24;
  job.data.validation_fraction = 0.2;
  job.batch_size = job.micro_batch_size = 4;
  job.gradient_accumulation_steps = AccumulationSchedule{{0, 1}};
  job.precision = precision;
  job.budget.device = int64_t{1} << 30;
  job.max_steps = 3;
  job.threads = 1;
  return job;
}

// The threads that prepare batches cast them, to the bits of libtorch's cast.
TEST(InputTypes, BatchesComeInTheStepsType) {
  const Job wide_job = small_job(Precision::fp32_true), narrow_job = small_job(Precision::bf16_true);
  const auto batches_of = [](const Job& job) {
    const Step step = fmri_autoencoder_step(job.model.fmri, 4);
    return std::make_unique<MicroBatches>(job, synthetic_samples(job.data, 1, synthetic_fields(step.inputs)), true);
  };
  const auto wide = batches_of(wide_job), narrow = batches_of(narrow_job);
  wide->start(0);
  narrow->start(0);
  int64_t counted = 0;
  std::pair<Batch, Batch> pairs[] = {{wide->next(), narrow->next()},
                                     {wide->evaluation_batch(0, counted), narrow->evaluation_batch(0, counted)}};
  for (auto& [from, to] : pairs) {
    const MicroBatch wanted = tensors_over(from), got = tensors_over(to);
    ASSERT_EQ(wanted.size(), got.size());
    for (const auto& [name, tensor] : wanted) {
      ASSERT_EQ(got.at(name).scalar_type(), torch::kBFloat16) << name;
      EXPECT_TRUE(torch::equal(got.at(name), tensor.to(torch::kBFloat16))) << name;
    }
  }
}

}  // namespace
}  // namespace plimsoll
