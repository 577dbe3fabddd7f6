// Tests that updates in groups are the updates of their members, bit for bit.
#include <gmock/gmock.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "cost/operators.h"
#include "ops/ops_testing.h"
#include "ops/optimizer/update_group_testing.h"
#include "plimsoll/error.h"
#include "trace/merged_ops.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;
using namespace testing;

constexpr int64_t kSizes[] = {1,   2,   17,  31,   64,   96,   127,   128,   129,
                              511, 512, 513, 1024, 4095, 5000, 16384, 16385, 40000};

/// A few sizes, large and small; at times one that all threads work on.
std::vector<int64_t> some_sizes(std::mt19937& random) {
  std::vector<int64_t> sizes(1 + random() % 24);
  for (int64_t& size : sizes) size = kSizes[random() % std::size(kSizes)];
  if (random() % 4 == 0) sizes[random() % sizes.size()] = 300001;
  return sizes;
}

TEST(UpdateGroups, HaveTheBitsOfTheirMembers) {
  for (const GroupMethod& method : group_methods())
    for (const GroupKind& kind : kGroupKinds)
      for (const uint32_t seed : {1u, 2u, 3u, 4u}) {
        std::mt19937 random(seed);
        torch::manual_seed(seed);
        const Threads threads(seed % 2 == 0 ? 2 : 1);
        std::vector<GroupMember> alone = random_members(method, kind, some_sizes(random), random);
        std::vector<GroupMember> together = copies_of(alone);
        GroupStep step;
        step.stochastic_state = random() % 2 == 0;
        step.stochastic_parameter = random() % 2 == 0;
        for (; step.step < 3; ++step.step) {
          for (const GroupMember& member : alone) call(method.name, arguments_alone(method, member, step));
          call(method.group(), arguments_together(method, together, step));
        }
        expect_same_members(alone, together, c10::str(method.name, ", ", kind.name, ", seed ", seed));
      }
}

TEST(UpdateGroups, DoNotDependOnTheThreads) {
  const GroupMethod& adamw = group_methods()[0];
  std::mt19937 random(5);
  torch::manual_seed(5);
  const std::vector<int64_t> sizes(300, 257);
  std::vector<GroupMember> one = random_members(adamw, kGroupKinds[1], sizes, random), two = copies_of(one);
  {
    const Threads threads(1);
    call(adamw.group(), arguments_together(adamw, one, {}));
  }
  const Threads threads(2);
  call(adamw.group(), arguments_together(adamw, two, {}));
  expect_same_members(one, two, "two threads");
}

TEST(UpdateGroups, ChangeNothingWhereTheStepIsSkipped) {
  std::mt19937 random(6);
  for (const GroupMethod& method : group_methods()) {
    std::vector<GroupMember> members = random_members(method, kGroupKinds[1], {5, 600, 129}, random);
    members[1].gradient.values[3] = NAN;
    const std::vector<GroupMember> before = copies_of(members);
    GroupStep step;
    step.skipped = 1;
    call(method.group(), arguments_together(method, members, step));
    expect_same_members(members, before, method.name);
  }
}

TEST(UpdateGroups, MayBeEmptyAndHaveEmptyMembers) {
  const GroupMethod& lion = group_methods()[1];
  call(lion.group(), arguments_together(lion, {}, {}));
  std::mt19937 random(7);
  std::vector<GroupMember> alone = random_members(lion, kGroupKinds[0], {0, 3, 0, 0, 700, 0}, random);
  std::vector<GroupMember> together = copies_of(alone);
  for (const GroupMember& member : alone) call(lion.name, arguments_alone(lion, member, {}));
  call(lion.group(), arguments_together(lion, together, {}));
  expect_same_members(alone, together, "with empty ones");
}

