// Tests two arenas, both used to the byte as planned, and the same losses.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>
#include <unistd.h>

#include <algorithm>

#include "device/arena.h"
#include "device/backend.h"
#include "plan/placement/assign_offsets.h"
#include "plimsoll/error.h"
#include "plimsoll/models.h"
#include "plimsoll/training.h"
#include "rounds.h"
#include "run/equality.h"
#include "run/executor/executor.h"
#include "run/training_runs.h"
#include "test_files.h"

namespace plimsoll {
namespace {

using testing::Batch;
using testing::expect_equal;
using testing::RunResult;
using testing::token_batch;
using testing::train;

Step dropout_decoder() {
  DecoderConfig config;
  config.vocab_size = 512;
  config.hidden_size = 96;
  config.num_layers = testing::kSanitized ? 2 : 4;  // planning takes most of the time
  config.num_heads = 4;
  config.dropout = 0.1;
  return decoder_step(config, 2, 64);
}

class Offload : public ::testing::TestWithParam<std::tuple<Precision, bool>> {};

TEST_P(Offload, BothArenasAreUsedAsPlannedAndTheLossesStay) {
  const auto& [precision, overlap] = GetParam();
  TrainingOptions options;
  options.precision = precision;
  options.threads = 1;  // kernels of several wait for one another on shared cores
  options.accumulate = true;
  options.cost.copies_overlap = overlap;
  options.cost.overhead_seconds = 1e-7;  // a slow device with a fast link: offload is cheap
  for (auto& kind : options.cost.rates) kind.fill({1e9, 1e9});
  const RunResult whole = train(dropout_decoder(), options, 2, 4);
  EXPECT_EQ(whole.plan.host_bytes, 0);
  options.budget.host = int64_t{1} << 30;
  const int64_t least = Training(dropout_decoder(), options).minimum_budget_bytes();
  bool moved = false, moved_state = false, moved_parameters = false, moved_gradients = false;
  for (int part = 0; part <= 4; ++part) {
    options.budget.device = least + (whole.plan.peak_bytes - least) * part / 5;
    SCOPED_TRACE(*options.budget.device);
    RunResult result;
    try {
      result = train(dropout_decoder(), options, 2, 4);
    } catch (const UserError& error) {  // the minimum does not include scratch that is found before the start
      EXPECT_EQ(error.kind(), UserError::Kind::does_not_fit);
      EXPECT_EQ(part, 0);
      continue;
    }
    EXPECT_EQ(result.losses, whole.losses);
    EXPECT_LE(result.used.measured_peak(), *options.budget.device);
    EXPECT_EQ(result.used.arena, result.plan.arena_bytes);
    EXPECT_EQ(result.used.host, result.plan.host_bytes);
    EXPECT_LE(result.plan.host_bytes, options.budget.host);
    moved = moved || result.plan.offloaded_saved_bytes > 0;
    moved_state = moved_state || result.plan.offloaded_state_bytes > 0;
    moved_parameters = moved_parameters || result.plan.offloaded_parameter_bytes > 0;
    moved_gradients = moved_gradients || result.plan.offloaded_gradient_bytes > 0;
  }
  EXPECT_TRUE(moved);
  EXPECT_TRUE(moved_state);
  EXPECT_TRUE(moved_parameters);
  EXPECT_TRUE(moved_gradients);
}

INSTANTIATE_TEST_SUITE_P(Modes, Offload,
                         ::testing::Values(std::tuple(Precision::fp32_true, true),
                                           std::tuple(Precision::fp32_true, false),
                                           std::tuple(Precision::bf16_mixed, true),
                                           std::tuple(Precision::bf16_true, true)));

// Eager has no host memory: every bit of the state, in any memory, is the same.
TEST(OffloadEquality, StateAndValuesAreThoseOfEager) {
  TrainingOptions options;
  options.accumulate = true;
  const Step step = [] {
    DecoderConfig config;
    config.vocab_size = 256;
    config.hidden_size = 64;
    config.num_layers = 3;
    return decoder_step(config, 2, 48);
  }();
  const int64_t whole = Training(step, options).plan().peak_bytes;
  options.budget.host = int64_t{1} << 30;
  options.budget.device = whole / 2;
  torch::manual_seed(3);
  ASSERT_GT(Training(step, options).plan().offloaded_state_bytes, 0);
  expect_equal(
      step, options, [] { return token_batch(2, 48, 256); }, 3, 2);
}

// The update in the memory of the state: with the parameters in it too, and with parameters that are copied out and in.
TEST(OffloadUpdate, OnTheHostItIsTheSameToTheBit) {
  for (const Precision precision : {Precision::bf16_true, Precision::fp32_true}) {
    TrainingOptions options;
    options.precision = precision;
    options.threads = 1;
    options.accumulate = true;
    const RunResult whole = train(dropout_decoder(), options, 2, 3);
    options.budget.host = int64_t{1} << 30;
    options.cost.host_bytes = 1e15;  // at no cost
    options.cost.host_link = 1e9;
    bool with_parameters = false, without = false;
    // The scratch of this processor's matmuls decides which budgets move parameters: one budget of each kind is
    // found.
    for (const int percent : {40, 60, 25, 50, 55, 45, 30, 35}) {
      options.budget.device = whole.plan.peak_bytes * percent / 100;
      const Plan plan = Training(dropout_decoder(), options).plan();
      bool& covered = plan.offloaded_parameter_bytes > 0 ? with_parameters : without;
      if (!plan.fits || plan.host_updates == 0 || covered) continue;
      covered = true;
      SCOPED_TRACE(percent);
      const RunResult result = train(dropout_decoder(), options, 2, 3);
      EXPECT_EQ(result.losses, whole.losses);
      EXPECT_GT(result.plan.host_updates, 0);
      EXPECT_LE(result.used.measured_peak(), *options.budget.device);
      EXPECT_EQ(result.used.arena, result.plan.arena_bytes);
      EXPECT_EQ(result.used.host, result.plan.host_bytes);
      if (with_parameters && without) break;
    }
    EXPECT_TRUE(with_parameters);
    EXPECT_TRUE(without);
    if (testing::kSanitized) return;
  }
}

// Three arenas: buffers that do not fit into host memory are on disk, and are copied in and out.
TEST(OffloadDisk, ThreeArenasAreUsedAsPlannedAndTheLossesStay) {
  const TempFolder folder;
  TrainingOptions options;
  options.threads = 1;
  options.accumulate = true;
  const RunResult whole = train(dropout_decoder(), options, 2, 3);
  options.budget.disk = int64_t{1} << 30;
  options.disk_path = folder.path();
  bool parameters = false, state = false;
  for (const int64_t host : {int64_t{0}, int64_t{1} << 20})
    for (const int percent : {25, 55}) {
      SCOPED_TRACE(fmt::format("{} bytes of host memory, {} %", host, percent));
      options.budget.host = host;
      options.budget.device = whole.plan.peak_bytes * percent / 100;
      const RunResult result = train(dropout_decoder(), options, 2, 3);
      EXPECT_EQ(result.losses, whole.losses);
      EXPECT_LE(result.used.measured_peak(), *options.budget.device);
      EXPECT_EQ(result.used.arena, result.plan.arena_bytes);
      EXPECT_EQ(result.used.host, result.plan.host_bytes);
      EXPECT_EQ(result.used.disk, result.plan.disk_bytes);
      EXPECT_LE(result.plan.host_bytes, host);
      EXPECT_GT(result.plan.disk_bytes, 0);
      for (const Buffer& buffer : result.plan.trace.buffers) {
        if (buffer.memory != Memory::disk) continue;
        parameters = parameters || buffer.role == Role::parameter;
        state = state || buffer.role == Role::optimizer_state;
      }
    }
  EXPECT_TRUE(parameters);
  EXPECT_TRUE(state);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

// Offloaded parameters are updated among backward ops, and leave among them.
TEST(OffloadUpdate, InBackwardItIsTheSameToTheBit) {
  const TempFolder folder;
  const int64_t room = int64_t{1} << 30;
  struct Case {
    const char* name;
    int64_t host, disk;
    double host_bytes;  // the speed of updates on the host
  };
  for (int accumulate = 0; accumulate < (testing::kSanitized ? 1 : 2); ++accumulate)
    for (const Case& each :
         {Case{"disk", 0, room, 1e15}, {"host", room, 0, 1e15}, {"host, updates on the device", room, 0, 0}}) {
      SCOPED_TRACE(fmt::format("{}{}", each.name, accumulate ? ", several micro batches" : ""));
      TrainingOptions options;
      options.threads = 1;
      options.max_grad_norm = 0;
      options.accumulate = accumulate;
      const int micro = accumulate ? 3 : 1;
      const RunResult whole = train(dropout_decoder(), options, micro, 3);
      options.update_in_backward = Choice::on;
      options.budget.host = each.host;
      options.budget.disk = each.disk;
      options.disk_path = folder.path();
      options.cost.host_bytes = each.host_bytes;
      options.budget.device = 1;
      const int64_t least = Training(dropout_decoder(), options).minimum_budget_bytes();
      bool parameters = false;
      for (const int percent : {3, 10, 20}) {
        SCOPED_TRACE(percent);
        options.budget.device = least + (whole.plan.peak_bytes - least) * percent / 100;
        RunResult result;
        try {
          result = train(dropout_decoder(), options, micro, 3);
        } catch (const UserError& error) {  // the minimum does not include scratch that is found before the start
          EXPECT_EQ(error.kind(), UserError::Kind::does_not_fit);
          EXPECT_LT(percent, 20);
          continue;
        }
        EXPECT_EQ(result.losses, whole.losses);
        EXPECT_LE(result.used.measured_peak(), *options.budget.device);
        EXPECT_LE(result.used.arena, result.plan.arena_bytes);
        // With several micro batches segment `update`, of steps of one, never runs.
        if (!accumulate) {
          EXPECT_EQ(result.used.arena, result.plan.arena_bytes);
        }
        EXPECT_GT(result.plan.host_bytes + result.plan.disk_bytes, 0);
        parameters = parameters || result.plan.offloaded_parameter_bytes > 0;
        // Each once, however many segments update it.
        const auto trained = std::ranges::count_if(result.plan.trace.state, [&](const NamedView& entry) {
          return result.plan.trace.buffers[entry.view.buffer].role == Role::parameter;
        });
        EXPECT_LE(result.plan.host_updates, trained);
      }
      EXPECT_TRUE(parameters);
    }
}

TEST(OffloadDisk, StateOnDiskIsThatOfEager) {
  const TempFolder folder;
  TrainingOptions options;
  options.accumulate = true;
  const int64_t whole = Training(dropout_decoder(), options).plan().peak_bytes;
  options.budget.disk = int64_t{1} << 30;
  options.disk_path = folder.path();
  options.budget.device = whole / 2;
  torch::manual_seed(3);
  ASSERT_GT(Training(dropout_decoder(), options).plan().disk_bytes, 0);
  DecoderConfig config;
  config.vocab_size = 512;
  config.hidden_size = 96;
  config.num_layers = 4;
  config.num_heads = 4;
  expect_equal(
      decoder_step(config, 2, 64), options, [] { return token_batch(2, 64, 512); }, 3, 2);
}

// The disk is full: the error comes before the first step, and nothing is left behind.
TEST(OffloadDisk, WithoutRoomNothingIsTrained) {
  const TempFolder folder;
  TrainingOptions options;
  const int64_t whole = Training(dropout_decoder(), options).plan().peak_bytes;
  options.budget.disk = int64_t{1} << 30;
  options.disk_path = folder.path();
  options.budget.device = whole / 2;
  Training training(dropout_decoder(), options);
  ASSERT_TRUE(training.plan().fits);
  ASSERT_GT(training.plan().disk_bytes, 1 << 20);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{1 << 20, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  try {
    training.start();
    ADD_FAILURE() << "started";
  } catch (const DiskUnavailable& error) {
    EXPECT_EQ(error.kind(), UserError::Kind::failure);
    EXPECT_EQ(error.requested_bytes(), training.plan().disk_bytes);
    EXPECT_GT(error.available(), 0);
    EXPECT_THAT(error.what(), ::testing::HasSubstr(folder.path().string()));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("disk_budget"));
  }
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  training.start();  // when there is room again
  EXPECT_GT(training.step({token_batch(2, 64, 512)}, 1e-3).loss, 0);
}

// A disk that fails during a write is hard to provide; a page without a mapping causes the same error.
TEST(OffloadDisk, WhatTheDiskDoesNotTakeEndsTheStep) {
  const TempFolder folder;
  const int64_t page = sysconf(_SC_PAGESIZE);
  Trace trace;
  trace.modules = {""};
  trace.buffers = {{page, Role::temporary, true, false, "near", Memory::device},
                   {page, Role::temporary, true, false, "far", Memory::disk}};
  const auto whole = [&](BufferId buffer) { return View{buffer, DType::uint8, 0, {page}, {1}}; };
  for (const CopyStage stage : {CopyStage::start, CopyStage::wait}) {
    Op op;
    op.copy = stage;
    op.offload_memory = Memory::disk;
    op.arguments.push_back({Argument::Kind::tensor, stage == CopyStage::start, {whole(1)}});
    op.arguments.push_back({Argument::Kind::tensor, false, {whole(0)}});
    trace.ops.push_back(std::move(op));
  }
  trace.segments = {{SegmentKind::micro, 0, 2}};
  const Plan plan = assign_offsets(std::move(trace), {});
  CpuArena arena(plan.arena_bytes);
  DiskArena disk(folder.path(), plan.disk_bytes);
  Executor executor(plan, cpu_backend(), arena, nullptr, &disk);
  executor.run(plan.trace.segments[0], {});
  munmap(disk.data(), page);
  disk.evict(0, page, /*written=*/true);
  mmap(disk.data(), page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  try {
    executor.run(plan.trace.segments[0], {});
    ADD_FAILURE() << "went on";
  } catch (const UserError& error) {
    EXPECT_EQ(error.kind(), UserError::Kind::failure);
    EXPECT_THAT(error.what(), ::testing::HasSubstr(folder.path().string()));
  }
}

// The shape of a decoder of 7 billion parameters with 1:250 of them, and of the budget that 16 GiB are to it:
// parameters streamed, everything else in host memory, two arenas.
TEST(OffloadStreamed, ADeepDecoderTrainsInAThirdOfItsParametersGradientsAndState) {
  DecoderConfig config;
  config.vocab_size = 2048;
  config.hidden_size = 256;
  config.num_layers = testing::kSanitized ? 8 : 32;
  config.num_heads = 8;
  config.intermediate_size = 704;
  config.tie_embeddings = false;
  const Step step = decoder_step(config, 2, 64);
  TrainingOptions options;
  options.precision = Precision::bf16_true;
  options.threads = 1;
  options.accumulate = true;
  const RunResult whole = train(step, options, 2, 2);
  int64_t parameters = 0;
  for (const NamedView& entry : whole.plan.trace.state)
    if (whole.plan.trace.buffers[entry.view.buffer].role == Role::parameter) parameters += entry.view.elements();
  options.budget.host = int64_t{1} << 30;
  for (const int percent :
       testing::kSanitized ? std::vector{150}
                           : std::vector{255, 150}) {  // 16 GiB to 6.74 billion parameters are 255 % of them; and less
    SCOPED_TRACE(percent);
    options.budget.device = parameters * percent / 100;
    const RunResult streamed = train(step, options, 2, 2);
    EXPECT_EQ(streamed.losses, whole.losses);
    EXPECT_LE(streamed.used.measured_peak(), *options.budget.device);
    EXPECT_EQ(streamed.used.arena, streamed.plan.arena_bytes);
    EXPECT_EQ(streamed.used.host, streamed.plan.host_bytes);
    EXPECT_GT(streamed.plan.offloaded_state_bytes, 3 * parameters);
    if (percent == 150) {
      EXPECT_GT(streamed.plan.offloaded_parameter_bytes, 0);
    }
  }
}

// Doubles its input; needs scratch that only a run on real numbers shows, because it rejects zeros.
torch::Tensor picky(const torch::Tensor& x) {
  if (x.const_data_ptr<float>()[0] == 0) throw std::runtime_error("zeros");
  torch::empty({768 << 10}, torch::kByte).fill_(1);
  torch::Tensor result = torch::empty_like(x);
  for (int64_t i = 0; i < x.numel(); ++i) result.mutable_data_ptr<float>()[i] = 2 * x.const_data_ptr<float>()[i];
  return result;
}
torch::Tensor picky_meta(const torch::Tensor& x) {
  return torch::empty_like(x);
}
TORCH_LIBRARY(plimsoll_offload_test, library) {
  library.def("picky(Tensor x) -> Tensor");
}
TORCH_LIBRARY_IMPL(plimsoll_offload_test, CPU, library) {
  library.impl("picky", &picky);
}
TORCH_LIBRARY_IMPL(plimsoll_offload_test, Meta, library) {
  library.impl("picky", &picky_meta);
}

// Measurements of the first step cause a re-plan, and more state leaves the device: relocated buffers keep their bytes.
TEST(OffloadAnew, StateThatChangesSidesKeepsItsBytes) {
  Step step;
  step.model = [] {
    torch::nn::Sequential model;
    for (int i = 0; i < 6; ++i) model->push_back(torch::nn::Linear(128, 128));
    return model.ptr();
  };
  step.inputs = {{"x", {16, 128}, torch::kFloat}};
  step.loss = [](torch::nn::Module& model, const StepInputs& in) {
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("plimsoll_offload_test::picky", "")
                               .typed<torch::Tensor(const torch::Tensor&)>();
    return dynamic_cast<torch::nn::SequentialImpl&>(model).forward(op.call(in["x"])).square().mean();
  };
  TrainingOptions options;
  options.threads = 1;
  const auto train_it = [&] {
    torch::manual_seed(9);
    Training training(step, options);
    training.start();
    const Plan first = training.plan();
    std::vector<double> losses;
    for (int i = 0; i < 4; ++i) losses.push_back(training.step({{{"x", torch::randn({16, 128})}}}, 1e-2).loss);
    return std::tuple(losses, first.offloaded_state_bytes, training.plan().offloaded_state_bytes, first.peak_bytes);
  };
  const auto [losses, none, still_none, whole] = train_it();
  EXPECT_EQ(none + still_none, 0);
  options.budget.host = int64_t{1} << 30;
  options.budget.device = whole - (64 << 10);
  const auto [moved_losses, before, after, peak] = train_it();
  EXPECT_GT(before, 0);
  EXPECT_GT(after, before);
  EXPECT_EQ(moved_losses, losses);
}

// Remainder, evaluation, and a kernel that rejects its input during copies.
TEST(OffloadSegments, AllOfThemRunAndARefusalLeavesNothingBehind) {
  TrainingOptions options;
  options.threads = 1;
  options.accumulate = options.evaluate = true;
  options.last_micro_batch = 1;
  options.cost.overhead_seconds = 1e-7;
  for (auto& kind : options.cost.rates) kind.fill({1e9, 1e9});
  std::vector<std::vector<double>> losses(2);
  const int64_t whole = Training(dropout_decoder(), options).plan().peak_bytes;
  for (int away = 0; away < 2; ++away) {
    if (away) {
      options.budget.host = int64_t{1} << 30;
      options.budget.device = whole / 3;
    }
    torch::manual_seed(5);
    Training training(dropout_decoder(), options);
    training.start();
    EXPECT_EQ(training.plan().offloaded_saved_bytes > 0, away == 1);
    for (int step = 0; step < 3; ++step) {
      const std::vector<Batch> batches{token_batch(2, 64, 512), token_batch(2, 64, 512), token_batch(1, 64, 512)};
      losses[away].push_back(training.step(batches, 1e-3).loss);
      Batch wrong = token_batch(2, 64, 512);
      wrong["targets"][1][63] = 100000;  // rejected by the last op of forward, during the copies of values to the host
      EXPECT_THROW(training.evaluate(wrong), UserError);
      EXPECT_THROW(training.step({wrong}, 1e-3), UserError);
      losses[away].push_back(training.evaluate(token_batch(2, 64, 512)));
    }
    EXPECT_EQ(training.used().host, training.plan().host_bytes);
  }
  EXPECT_EQ(losses[0], losses[1]);
}

TEST(OffloadBudget, HostMemoryIsNotExceeded) {
  TrainingOptions options;
  const int64_t without = Training(dropout_decoder(), options).minimum_budget_bytes();
  options.budget.device = 1;
  int64_t before = Training(dropout_decoder(), options).minimum_budget_bytes();
  EXPECT_LE(before, without);
  for (int64_t host : {64 << 10, 1 << 20, 2 << 20, 8 << 20}) {
    options.budget.host = host;
    const Training training(dropout_decoder(), options);
    EXPECT_LE(training.plan().host_bytes, host);
    EXPECT_GT(training.plan().host_bytes, 0);
    EXPECT_LE(training.minimum_budget_bytes(), before);
    before = training.minimum_budget_bytes();
  }
}

}  // namespace
}  // namespace plimsoll
