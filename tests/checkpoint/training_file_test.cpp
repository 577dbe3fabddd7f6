// Tests saving a program's own training to a file: plimsoll/training.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>
#include <unistd.h>

#include <fstream>

#include "cut_files.h"
#include "plimsoll/error.h"
#include "plimsoll/training.h"
#include "refusals.h"
#include "test_files.h"

namespace plimsoll {
namespace {

using ::testing::HasSubstr;

Step line_step(int64_t width = 8) {
  Step step;
  step.inputs = {{.name = "x", .sizes = {4, 8}, .dtype = at::kFloat}};
  step.model = [width] { return torch::nn::Linear(8, width).ptr(); };
  step.loss = [](torch::nn::Module& module, const StepInputs& inputs) {
    return dynamic_cast<torch::nn::LinearImpl&>(module).forward(inputs["x"]).square().mean();
  };
  return step;
}

TrainingOptions options_of(Precision precision = Precision::fp32_true) {
  TrainingOptions options;
  options.threads = 1;
  options.seed = 3;
  options.precision = precision;
  return options;
}

class TrainingFile : public ::testing::Test {
 protected:
  std::string refused(Training& training) {
    return refusal_of([&] { load_training(training, file_); });
  }

  std::string refused_save(Training& training) {
    return refusal_of([&] { save_training(training, file_); });
  }

  TempFolder folder_;
  std::filesystem::path file_ = folder_ / "training.safetensors";
};

TEST_F(TrainingFile, GoesOnWithTheSameBits) {
  for (const Precision precision : {Precision::fp32_true, Precision::fp16_mixed}) {
    Training first(line_step(), options_of(precision)), second(line_step(), options_of(precision));
    first.start();
    second.start();
    torch::manual_seed(1);
    for (int i = 0; i < 3; ++i) first.step({{{"x", torch::randn({4, 8})}}}, 1e-2);
    save_training(first, file_);
    load_training(second, file_);
    EXPECT_EQ(second.steps_done(), 3);
    EXPECT_EQ(second.loss_scale(), first.loss_scale());
    for (int i = 0; i < 3; ++i) {
      const at::Tensor x = torch::randn({4, 8});
      EXPECT_EQ(first.step({{{"x", x}}}, 1e-2).loss, second.step({{{"x", x}}}, 1e-2).loss);
    }
    const auto states = std::pair(first.state(), second.state());
    for (size_t i = 0; i < states.first.size(); ++i)
      EXPECT_TRUE(states.first[i].second.equal(states.second[i].second)) << states.first[i].first;
  }
}

TEST_F(TrainingFile, OfAnotherModelIsRefused) {
  Training first(line_step(), options_of()), wider(line_step(16), options_of());
  first.start();
  wider.start();
  save_training(first, file_);
  const at::Tensor before = wider.state()[0].second.clone();
  EXPECT_THAT(refused(wider), HasSubstr("weight"));
  EXPECT_TRUE(wider.state()[0].second.equal(before));
}

TEST_F(TrainingFile, ThatIsDamagedOrMissingIsRefused) {
  Training training(line_step(), options_of());
  training.start();
  EXPECT_THAT(refused(training), HasSubstr("training.safetensors"));
  save_training(training, file_);
  std::filesystem::resize_file(file_, std::filesystem::file_size(file_) - 1);
  EXPECT_THAT(refused(training), HasSubstr("training.safetensors"));
}

// The file of the arena on disk is cut at a moment of save_training().
TEST_F(TrainingFile, IsNotWrittenWithStateThatTheDiskLost) {
  TrainingOptions options = options_of();
  options.budget.device = Training(line_step(4096), options).plan().peak_bytes * 7 / 8;
  options.budget.disk = int64_t{1} << 30;
  options.disk_path = folder_.path();
  size_t moments = 0;
  for (size_t at = 0; at == 0 || at < moments; ++at) {
    SCOPED_TRACE("moment " + std::to_string(at));
    Training training(line_step(4096), options);
    ASSERT_GT(training.plan().offloaded_state_bytes, 0);
    ASSERT_GT(training.plan().disk_bytes, 0);
    training.start();
    torch::manual_seed(1);
    training.step({{{"x", torch::randn({4, 8})}}}, 1e-2);
    moments = 0;
    {
      const MomentHook count([&](MappingMoment, int) { ++moments; });
      save_training(training, file_);
    }
    ASSERT_GT(moments, 4u);
    const std::string good = get_file(file_);
    size_t now = 0;
    const MomentHook cut([&](MappingMoment, int descriptor) {
      const bool done = now++ != at || ::ftruncate(descriptor, 1) == 0;
      EXPECT_TRUE(done);
    });
    const std::string message = refused_save(training);
    EXPECT_THAT(message, HasSubstr(at + 1 < moments ? "could not be read again" : "accepted"));
    EXPECT_TRUE(get_file(file_) == good) << "the file was replaced by one with zeros";
  }
}

TEST_F(TrainingFile, NeedsATrainingThatWasStarted) {
  Training training(line_step(), options_of());
  EXPECT_THROW(save_training(training, file_), UserError);
  EXPECT_FALSE(std::filesystem::exists(file_));
}

}  // namespace
}  // namespace plimsoll