// Gradients in another order are copied, all of them at the same time.
TEST(UpdateGroups, TakeTheScratchThatTheySay) {
  const GroupMethod& momentum = group_methods()[3];
  std::mt19937 random(8);
  std::vector<GroupMember> alone = random_members(momentum, kGroupKinds[0], {12 * 31, 700, 20 * 9}, random);
  alone[0].parameter = alone[0].parameter.view({12, 31}).t();
  alone[0].gradient = {at::randn({31, 12})};
  alone[2].parameter = alone[2].parameter.view({20, 9});
  alone[2].gradient = {at::randn({9, 20}).t()};
  std::vector<GroupMember> together;
  for (const GroupMember& member : alone) {
    together.push_back(member.copy());
    Tensor& copy = together.back().parameter;  // clone() keeps the order
    ASSERT_EQ(copy.strides(), member.parameter.strides());
  }
  for (const GroupMember& member : alone) call(momentum.name, arguments_alone(momentum, member, {}));
  call(momentum.group(), arguments_together(momentum, together, {}));
  for (size_t m = 0; m < alone.size(); ++m) EXPECT_TRUE(at::equal(alone[m].parameter, together[m].parameter)) << m;
  expect_workspace(momentum.group(), arguments_together(momentum, alone, {}));
  const int64_t bytes = measured_workspace(momentum.group(), arguments_together(momentum, alone, {}));
  EXPECT_EQ(bytes, (12 * 31 * 4 + 63) / 64 * 64 + (20 * 9 * 4 + 63) / 64 * 64);
}

TEST(UpdateGroups, CostTheSumOfTheirMembers) {
  std::mt19937 random(9);
  for (const GroupMethod& method : group_methods()) {
    const std::vector<GroupMember> members = random_members(method, kGroupKinds[1], {5, 600, 129}, random);
    const Op group = recorded(method.group(), arguments_together(method, members, {}), {});
    double flops = 0;
    int64_t bytes = 0;
    for (const GroupMember& member : members) {
      const Op alone = recorded(method.name, arguments_alone(method, member, {}), {});
      flops += flops_of(alone);
      bytes += bytes_moved_by(alone) - 4 * 3 - 8;  // except the scalars, which all share
    }
    EXPECT_EQ(flops_of(group), flops);
    EXPECT_EQ(bytes_moved_by(group), bytes + 4 * 3 + 8);
    EXPECT_EQ(single_name(group.name), method.name);
    EXPECT_EQ(group_name(method.name), group.name);
  }
}

TEST(UpdateGroups, RefuseWhatDoesNotBelongTogether) {
  const GroupMethod& adamw = group_methods()[0];
  std::mt19937 random(10);
  const auto refusal = [&](const std::function<void(std::vector<c10::IValue>&)>& spoil, const GroupKind& kind) {
    const std::vector<GroupMember> members = random_members(adamw, kind, {5, 600}, random);
    const std::vector<GroupMember> before = copies_of(members);
    std::vector<c10::IValue> arguments = arguments_together(adamw, members, {});
    spoil(arguments);
    // On Meta too: what is refused is so before anything runs.
    for (const c10::DispatchKey key : {c10::DispatchKey::Meta, c10::DispatchKey::CPU}) {
      try {
        torch::jit::Stack stack = arguments;
        c10::Dispatcher::singleton()
            .findSchemaOrThrow(adamw.group().c_str(), "")
            .redispatchBoxed(c10::DispatchKeySet(key), &stack);
      } catch (const UserError& error) {
        expect_same_members(members, before, "after a refusal");
        if (key == c10::DispatchKey::CPU) return std::string(error.what());
        continue;
      }
      ADD_FAILURE() << "nothing was refused";
    }
    return std::string();
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(refusal([](auto& all) { all[2] = c10::List<Tensor>({all[2].toTensorVector()[0]}); }, kGroupKinds[0]),
              HasSubstr("a group of 2 parameters was given 1 tensors as argument 2"));
  EXPECT_THAT(refusal([](auto& all) { all[5] = c10::List<Tensor>({all[5].toTensorVector()[0]}); }, kGroupKinds[1]),
              HasSubstr("was given 1 tensors as argument 5"));
  EXPECT_THAT(refusal([](auto& all) { all[4] = c10::List<Tensor>(); }, kGroupKinds[0]), HasSubstr("argument 4"));
  EXPECT_THAT(refusal(
                  [](auto& all) {
                    all[all.size() - 2] = std::vector<int64_t>{1, 2, 3};
                  },
                  kGroupKinds[0]),
              HasSubstr("a group of 3 parameters"));
  EXPECT_THAT(refusal(
                  [](auto& all) {
                    all[0] = c10::List<Tensor>({all[0].toTensorVector()[0], all[0].toTensorVector()[1].to(at::kFloat)});
                  },
                  kGroupKinds[3]),
              HasSubstr("float64 and others"));
  EXPECT_THAT(refusal(
                  [](auto& all) {
                    all[4] = c10::List<Tensor>({all[4].toTensorVector()[0], at::zeros({599})});
                  },
                  kGroupKinds[0]),
              HasSubstr("exp_avg is [599]"));
}

}  // namespace
}  // namespace plimsoll::ops
