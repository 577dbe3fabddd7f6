// Tests user errors while a step runs, or around it: the error is named, and nothing is left behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "device/backend.h"
#include "plimsoll/error.h"
#include "plimsoll/models.h"
#include "plimsoll/training.h"
#include "refusals.h"
#include "run/training_runs.h"
#include "run/watched_backend.h"
#include "test_files.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using testing::Batch;
using ::testing::HasSubstr;
using testing::token_batch;

Step tiny_decoder() {
  DecoderConfig config;
  config.vocab_size = 64;
  config.hidden_size = 16;
  config.num_layers = 2;
  config.num_heads = 2;
  config.dropout = 0.1;
  return decoder_step(config, 2, 8);
}

TEST(Failures, AfterARefusedBatchTheNextOneTrains) {
  Training training(tiny_decoder(), {}), same(tiny_decoder(), {});
  training.start();
  Batch bad = token_batch(2, 8, 64);
  bad["targets"][0][0] = 64;
  EXPECT_THAT(refusal_of([&] { training.step({bad}, 1e-3); }),
              AllOf(HasSubstr("operator plimsoll::"), HasSubstr("64")));
  // The process's allocator and generator are its own again.
  torch::manual_seed(3);
  const torch::Tensor drawn = torch::rand({1000});
  torch::manual_seed(3);
  EXPECT_TRUE(torch::equal(drawn, torch::rand({1000})));
  bad["targets"][0][0] = 1;
  bad["tokens"][0][0] = -1;
  EXPECT_THROW(training.step({bad}, 1e-3), UserError);
  const Batch good = token_batch(2, 8, 64);
  same.start();
  EXPECT_EQ(training.step({good}, 1e-3).loss, same.step({good}, 1e-3).loss);
}

// A device may fail before an op's kernel is called: an op that had not begun is not ended, and the generator is
// restored.
TEST(Failures, AnOpThatTheDeviceDoesNotBeginLeavesNothingBehind) {
  static testing::WatchedBackend watched(cpu_backend());
  add_backend("watched", watched);
  Training training(tiny_decoder(), {.device = "watched"}), same(tiny_decoder(), {});
  training.start();
  same.start();
  const Batch batch = token_batch(2, 8, 64);
  EXPECT_EQ(training.step({batch}, 0.0).loss, same.step({batch}, 0.0).loss);
  const long ops = watched.begun;
  for (long after : {0, 1, 5, 20}) {  // dropout, whose generator is Plimsoll's for the op, is among them
    SCOPED_TRACE(after);
    torch::manual_seed(3);
    watched.refuse_after = after;
    EXPECT_THAT(refusal_of([&] { training.step({batch}, 0.0); }), AllOf(HasSubstr("operator "), HasSubstr("is gone")));
    EXPECT_EQ(watched.refuse_after, -1);
    EXPECT_EQ(watched.begun, watched.ended);
    const torch::Tensor drawn = torch::rand({1000});
    torch::manual_seed(3);
    EXPECT_TRUE(torch::equal(drawn, torch::rand({1000})));
  }
  EXPECT_GT(watched.begun, ops);
  EXPECT_EQ(watched.begun, watched.ended);
}

// Then every request fails: the first error is reported, also if the step is profiled.
TEST(Failures, ADeviceThatFailsForGoodIsToldByTheOp) {
  static testing::WatchedBackend watched(cpu_backend());
  add_backend("failing", watched);
  const TempFolder folder;
  const Batch batch = token_batch(2, 8, 64);
  for (const bool profiled : {false, true}) {
    SCOPED_TRACE(profiled);
    watched.copies_fail = false;
    Training training(tiny_decoder(), {.device = "failing"});
    if (profiled) training.profile({.file = folder.path() / "profile.json", .first_step = 1});
    training.start();
    watched.refuse_after = 7;
    watched.fails_for_good = true;
    EXPECT_THAT(refusal_of([&] { training.step({batch}, 1e-3); }), AllOf(HasSubstr("operator "), HasSubstr("is gone")));
  }
  watched.copies_fail = false;
}

// A device reports a kernel's error when it is waited for. A profiled step waits for each op.
TEST(Failures, AnErrorThatADeviceReportsLateNamesItsOp) {
  static testing::WatchedBackend watched(cpu_backend());
  add_backend("late", watched);
  const TempFolder folder;
  Training training(tiny_decoder(), {.device = "late"});
  training.profile({.file = folder.path() / "profile.json", .first_step = 1});
  training.start();
  watched.fail_waits_after = 9;
  EXPECT_THAT(refusal_of([&] { training.step({token_batch(2, 8, 64)}, 1e-3); }),
              AllOf(HasSubstr("operator "), HasSubstr("in module '"), HasSubstr("an illegal memory access")));
}

// The generic backend throws libtorch's own error when it waits.
TEST(Failures, AnErrorThatLibtorchReportsLateNamesItsOp) {
  static testing::WatchedBackend watched(cpu_backend());
  watched.libtorch_waits = true;
  add_backend("late", watched);
  const TempFolder folder;
  Training training(tiny_decoder(), {.device = "late"});
  training.profile({.file = folder.path() / "profile.json", .first_step = 1});
  training.start();
  watched.fail_waits_after = 9;
  EXPECT_THAT(refusal_of([&] { training.step({token_batch(2, 8, 64)}, 1e-3); }),
              AllOf(HasSubstr("operator "), HasSubstr("in module '"), HasSubstr("HIP error: an illegal memory access"),
                    HasSubstr("an earlier operator may be the cause")));
}

