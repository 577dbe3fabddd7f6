// Tests the optimizers' CUDA kernels against the CPU's: the same bits, in every format.
#include <gmock/gmock.h>

#include "cuda_on_cpu/operator_testing.h"
#include "ops/optimizer/optimizer_plan.h"
#include "ops/optimizer/optimizer_testing.h"
#include "ops/optimizer/update_group_testing.h"
#include "plimsoll/error.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;
using namespace testing;

constexpr int64_t kCounts[] = {1, 31, 33, 63, 64, 100, 127, 128, 129, 257, 2100};

struct Method {
  const char* name;
  std::vector<bool> squares;  ///< for each of its means
  std::vector<double> numbers;
};
const std::vector<Method>& methods() {
  static const std::vector<Method> all = {{"plimsoll::adamw_", {false, true}, {0.9, 0.95, 0.1, 1e-8}},
                                          {"plimsoll::lion_", {false}, {0.9, 0.95, 0.1}},
                                          {"plimsoll::sgd_", {}, {0.1}},
                                          {"plimsoll::momentum_sgd_", {false}, {0.9, 0.1}}};
  return all;
}

c10::IValue optional(const Tensor& tensor) {
  return tensor.defined() ? c10::IValue(tensor) : c10::IValue();
}

/// A call of an update operator; its tensors are changed by it.
struct Update {
  Tensor parameter, companion;
  Packed gradient;
  std::vector<Packed> means;
  double step = 0, skipped = 0, grad_scale = 3;
  bool stochastic = true;

  Arguments arguments(const Method& method) const {
    Arguments all{parameter, optional(companion), gradient.values, optional(gradient.scales)};
    for (const Packed& mean : means) {
      all.emplace_back(mean.values);
      all.push_back(optional(mean.scales));
    }
    const StepScalars scalars = step_scalars(0.01, grad_scale, skipped);
    for (const Tensor& scalar :
         {at::scalar_tensor(step, at::kFloat), scalars.learning_rate, scalars.grad_scale, scalars.skipped})
      all.emplace_back(scalar);
    for (double number : method.numbers) all.emplace_back(number);
    for (const c10::IValue& rounding :
         {c10::IValue(stochastic), c10::IValue(stochastic), c10::IValue(17), c10::IValue(0)})
      all.push_back(rounding);
    return all;
  }
};

/// Returns true if all tensors of two calls hold the same bytes.
bool same_tensors(const Arguments& a, const Arguments& b) {
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i].isTensor() && !same_bytes(a[i].toTensor(), b[i].toTensor())) return false;
  return true;
}

/// Calls the operator on the CPU and on the emulated GPU, and expects the same bytes in all tensors. `update`'s are
/// those of the CPU afterwards.
void expect_same(const Method& method, const Update& update, const std::string& what) {
  const Arguments on_cpu = update.arguments(method), on_cuda = copied(on_cpu);
  call(method.name, on_cpu);
  call_on_cuda(method.name, on_cuda);
  for (size_t i = 0; i < on_cpu.size(); ++i)
    EXPECT_TRUE(same_tensors({on_cpu[i]}, {on_cuda[i]})) << method.name << ", " << what << ", argument " << i;
}

Update random_update(const Method& method, int64_t count, at::ScalarType type, const FormatCase& format) {
  const Tensor value = at::randn({count}, at::kDouble);
  Update update{value.to(type), {}, {at::randn({count}).to(type)}, {}};
  for (size_t i = 0; i < method.squares.size(); ++i) update.means.push_back(zeros(format, value));
  return update;
}

TEST(CudaUpdates, HaveTheCpusBitsInEveryFormatOfTheMeans) {
  PLIMSOLL_NEEDS_GPU();
  at::manual_seed(1);
  for (const Method& method : methods())
    for (const FormatCase& format : kStateFormats)
      for (const int64_t count : kCounts) {
        Update update = random_update(method, count, at::kFloat, format);
        for (; update.step < 3; ++update.step) {
          expect_same(method, update, c10::str(format.name, ", ", count, " numbers, step ", update.step));
          update.gradient = {at::randn({count})};
        }
        if (method.squares.empty()) break;
      }
}

TEST(CudaUpdates, HaveTheCpusBitsForEveryParameterAndGradient) {
  PLIMSOLL_NEEDS_GPU();
  at::manual_seed(2);
  const Method& adamw = methods()[0];
  for (const int64_t count : {33, 128, 300})
    for (const at::ScalarType type : kTypes)
      for (const at::ScalarType of_gradient : kTypes)
        for (const bool stochastic : {true, false})
          for (const FormatCase& format : {kStateFormats[0], kStateFormats[1], kStateFormats[3]}) {
            Update update = random_update(adamw, count, type, format);
            update.gradient = {at::randn({count}).to(of_gradient)};
            update.stochastic = stochastic;
            update.step = 1000;
            expect_same(adamw, update,
                        c10::str(type, " with a gradient of ", of_gradient, ", ", format.name, ", ", count,
                                 stochastic ? " at random" : " to nearest"));
          }
}

