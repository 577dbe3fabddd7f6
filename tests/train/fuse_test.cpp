// Tests `compile` on and off over the shapes of five systems: the same losses and the same state, bit for bit, with
// less memory traffic, under the given budget.
#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "plan/placement/validator.h"
#include "run/equality.h"
#include "train/system_shapes.h"

namespace plimsoll {
namespace {

using testing::SystemShape;

struct FusedRun {
  std::vector<double> losses;
  std::vector<torch::Tensor> state;
  Plan plan;
  MemoryUse used;
};

class Fuse : public ::testing::TestWithParam<std::tuple<size_t, Precision>> {
 protected:
  Fuse() : shape_(testing::system_shapes()[std::get<0>(GetParam())]) {
    torch::manual_seed(11);
    for (int i = 0; i < 4; ++i) batches_.push_back(shape_.batch());
    options_.precision = std::get<1>(GetParam());
    options_.threads = 1;
    options_.accumulate = true;
  }

  FusedRun train(Choice compile, std::optional<int64_t> budget = {}) {
    options_.compile = compile;
    options_.budget.device = budget;
    Training training(shape_.step, options_);
    training.start();
    FusedRun run;
    for (size_t i = 0; i < batches_.size(); i += 2)
      run.losses.push_back(training.step(std::vector<testing::Batch>{batches_[i], batches_[i + 1]}, 1e-3).loss);
    for (const auto& [name, tensor] : training.state()) run.state.push_back(tensor.clone());
    run.plan = training.plan();
    run.used = training.used();
    return run;
  }

  static void expect_same(const FusedRun& a, const FusedRun& b) {
    EXPECT_EQ(a.losses, b.losses);
    ASSERT_EQ(a.state.size(), b.state.size());
    for (size_t i = 0; i < a.state.size(); ++i) EXPECT_TRUE(testing::same_bits(a.state[i], b.state[i])) << i;
  }

  SystemShape shape_;
  std::vector<testing::Batch> batches_;
  TrainingOptions options_;
};

int64_t moved(const Plan& plan) {
  int64_t bytes = 0;
  for (const Op& op : plan.trace.ops) bytes += op.bytes_moved;
  return bytes;
}

TEST_P(Fuse, LossesStayAndFewerBytesMove) {
  const FusedRun plain = train(Choice::off), automatic = train(Choice::automatic), all = train(Choice::on);
  EXPECT_EQ(plain.plan.fused_ops, 0);
  EXPECT_GT(automatic.plan.fused_ops, 0);
  EXPECT_GE(all.plan.fused_ops, automatic.plan.fused_ops);
  expect_same(plain, automatic);
  expect_same(plain, all);
  EXPECT_LT(moved(all.plan), moved(plain.plan));
  EXPECT_LT(moved(automatic.plan), moved(plain.plan));
  EXPECT_LE(automatic.plan.live_bytes, plain.plan.live_bytes);
  // Other buffers, another placement: the same live bytes may take a little more.
  EXPECT_LE(automatic.plan.peak_bytes, plain.plan.peak_bytes + plain.plan.peak_bytes / 50);
  EXPECT_LE(automatic.used.measured_peak(), automatic.plan.peak_bytes);
  EXPECT_EQ(find_fault(automatic.plan), "");
  EXPECT_EQ(find_fault(all.plan), "");
}

// A recomputed value is fused with its reader.
TEST_P(Fuse, LossesStayUnderTheLeastBudget) {
  const FusedRun plain = train(Choice::off);
  options_.compile = Choice::automatic;
  const Plan whole = Training(shape_.step, options_).plan();
  options_.budget.device = 1;
  const int64_t least = Training(shape_.step, options_).minimum_budget_bytes();
  const FusedRun lean = train(Choice::automatic, std::max(least, whole.peak_bytes * 3 / 4));
  expect_same(plain, lean);
  EXPECT_LE(lean.used.measured_peak(), lean.plan.budget.device_bytes());
}

// Among copies that are under way, updates within backward, and on two threads.
TEST_P(Fuse, LossesStayWhereValuesAreMovedAndUpdatesRunInBackward) {
  options_.threads = 2;
  options_.update_in_backward = Choice::on;
  options_.gradient_checkpointing = Choice::off;  // the rest is offloaded
  options_.max_grad_norm = 0;
  options_.accumulate = false;
  batches_.resize(2);
  const auto each_alone = [&](Choice compile, std::optional<int64_t> budget) {
    options_.compile = compile;
    options_.budget.device = budget;
    Training training(shape_.step, options_);
    training.start();
    FusedRun run;
    for (const testing::Batch& batch : batches_) run.losses.push_back(training.step({batch}, 1e-3).loss);
    for (const auto& [name, tensor] : training.state()) run.state.push_back(tensor.clone());
    run.plan = training.plan();
    run.used = training.used();
    return run;
  };
  const FusedRun plain = each_alone(Choice::off, {});
  options_.budget.host = plain.plan.peak_bytes * 4;
  const int64_t budget = plain.plan.peak_bytes * 7 / 10;
  for (const Choice compile : {Choice::automatic, Choice::on}) {
    const FusedRun moved = each_alone(compile, budget);
    EXPECT_GT(moved.plan.host_bytes, 0);
    if (compile == Choice::on) {
      EXPECT_GT(moved.plan.fused_ops, 0);
    }
    EXPECT_EQ(find_fault(moved.plan), "");
    EXPECT_LE(moved.used.measured_peak(), budget);
    expect_same(plain, moved);
  }
}

INSTANTIATE_TEST_SUITE_P(Systems, Fuse,
                         ::testing::Combine(::testing::Range<size_t>(0, testing::system_shapes().size()),
                                            ::testing::Values(Precision::fp32_true, Precision::bf16_mixed)),
                         [](const auto& info) {
                           const bool mixed = std::get<1>(info.param) == Precision::bf16_mixed;
                           std::string name = testing::system_shapes()[std::get<0>(info.param)].name;
                           std::erase_if(name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); });
                           return name + (mixed ? "Mixed" : "");
                         });

}  // namespace
}  // namespace plimsoll