// Ops are tried before the first step, while it is planned. A fault stays, so all ops after the one at fault fail, too.
TEST(Failures, AFaultWhileOpsAreTriedNamesTheOp) {
  static testing::WatchedBackend watched(cpu_backend());
  add_backend("faulty", watched);
  watched.faults_after = 5;
  EXPECT_THAT(refusal_of([&] { Training(tiny_decoder(), {.device = "faulty"}).start(); }),
              AllOf(HasSubstr("operator "), HasSubstr("failed when it was tried alone: a kernel failed"),
                    HasSubstr("an illegal address")));
}

TEST(Failures, CallsBeforeTheStart) {
  Training training(tiny_decoder(), {.evaluate = true});
  const Batch batch = token_batch(2, 8, 64);
  EXPECT_THAT(refusal_of([&] { training.step({batch}, 1e-3); }), HasSubstr("start()"));
  EXPECT_THAT(refusal_of([&] { training.evaluate(batch); }), HasSubstr("start()"));
  EXPECT_THAT(refusal_of([&] { training.state(); }), HasSubstr("start()"));
  training.start();
  EXPECT_THAT(refusal_of([&] { training.step({}, 1e-3); }), HasSubstr("micro batch"));
}

struct Own : torch::nn::Module {
  torch::Tensor weight = register_parameter("weight", torch::ones({4, 4}));
  torch::Tensor mask = torch::ones({4, 4}).tril();  // not registered
};

Step own_step(std::function<torch::Tensor(Own&, const torch::Tensor&)> loss) {
  Step step;
  step.model = [] { return std::make_shared<Own>(); };
  step.inputs = {{"x", {4, 4}, torch::kFloat32}};
  step.loss = [loss](torch::nn::Module& module, const StepInputs& in) {
    return loss(static_cast<Own&>(module), in["x"]);
  };
  return step;
}

TEST(Failures, AnUnregisteredTensorThatIsOnlyReadIsKept) {
  Training training(own_step([](Own& own, const torch::Tensor& x) { return (own.weight * own.mask * x).sum(); }), {});
  training.start();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(training.step({{{"x", torch::ones({4, 4})}}}, 0.0).loss, 10);
}

TEST(Failures, AnUnregisteredTensorThatTheStepChangesIsRefused) {
  const Step step = own_step([](Own& own, const torch::Tensor& x) {
    own.mask.mul_(0.5);
    return (own.weight * own.mask * x).sum();
  });
  EXPECT_THAT(refusal_of([&] { Training training(step, {}); }), HasSubstr("register_buffer"));
}

TEST(Failures, ATensorOfAnotherRecordingIsRefused) {
  const auto kept = std::make_shared<torch::Tensor>();
  const Step step = own_step([kept](Own& own, const torch::Tensor& x) {
    if (!kept->defined()) *kept = torch::ones({4, 4});
    return (own.weight * *kept * x).sum();
  });
  Training first(step, {});
  EXPECT_THAT(refusal_of([&] { Training second(step, {}); }), HasSubstr("another step"));
  *kept = torch::Tensor();
}

TEST(Failures, WritingToACpuTensorIsRefused) {
  const torch::Tensor host = torch::zeros({4, 4});
  const Step step = own_step([&](Own& own, const torch::Tensor& x) {
    torch::NoGradGuard no_grad;
    torch::Tensor(host).add_(x);
    return (own.weight * x).sum();
  });
  EXPECT_THAT(refusal_of([&] { Training training(step, {}); }), HasSubstr("CPU tensor"));
  EXPECT_EQ(host.sum().item<double>(), 0);
}

// Batch norm changes its running statistics in forward: recomputation must not do so twice.
TEST(Failures, RunningStatisticsAreUpdatedOnceUnderRecomputation) {
  struct Block : torch::nn::Module {
    torch::nn::Linear layer = register_module("layer", torch::nn::Linear(8, 8));
    torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(8));
  };
  struct Net : torch::nn::Module {
    torch::nn::ModuleList layers = register_module("layers", torch::nn::ModuleList());
    Net() {
      for (int i = 0; i < 3; ++i) layers->push_back(std::make_shared<Block>());
    }
  };
  Step step;
  step.model = [] { return std::make_shared<Net>(); };
  step.inputs = {{"x", {16, 8}, torch::kFloat32}};
  step.loss = [](torch::nn::Module& module, const StepInputs& in) {
    torch::Tensor x = in["x"];
    for (const auto& block : *static_cast<Net&>(module).layers) {
      auto& b = *block->as<Block>();
      x = torch::gelu(b.norm(torch::gelu(b.layer(x)))) + x;
    }
    return x.square().mean();
  };
  std::vector<std::vector<torch::Tensor>> states;
  for (Choice choice : {Choice::off, Choice::on}) {
    TrainingOptions options;
    options.gradient_checkpointing = choice;
    Training training(step, options);
    training.start();
    torch::manual_seed(1);
    for (int i = 0; i < 3; ++i) training.step({{{"x", torch::rand({16, 8})}}}, 1e-2);
    auto& state = states.emplace_back();
    for (const auto& [name, tensor] : training.state()) state.push_back(tensor.clone());
  }
  for (size_t i = 0; i < states[0].size(); ++i) EXPECT_TRUE(torch::equal(states[0][i], states[1][i])) << i;
}

}  // namespace
}  // namespace plimsoll