TEST(CudaUpdates, KeepWhatIsBesideTheParameter) {
  PLIMSOLL_NEEDS_GPU();
  at::manual_seed(3);
  for (const Method& method : methods())
    for (const int64_t count : {1, 127, 600})
      for (const at::ScalarType type : {at::kBFloat16, at::kHalf})
        for (const at::ScalarType of_companion : {type, at::kShort, at::kFloat}) {
          if (of_companion == at::kShort && type == at::kHalf) continue;
          Update update = random_update(method, count, type, kStateFormats[1]);
          update.companion =
              of_companion == at::kFloat ? update.parameter.to(at::kFloat) : at::zeros({count}, of_companion);
          for (; update.step < 3; ++update.step)
            expect_same(method, update, c10::str(type, " beside ", of_companion, ", ", count));
        }
}

TEST(CudaUpdates, TakeGradientsOf8BitsAndOfAnotherOrder) {
  PLIMSOLL_NEEDS_GPU();
  at::manual_seed(4);
  const Method& adamw = methods()[0];
  for (const int64_t count : {1, 65, 128, 500}) {
    Update update = random_update(adamw, count, at::kBFloat16, kStateFormats[3]);
    update.gradient = zeros(kStateFormats[3], update.parameter);
    accumulate_(update.gradient, at::randn({count}), true, generator(5));
    expect_same(adamw, update, c10::str("8 bits, ", count));
  }
  Update update = random_update(adamw, 12 * 31, at::kFloat, kStateFormats[4]);
  update.parameter = update.parameter.view({12, 31}).t();
  update.gradient = {at::randn({31, 12})};
  expect_same(adamw, update, "a parameter transposed");
}

TEST(CudaUpdates, ChangeNothingWhereTheStepIsSkipped) {
  PLIMSOLL_NEEDS_GPU();
  for (const Method& method : methods()) {
    Update update = random_update(method, 200, at::kBFloat16, kStateFormats[3]);
    expect_same(method, update, "before");
    update.skipped = 1;
    const Arguments before = update.arguments(method), after = copied(before);
    call_on_cuda(method.name, after);
    EXPECT_TRUE(same_tensors(before, after)) << method.name;
  }
}

TEST(CudaUpdates, SayWhatIsNotFinite) {
  PLIMSOLL_NEEDS_GPU();
  const Method& adamw = methods()[0];
  for (const double bad : {INFINITY, NAN})
    for (const FormatCase& format : kStateFormats) {
      Update update = random_update(adamw, 300, at::kFloat, format);
      update.gradient.values[200] = bad;
      const Arguments arguments = update.arguments(adamw);
      call_on_cuda(adamw.name, arguments);
      const Tensor first = numbers(update.means[0], update.parameter, false);
      EXPECT_FALSE(first[200].isfinite().item<bool>()) << format.name;
      EXPECT_TRUE(first.narrow(0, 0, 128).isfinite().all().item<bool>()) << format.name;
      EXPECT_FALSE(update.parameter[200].isfinite().item<bool>());
      EXPECT_EQ(update.parameter.isfinite().sum().item<int64_t>(), 299);
    }
}

TEST(CudaUpdates, TakeTheScratchThatTheySay) {
  PLIMSOLL_NEEDS_GPU();
  Update update = random_update(methods()[0], 12 * 31, at::kFloat, kStateFormats[4]);
  expect_cuda_workspace("plimsoll::adamw_", update.arguments(methods()[0]));
  update.parameter = update.parameter.view({12, 31}).t();
  update.gradient = {at::randn({31, 12})};
  expect_cuda_workspace("plimsoll::adamw_", update.arguments(methods()[0]));
}

// More than a launch takes, in every format, empty ones among them.
TEST(CudaUpdates, HaveTheCpusBitsInGroups) {
  PLIMSOLL_NEEDS_GPU();
  std::vector<int64_t> counts;
  for (int i = 0; i < 75; ++i) counts.push_back(i % 9 == 4 ? 0 : i % 20 == 7 ? 4500 : 1 + i * 7 % 300);
  for (const GroupMethod& method : group_methods())
    for (const GroupKind& kind : kGroupKinds) {
      std::mt19937 random(13);
      at::manual_seed(13);
      std::vector<GroupMember> on_cpu = random_members(method, kind, counts, random), on_cuda = copies_of(on_cpu);
      GroupStep step;
      step.stochastic_parameter = kind.packed_means;
      for (; step.step < 2; ++step.step) {
        for (const GroupMember& member : on_cpu) call(method.name, arguments_alone(method, member, step));
        call_on_cuda(method.group(), arguments_together(method, on_cuda, step));
      }
      expect_same_members(on_cpu, on_cuda, c10::str(method.name, ", ", kind.name));
    }
}

