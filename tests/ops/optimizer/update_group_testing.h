// Declares shared helpers of the tests of updates in groups: parameters of every kind, and their updates as single
// calls or as one call.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "ops/optimizer/optimizer_testing.h"

namespace plimsoll::ops::testing {

struct GroupMethod {
  std::string name;
  std::vector<bool> squares;  ///< for each mean, true if it is a mean of squares
  std::vector<double> numbers;

  std::string group() const { return name + "group_"; }
};
inline const std::vector<GroupMethod>& group_methods() {
  static const std::vector<GroupMethod> all = {{"plimsoll::adamw_", {false, true}, {0.9, 0.95, 0.1, 1e-8}},
                                               {"plimsoll::lion_", {false}, {0.9, 0.95, 0.1}},
                                               {"plimsoll::sgd_", {}, {0.1}},
                                               {"plimsoll::momentum_sgd_", {false}, {0.9, 0.1}}};
  return all;
}

/// Properties that all members of a group have or lack.
struct GroupKind {
  const char* name;
  enum Weights { mixed, float64, kahan, split, master } weights = mixed;
  bool packed_means = false, packed_gradients = false;
};
constexpr GroupKind kGroupKinds[] = {{"mixed", GroupKind::mixed},
                                     {"mixed, packed", GroupKind::mixed, true},
                                     {"mixed, gradients of 8 bits", GroupKind::mixed, true, true},
                                     {"float64", GroupKind::float64},
                                     {"float64, packed", GroupKind::float64, true},
                                     {"kahan", GroupKind::kahan},
                                     {"split, packed", GroupKind::split, true},
                                     {"master", GroupKind::master}};

/// A parameter with its gradient and state.
struct GroupMember {
  at::Tensor parameter, companion;
  Packed gradient;
  std::vector<Packed> means;
  int64_t seed = 0;

  GroupMember copy() const {
    GroupMember copied{
        parameter.clone(), companion.defined() ? companion.clone() : companion, clone(gradient), {}, seed};
    for (const Packed& mean : means) copied.means.push_back(clone(mean));
    return copied;
  }
  std::vector<at::Tensor> tensors() const {
    std::vector<at::Tensor> all{parameter, companion, gradient.values, gradient.scales};
    for (const Packed& mean : means) {
      all.push_back(mean.values);
      all.push_back(mean.scales);
    }
    return all;
  }
};
inline std::vector<GroupMember> copies_of(const std::vector<GroupMember>& members) {
  std::vector<GroupMember> copies;
  for (const GroupMember& member : members) copies.push_back(member.copy());
  return copies;
}

/// Returns members of these sizes, in varying formats.
inline std::vector<GroupMember> random_members(const GroupMethod& method, const GroupKind& kind,
                                               const std::vector<int64_t>& counts, std::mt19937& random) {
  const auto any_of = [&](const auto&... choices) {
    const std::array all = {choices...};
    return all[random() % all.size()];
  };
  std::vector<GroupMember> members;
  for (const int64_t count : counts) {
    const at::ScalarType type = kind.weights == GroupKind::mixed     ? any_of(at::kFloat, at::kBFloat16, at::kHalf)
                                : kind.weights == GroupKind::float64 ? at::kDouble
                                : kind.weights == GroupKind::split   ? at::kBFloat16
                                                                     : any_of(at::kBFloat16, at::kHalf);
    const at::Tensor value = at::randn({count}, at::kDouble);
    GroupMember member{value.to(type), {}, {at::randn({count}).to(any_of(at::kFloat, at::kBFloat16, at::kHalf))}, {}};
    if (kind.weights == GroupKind::kahan) member.companion = at::zeros({count}, type);
    if (kind.weights == GroupKind::split) member.companion = at::zeros({count}, at::kShort);
    if (kind.weights == GroupKind::master) member.companion = member.parameter.to(at::kFloat);
    if (kind.packed_gradients) {
      member.gradient = zeros(kStateFormats[3], value);
      accumulate_(member.gradient, at::randn({count}), true, generator(random()));
    }
    for (size_t i = 0; i < method.squares.size(); ++i)
      member.means.push_back(zeros(kind.packed_means ? any_of(kStateFormats[3], kStateFormats[4])
                                                     : any_of(kStateFormats[0], kStateFormats[1], kStateFormats[2]),
                                   value));
    member.seed = static_cast<int64_t>(random());
    members.push_back(std::move(member));
  }
  return members;
}

/// Arguments of a call other than its parameters.
struct GroupStep {
  double step = 0, grad_scale = 3, skipped = 0;
  bool stochastic_state = true, stochastic_parameter = true;

  void add_to(std::vector<c10::IValue>& arguments, const GroupMethod& method, c10::IValue seeds) const {
    const StepScalars scalars = step_scalars(0.01, grad_scale, skipped);
    for (const at::Tensor& scalar :
         {at::scalar_tensor(step, at::kFloat), scalars.learning_rate, scalars.grad_scale, scalars.skipped})
      arguments.emplace_back(scalar);
    for (const double number : method.numbers) arguments.emplace_back(number);
    arguments.emplace_back(stochastic_state);
    arguments.emplace_back(stochastic_parameter);
    // Whole parameters begin at element 0.
    const c10::IValue first =
        seeds.isInt() ? c10::IValue(int64_t{0}) : c10::IValue(std::vector<int64_t>(seeds.toIntVector().size(), 0));
    arguments.push_back(std::move(seeds));
    arguments.push_back(first);
  }
};

/// Calls the member's own operator.
inline std::vector<c10::IValue> arguments_alone(const GroupMethod& method, const GroupMember& member,
                                                const GroupStep& step) {
  std::vector<c10::IValue> arguments;
  for (const at::Tensor& tensor : member.tensors())
    arguments.push_back(tensor.defined() ? c10::IValue(tensor) : c10::IValue());
  step.add_to(arguments, method, member.seed);
  return arguments;
}

/// Calls the operator for all of them.
inline std::vector<c10::IValue> arguments_together(const GroupMethod& method, const std::vector<GroupMember>& members,
                                                   const GroupStep& step) {
  std::vector<c10::List<at::Tensor>> lists(4 + 2 * method.squares.size());
  std::vector<int64_t> seeds;
  for (const GroupMember& member : members) {
    const std::vector<at::Tensor> tensors = member.tensors();
    for (size_t i = 0; i < tensors.size(); ++i)
      if (tensors[i].defined()) lists[i].push_back(tensors[i]);
    seeds.push_back(member.seed);
  }
  std::vector<c10::IValue> arguments(lists.begin(), lists.end());
  step.add_to(arguments, method, seeds);
  return arguments;
}

inline void expect_same_members(const std::vector<GroupMember>& a, const std::vector<GroupMember>& b,
                                const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t m = 0; m < a.size(); ++m) {
    const auto first = a[m].tensors(), second = b[m].tensors();
    for (size_t i = 0; i < first.size(); ++i)
      EXPECT_TRUE(same_bytes(first[i], second[i]))
          << what << ": tensor " << i << " of member " << m << " of " << a[m].parameter.numel() << " elements";
  }
}

}  // namespace plimsoll::ops::testing