TEST(CudaUpdates, InGroupsDoNotDependOnTheOrderOfBlocks) {
  PLIMSOLL_NEEDS_GPU();
  const GroupMethod& adamw = group_methods()[0];
  std::mt19937 random(14);
  const std::vector<GroupMember> before = random_members(adamw, kGroupKinds[1], {1, 300, 5000, 129, 64}, random);
  std::vector<GroupMember> want = copies_of(before);
  for (const GroupMember& member : want) call(adamw.name, arguments_alone(adamw, member, {}));
  in_every_order([&] {
    const std::vector<GroupMember> got = copies_of(before);
    call_on_cuda(adamw.group(), arguments_together(adamw, got, {}));
    expect_same_members(got, want, "in an order");
  });
}

TEST(CudaUpdates, InGroupsAreSkippedAndTakeTheScratchThatTheySay) {
  PLIMSOLL_NEEDS_GPU();
  std::mt19937 random(15);
  for (const GroupMethod& method : group_methods()) {
    std::vector<GroupMember> members = random_members(method, kGroupKinds[0], {12 * 31, 200}, random);
    members[0].parameter = members[0].parameter.view({12, 31}).t();
    members[0].gradient = {at::randn({31, 12})};
    expect_cuda_workspace(method.group(), arguments_together(method, members, {}));
    const std::vector<GroupMember> before = copies_of(members);
    GroupStep step;
    step.skipped = 1;
    call_on_cuda(method.group(), arguments_together(method, members, step));
    expect_same_members(members, before, method.name);
    call_on_cuda(method.group(), arguments_together(method, {}, step));
  }
}

TEST(CudaAdafactor, IsTheCpusToTheRoundingOfSums) {
  PLIMSOLL_NEEDS_GPU();
  at::manual_seed(6);
  const Method adafactor{"plimsoll::adafactor_", {}, {1.0, 0.1}};
  struct Case {
    std::vector<int64_t> sizes;
    bool transposed = false;
  };
  for (const Case& c : {Case{{1}}, Case{{300}}, Case{{7, 5}}, Case{{33, 129}}, Case{{3, 700}}, Case{{200, 3}},
                        Case{{40, 30}, true}, Case{{5, 3, 11}}})
    for (const auto& [type, of_gradient] :
         {std::pair{at::kFloat, at::kFloat}, {at::kBFloat16, at::kBFloat16}, {at::kHalf, at::kByte}}) {
      Tensor value = at::randn(c.sizes);
      if (c.transposed) value = value.t();
      Update update{value.to(type, false, true), {}, {}, {}};
      if (c.transposed) update.parameter = at::empty_strided(value.sizes(), value.strides(), type).copy_(value);
      if (of_gradient == at::kByte && !c.transposed) {
        update.gradient = zeros(kStateFormats[3], update.parameter);
        accumulate_(update.gradient, at::randn(c.sizes), true, generator(5));
      } else {
        update.gradient = {at::randn(value.sizes()).to(of_gradient == at::kByte ? at::kFloat : of_gradient)};
      }
      if (type != at::kFloat)
        update.companion = at::empty_strided(value.sizes(), value.strides(), at::kFloat).copy_(value);
      const MatrixShape shape = matrix_shape(update.parameter.sizes(), update.parameter.strides());
      update.means = {{at::zeros({shape.rows})}, {at::zeros({shape.columns})}};
      const std::string what = c10::str(value.sizes(), " ", type, ", gradient ", of_gradient);
      for (; update.step < 3; ++update.step) {
        const auto arguments_of = [&](const Update& u) {
          Arguments all{u.parameter, optional(u.companion), u.gradient.values, optional(u.gradient.scales)};
          for (const Packed& mean : u.means) {
            all.emplace_back(mean.values);
            all.emplace_back();
          }
          const Arguments others = Update{u.parameter, {}, {u.gradient}, {}, update.step}.arguments(adafactor);
          all.insert(all.end(), others.begin() + 4, others.end());
          return all;
        };
        const Arguments on_cpu = arguments_of(update), on_cuda = copied(on_cpu);
        call(adafactor.name, on_cpu);
        call_on_cuda(adafactor.name, on_cuda);
        for (const size_t i : {size_t{4}, size_t{6}})
          expect_close(on_cuda[i].toTensor(), on_cpu[i].toTensor(), 1e-6, what + ", means", 1e-30);
        expect_close(on_cuda[0].toTensor(), on_cpu[0].toTensor(),
                     type == at::kFloat  ? 1e-6
                     : type == at::kHalf ? 1e-3
                                         : 8e-3,
                     what);
        if (type != at::kFloat) expect_close(on_cuda[1].toTensor(), on_cpu[1].toTensor(), 1e-6, what + ", master");
        if (update.step == 0) expect_cuda_workspace(adafactor.name, copied(on_cpu));
      }
    }
}

TEST(CudaNesterovMomentum, HasTheCpusBits) {
  PLIMSOLL_NEEDS_GPU();
  at::manual_seed(7);
  for (const FormatCase& format : kStateFormats)
    for (const int64_t count : {1, 64, 129, 700})
      for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16})
        for (const double skipped : {0.0, 1.0}) {
          const Tensor gradient = at::randn({count}).to(dtype);
          Packed momentum = zeros(format, gradient);
          const StepScalars scalars = step_scalars(0.01, 3, skipped);
          for (int step = 0; step < 2; ++step) {
            const Arguments on_cpu{gradient,
                                   {},
                                   momentum.values,
                                   optional(momentum.scales),
                                   at::scalar_tensor(step, at::kFloat),
                                   scalars.grad_scale,
                                   scalars.skipped,
                                   0.95,
                                   dtype,
                                   true,
                                   11};
            const Arguments on_cuda = copied(on_cpu);
            const Tensor want = call("plimsoll::nesterov_momentum_", on_cpu)[0].toTensor();
            const Tensor got = call_on_cuda("plimsoll::nesterov_momentum_", on_cuda)[0].toTensor();
            EXPECT_TRUE(same_bytes(got, want)) << format.name << " " << count << " " << dtype;
            EXPECT_TRUE(same_tensors(on_cpu, on_cuda)) << format.name << " " << count;
          }
        }
}

TEST(CudaAccumulator, HasTheCpusBits) {
  PLIMSOLL_NEEDS_GPU();
  at::manual_seed(8);
  for (const FormatCase& format : kStateFormats) {
    if (format.format == Format::bits4) continue;
    for (const int64_t count : kCounts)
      for (const at::ScalarType of_gradient : kTypes) {
        Packed sum = zeros(format, at::empty({count}));
        for (const bool overwrite : {true, false}) {
          Arguments on_cpu{sum.values, optional(sum.scales), at::randn({count}).to(of_gradient), overwrite};
          std::string name = "plimsoll::accumulate_";
          if (format.format != Format::float32) name += ".random";
          Arguments on_cuda = copied(on_cpu);
          if (format.format != Format::float32) {
            on_cpu.emplace_back(generator(9));
            on_cuda.emplace_back(generator(9));
          }
          call_on(c10::DispatchKey::CPU, name, on_cpu);
          call_on_cuda(name, on_cuda);
          EXPECT_TRUE(same_tensors(on_cpu, on_cuda)) << format.name << ", " << count << " of " << of_gradient;
        }
      }
  }
}

TEST(CudaAccumulator, IsUnpackedAndHasItsNorm) {
  PLIMSOLL_NEEDS_GPU();
  at::manual_seed(10);
  for (const int64_t count : kCounts) {
    const Tensor like = at::empty({count});
    for (const FormatCase& format : {kStateFormats[3], kStateFormats[4]}) {
      Update update = random_update(methods()[0], count, at::kFloat, format);
      call("plimsoll::adamw_", update.arguments(methods()[0]));
      for (size_t i = 0; i < 2; ++i) {
        const Arguments arguments{update.means[i].values, update.means[i].scales, like, i == 1};
        EXPECT_TRUE(same_bytes(call_on_cuda("plimsoll::unpacked", arguments)[0].toTensor(),
                               call("plimsoll::unpacked", arguments)[0].toTensor()))
            << format.name << " " << count;
      }
    }
    Packed sum = zeros(kStateFormats[3], like);
    accumulate_(sum, at::randn({count}) * 1e30, true, generator(11));
    const Arguments arguments{sum.values, sum.scales};
    expect_close(call_on_cuda("plimsoll::block_norm", arguments)[0].toTensor(),
                 call("plimsoll::block_norm", arguments)[0].toTensor(), 2e-7, "norm");
    expect_cuda_workspace("plimsoll::block_norm", arguments);
    accumulate_(sum, at::full({count}, NAN), false, generator(12));
    EXPECT_FALSE(call_on_cuda("plimsoll::block_norm", arguments)[0].toTensor().isfinite().item<bool>());
  }
}

}  // namespace
}  // namespace plimsoll::ops
