// Tests the update operators against the plain reference, in every format.
#include <gmock/gmock.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <functional>

#include "ops/ops_testing.h"
#include "ops/optimizer/optimizer_plan.h"
#include "ops/optimizer/optimizer_testing.h"
#include "plimsoll/error.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;
using namespace testing;

constexpr double kRate = 0.01, kBeta1 = 0.9, kBeta2 = 0.95, kDecay = 0.1, kEps = 1e-8;

/// One of the element-wise optimizers: its operator, its reference, and how many means it has.
struct Method {
  const char* name;
  int means;
  std::function<void(const UpdatedTensors&, const std::vector<Packed>&, const Tensor& step, const StepScalars&)> update;
  std::function<reference::Element(reference::Element, double step)> reference;
};
const std::vector<Method>& methods() {
  static const std::vector<Method> all = {
      {"adamw", 2,
       [](auto& tensors, auto& means, auto& step, auto& scalars) {
         adamw_(tensors, means[0], means[1], step, scalars, kBeta1, kBeta2, kDecay, kEps);
       },
       [](auto e, double step) { return reference::adamw(e, step, kRate, kBeta1, kBeta2, kDecay, kEps); }},
      {"lion", 1,
       [](auto& tensors, auto& means, auto& step, auto& scalars) {
         lion_(tensors, means[0], step, scalars, kBeta1, kBeta2, kDecay);
       },
       [](auto e, double) { return reference::lion(e, kRate, kBeta1, kBeta2, kDecay); }},
      {"sgd with momentum", 1,
       [](auto& tensors, auto& means, auto& step, auto& scalars) {
         sgd_(tensors, means[0], step, scalars, kBeta1, kDecay);
       },
       [](auto e, double) { return reference::sgd(e, kRate, kBeta1, kDecay); }},
      {"sgd", 0, [](auto& tensors, auto&, auto& step, auto& scalars) { sgd_(tensors, {}, step, scalars, 0, kDecay); },
       [](auto e, double) { return reference::sgd(e, kRate, 0, kDecay); }}};
  return all;
}

/// A parameter with its state, updated step by step.
struct Updated {
  const Method& method;
  Tensor parameter, companion;
  std::vector<Packed> means;
  UpdateRounding rounding;
  int64_t steps = 0;

  Updated(const Method& m, const Tensor& value, const FormatCase& format = kStateFormats[0])
      : method(m), parameter(value.clone()) {
    for (int i = 0; i < m.means; ++i) means.push_back(zeros(format, value));
    rounding.stochastic_state = format.format != Format::float32;
  }
  void step(const Packed& gradient, double grad_scale = 1, double skipped = 0) {
    method.update({parameter, companion, gradient, rounding}, means,
                  at::scalar_tensor(static_cast<double>(steps), at::kFloat), step_scalars(kRate, grad_scale, skipped));
    ++steps;
  }
  std::vector<Tensor> tensors() const {
    std::vector<Tensor> all{parameter, companion};
    for (const Packed& mean : means) {
      all.push_back(mean.values);
      all.push_back(mean.scales);
    }
    return all;
  }
  std::vector<Tensor> copies() const {
    std::vector<Tensor> all;
    for (const Tensor& tensor : tensors()) all.push_back(tensor.defined() ? tensor.clone() : Tensor());
    return all;
  }
};

void expect_same_bytes(const std::vector<Tensor>& a, const std::vector<Tensor>& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(same_bytes(a[i], b[i])) << what << ", tensor " << i;
}

TEST(UpdateOps, FollowTheReference) {
  torch::manual_seed(1);
  for (const Method& method : methods()) {
    for (const auto type : {at::kFloat, at::kDouble}) {
      for (const int64_t count : {1, 17, 512, 1300}) {
        Updated run(method, torch::randn({count}, type));
        for (Packed& mean : run.means) mean.values = mean.values.to(type);
        std::vector<reference::Element> want;
        for (float p : vector_of(run.parameter)) want.push_back({p, 0});
        if (type == at::kDouble)
          for (int64_t i = 0; i < count; ++i) want[static_cast<size_t>(i)].p = run.parameter[i].item<double>();
        for (int step = 1; step <= 3; ++step) {
          const Tensor gradient = torch::randn({count});
          run.step({gradient}, /*grad_scale=*/4);
          for (int64_t i = 0; i < count; ++i) {
            auto& e = want[static_cast<size_t>(i)];
            e.g = static_cast<double>(gradient[i].item<float>()) / 4;
            e = method.reference(e, step);
          }
        }
        const double error = type == at::kDouble ? 1e-12 : 3e-6;
        for (int64_t i = 0; i < count; ++i) {
          const auto& e = want[static_cast<size_t>(i)];
          EXPECT_NEAR(run.parameter[i].item<double>(), e.p, error * (1 + std::abs(e.p))) << method.name;
          const double means[] = {e.first, e.second};
          for (size_t m = 0; m < run.means.size(); ++m)
            EXPECT_NEAR(run.means[m].values[i].item<double>(), means[m], error) << method.name;
        }
      }
    }
  }
}

// A step from packed means is the step from the same means in float32, and its new means are those, packed.
TEST(UpdateOps, PackTheMeansThatFloat32Has) {
  torch::manual_seed(2);
  for (const Method& method : methods()) {
    for (const FormatCase& format : kStateFormats) {
      for (const int64_t count : {1, 31, 64, 129, 512, 1700}) {
        Updated run(method, torch::randn({count}), format), wide(method, run.parameter);
        run.rounding.seed = 7;
        for (uint64_t step = 0; step < 4; ++step) {
          for (size_t m = 0; m < run.means.size(); ++m)
            wide.means[m].values = numbers(run.means[m], run.parameter, m == 1);
          wide.parameter = run.parameter.clone();
          const Tensor gradient = torch::randn({count}) * at::pow(10.0, torch::rand({count}) * -6);
          run.step({gradient});
          wide.step({gradient});
          EXPECT_TRUE(at::equal(run.parameter, wide.parameter)) << method.name << ", " << format.name;
          for (size_t m = 0; m < run.means.size() && is_packed(format.format); ++m) {
            const reference::Block want = reference::pack(format.format, m == 1, vector_of(wide.means[m].values),
                                                          draw_of_step(7, static_cast<double>(step)));
            EXPECT_EQ(scales_of_packed(run.means[m]), want.scales) << method.name << ", " << format.name;
            EXPECT_EQ(codes_of(run.means[m], format.format, count), want.codes) << method.name << ", " << format.name;
          }
        }
      }
    }
  }
}

// The second mean is a divisor: it is zero only if no gradient ever was nonzero.
TEST(UpdateOps, SquaresDoNotBecomeZero) {
  torch::manual_seed(3);
  for (const FormatCase& format : kStateFormats) {
    if (!is_packed(format.format)) continue;
    const Tensor gradient = torch::randn({512}) * at::pow(10.0, torch::rand({512}) * -12);
    gradient[5] = 0;
    Updated run(methods()[0], torch::randn({512}), format);
    double largest = 0;
    for (uint64_t step = 0; step < 20; ++step) {
      const Tensor before = run.parameter.clone();
      run.step({step == 0 ? gradient : gradient * 1e-3});
      const Tensor moved = (run.parameter - before * (1 - kRate * kDecay)) / kRate;
      largest = std::max(largest, moved.abs().max().item<double>());
      const Tensor zero = numbers(run.means[1], gradient, true).eq(0);
      EXPECT_EQ(zero.sum().item<int64_t>(), 1) << format.name << " step " << step;
      EXPECT_TRUE(zero[5].item<bool>());
    }
    EXPECT_LT(largest, 12) << format.name;  // learning rates, for which a single zero would give millions
  }
}

TEST(UpdateOps, Remainders32BitsAreFloat32ToTheBit) {
  torch::manual_seed(4);
  for (const Method& method : methods()) {
    const Tensor value = torch::randn({1000}).to(at::kBFloat16);
    Updated wide(method, value.to(at::kFloat)), split(method, value), master(method, value);
    split.companion = at::zeros({1000}, at::kShort);
    master.companion = value.to(at::kFloat);
    for (int step = 0; step < 50; ++step) {
      const Tensor gradient = torch::randn({1000}).to(at::kBFloat16);
      for (Updated* run : {&wide, &split, &master}) run->step({gradient}, 3);
    }
    const Tensor high = at::bitwise_left_shift(split.parameter.view(at::kShort).to(at::kInt), 16);
    const Tensor whole = (high + split.companion.to(at::kInt)).view(at::kFloat);
    EXPECT_TRUE(same_bytes(whole, wide.parameter)) << method.name;
    EXPECT_TRUE(same_bytes(master.companion, wide.parameter)) << method.name;
    EXPECT_TRUE(same_bytes(master.parameter, wide.parameter.to(at::kBFloat16))) << method.name;
    EXPECT_LE((split.parameter.to(at::kFloat) - wide.parameter).abs().max().item<double>(), 1.0 / 64);
    for (size_t m = 0; m < wide.means.size(); ++m) EXPECT_TRUE(same_bytes(split.means[m].values, wide.means[m].values));
  }
}

// Updates of a thousandth of the parameter, less than half of what its last bit is worth.
TEST(UpdateOps, SmallUpdatesOf16BitsAreLostWithoutHelp) {
  const StepScalars scalars = step_scalars(1.0 / 1024);
  const Tensor ones = at::ones({4096}, at::kFloat);
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    const auto after = [&](const Tensor& companion, bool stochastic) {
      Tensor p = at::full({4096}, 2.0, type);
      for (uint64_t i = 0; i < 128; ++i)
        sgd_({p, companion, {ones * (type == at::kHalf ? 0.125 : 1)}, {false, stochastic}}, {},
             at::full({}, static_cast<double>(i)), scalars, 0, 0);
      return p.to(at::kFloat).mean().item<double>();
    };
    const double want = 2 - 0.125 * (type == at::kHalf ? 0.125 : 1);
    EXPECT_EQ(after({}, false), 2.0);
    EXPECT_NEAR(after({}, true), want, 0.002);
    EXPECT_NEAR(after(at::zeros({4096}, type), false), want, 0.008);
    EXPECT_NEAR(after(at::full({4096}, 2.0f), false), want, 1e-6);
    if (type == at::kBFloat16) {
      EXPECT_NEAR(after(at::zeros({4096}, at::kShort), false), want, 1e-6);
    }
  }
}

TEST(UpdateOps, KahansSumStaysNearFloat32) {
  torch::manual_seed(5);
  const Method& adamw = methods()[0];
  const Tensor value = torch::randn({2000}).to(at::kBFloat16);
  Updated wide(adamw, value.to(at::kFloat)), kahan(adamw, value), nearest(adamw, value);
  kahan.companion = at::zeros_like(value);
  for (int step = 0; step < 100; ++step) {
    const Tensor gradient = torch::randn({2000}) * 0.3 + 1;
    for (Updated* run : {&wide, &kahan, &nearest}) run->step({gradient * 0.01});
  }
  const auto error = [&](const Tensor& p) { return (p - wide.parameter).abs().mean().item<double>(); };
  EXPECT_LT(error(kahan.parameter.to(at::kFloat) + kahan.companion.to(at::kFloat)), 2e-4);
  EXPECT_LT(error(kahan.parameter.to(at::kFloat)), 4e-3);
}

TEST(UpdateOps, NothingChangesWhereTheStepIsSkipped) {
  torch::manual_seed(6);
  for (const Method& method : methods()) {
    for (const FormatCase& format : kStateFormats) {
      for (const auto type : {at::kFloat, at::kBFloat16}) {
        Updated run(method, torch::randn({700}).to(type), format);
        if (type == at::kBFloat16) run.companion = at::zeros({700}, at::kShort);
        run.step({torch::randn({700})});
        const auto before = run.copies();
        Tensor gradient = torch::randn({700});
        gradient[3] = NAN;
        run.step({gradient}, 1, /*skipped=*/1);
        expect_same_bytes(run.tensors(), before, std::string(method.name) + ", " + format.name);
      }
    }
  }
}

TEST(UpdateOps, DoNotDependOnTheThreadsAndRepeat) {
  torch::manual_seed(7);
  for (const Method& method : methods()) {
    for (const FormatCase& format : kStateFormats) {
      const Tensor value = torch::randn({60001}).to(at::kBFloat16), gradient = torch::randn({60001});
      std::vector<std::vector<Tensor>> results;
      for (int threads : {1, 2, 2}) {
        at::set_num_threads(threads);
        Updated run(method, value, format);
        run.rounding = {true, true, 11};
        run.step({gradient});
        run.step({gradient});
        results.push_back(run.copies());
      }
      expect_same_bytes(results[0], results[1], method.name);
      expect_same_bytes(results[1], results[2], method.name);
    }
  }
}

// For a chunk or for a few elements, first or last, the numbers are the same.
TEST(UpdateOps, AnElementDoesNotDependOnItsNeighbors) {
  torch::manual_seed(8);
  for (const Method& method : methods()) {
    const Tensor value = torch::randn({1203}), gradient = torch::randn({1203});
    Updated whole(method, value);
    whole.step({gradient}, 3);
    for (const auto& [begin, count] : {std::pair{0, 5}, {7, 16}, {500, 100}, {1200, 3}}) {
      Updated part(method, value.narrow(0, begin, count));
      part.step({gradient.narrow(0, begin, count)}, 3);
      EXPECT_TRUE(same_bytes(part.parameter, whole.parameter.narrow(0, begin, count).clone())) << method.name;
    }
  }
}

TEST(UpdateOps, TakeAnAccumulatorOf8BitsForTheirGradient) {
  torch::manual_seed(9);
  for (const Method& method : methods()) {
    const Tensor value = torch::randn({777}), gradient = torch::randn({777});
    const Packed sum = zeros(kStateFormats[3], value);
    accumulate_(sum, gradient, true, generator(1));
    Updated packed(method, value), plain(method, value);
    packed.step(sum, 2);
    plain.step({unpacked(sum, value, false)}, 2);
    expect_same_bytes(packed.tensors(), plain.tensors(), method.name);
  }
}

TEST(UpdateOps, WalkThroughMemoryAsTheParameterLies) {
  torch::manual_seed(10);
  const Tensor value = torch::randn({2, 3, 8, 8}).contiguous(at::MemoryFormat::ChannelsLast);
  const Tensor gradient = torch::randn({2, 3, 8, 8});
  for (const Method& method : methods()) {
    Updated last(method, value), plain(method, value.contiguous());
    last.parameter = value.clone();
    ASSERT_FALSE(last.parameter.is_contiguous());
    last.step({gradient});
    plain.step({gradient});
    EXPECT_TRUE(at::equal(last.parameter, plain.parameter)) << method.name;
  }
  const auto arguments = [&](const Tensor& g) {
    const Tensor of = g.dim() == 2 ? at::zeros(g.sizes()) : value.clone();
    return std::vector<c10::IValue>{of,
                                    c10::IValue(),
                                    g,
                                    c10::IValue(),
                                    at::zeros({}),
                                    at::scalar_tensor(kRate, at::kDouble),
                                    at::ones({}),
                                    at::zeros({}),
                                    0.0,
                                    false,
                                    false,
                                    0,
                                    0};
  };
  expect_workspace("plimsoll::sgd_", arguments(gradient));
  // A matrix that is turned: libtorch's own copy of it would take a buffer from 3600 numbers on.
  expect_workspace("plimsoll::sgd_", arguments(torch::randn({90, 70}).t()));
  expect_workspace("plimsoll::accumulate_", {at::zeros({70, 90}), c10::IValue(), torch::randn({90, 70}).t(), true});
  expect_workspace("plimsoll::sgd_", arguments(gradient.contiguous(at::MemoryFormat::ChannelsLast)));
}

struct AdafactorRun {
  Tensor parameter, rows, columns;
  bool stochastic = false;
  int64_t steps = 0;
  explicit AdafactorRun(const Tensor& value) : parameter(value.clone()) {
    const MatrixShape shape = matrix_shape(value.sizes(), value.strides());
    rows = at::zeros({shape.rows});
    columns = at::zeros({shape.columns});
  }
  void step(const Packed& gradient, double grad_scale = 1, double skipped = 0) {
    adafactor_({parameter, {}, gradient, {false, stochastic}}, rows, columns,
               at::scalar_tensor(static_cast<double>(steps), at::kFloat), step_scalars(kRate, grad_scale, skipped), 1.0,
               kDecay);
    ++steps;
  }
};

TEST(Adafactor, FollowsTheReference) {
  torch::manual_seed(11);
  for (const auto& sizes : std::vector<std::vector<int64_t>>{
           {1}, {700}, {1, 9}, {9, 1}, {3, 5}, {40, 700}, {300, 7}, {513, 513}, {2000, 33}, {6, 4, 3, 3}}) {
    AdafactorRun run(torch::randn(sizes));
    const int64_t rows = run.rows.numel(), columns = run.columns.numel();
    EXPECT_EQ(rows, sizes.size() < 2 ? 1 : sizes[0] > 1 ? sizes[0] : sizes[1]);
    reference::Adafactor want{rows,
                              columns,
                              {},
                              std::vector<double>(static_cast<size_t>(rows)),
                              std::vector<double>(static_cast<size_t>(columns))};
    for (float p : vector_of(run.parameter)) want.p.push_back(p);
    for (int step = 1; step <= 3; ++step) {
      // The second step is ten times longer than the mean so far: it is clipped.
      const Tensor gradient = torch::randn(sizes) * (step == 2 ? 10 : 1) *
                              torch::rand({columns}).view({1, -1}).expand({rows, columns}).reshape(sizes);
      run.step({gradient}, 2);
      std::vector<double> g;
      for (float each : vector_of(gradient)) g.push_back(static_cast<double>(each) / 2);
      want.step(g, step, kRate, 1.0, kDecay);
    }
    const auto as_tensor = [&](const std::vector<double>& numbers, const Tensor& like) {
      return torch::tensor(numbers, at::kDouble).view(like.sizes());
    };
    expect_close(run.parameter, as_tensor(want.p, run.parameter), 2e-6, "parameter");
    expect_close(run.rows, as_tensor(want.row_mean, run.rows), 2e-6, "row means");
    expect_close(run.columns, as_tensor(want.column_mean, run.columns), 2e-6, "column means");
  }
}

TEST(Adafactor, IsTheSameInEveryFormatAndForAnyThreads) {
  torch::manual_seed(12);
  const Tensor value = torch::randn({321, 123}).to(at::kBFloat16), gradient = torch::randn({321, 123});
  const Packed sum = zeros(kStateFormats[3], value);
  accumulate_(sum, gradient, true, generator(1));
  AdafactorRun packed(value.to(at::kFloat)), plain(value.to(at::kFloat));
  packed.step(sum);
  plain.step({unpacked(sum, value, false)});
  EXPECT_TRUE(same_bytes(packed.parameter, plain.parameter));
  std::vector<Tensor> results;
  for (int threads : {1, 2}) {
    at::set_num_threads(threads);
    AdafactorRun run(value);
    run.stochastic = true;
    run.step({gradient});
    run.step({gradient});
    results.push_back(run.parameter);
  }
  EXPECT_TRUE(same_bytes(results[0], results[1]));
  Tensor bad = gradient.clone();
  bad[7][7] = INFINITY;
  const Tensor before[] = {plain.parameter.clone(), plain.rows.clone(), plain.columns.clone()};
  plain.step({bad}, 1, 1);
  EXPECT_TRUE(same_bytes(plain.parameter, before[0]));
  EXPECT_TRUE(same_bytes(plain.rows, before[1]));
  EXPECT_TRUE(same_bytes(plain.columns, before[2]));
}

TEST(Adafactor, TakesTheScratchThatItSays) {
  for (const auto& sizes : std::vector<std::vector<int64_t>>{{5}, {64, 48}, {300, 1000}, {2, 3, 8, 8}}) {
    const Tensor value = torch::randn(sizes);
    const AdafactorRun run(value);
    for (const Tensor& gradient : {value, value.transpose(0, -1).contiguous().transpose(0, -1)})
      expect_workspace("plimsoll::adafactor_",
                       {value, c10::IValue(), gradient, c10::IValue(), run.rows, c10::IValue(), run.columns,
                        c10::IValue(), at::zeros({}), at::scalar_tensor(kRate, at::kDouble), at::ones({}),
                        at::zeros({}), 1.0, 0.0, false, false, 0, 0});
  }
}

TEST(NesterovMomentum, LooksAhead) {
  torch::manual_seed(13);
  const Tensor gradient = torch::randn({70, 33});
  for (const FormatCase& format : kStateFormats) {
    const Packed momentum = zeros(format, gradient);
    const auto moved_by = [&](const Tensor& g, double number, double skipped, at::ScalarType type) {
      return nesterov_momentum_({g}, momentum, at::full({}, number), step_scalars(0, 2, skipped), 0.9, type, {true});
    };
    moved_by(gradient, 0, 0, at::kFloat);
    const Tensor before = numbers(momentum, gradient, false), moved = moved_by(gradient, 1, 0, at::kFloat);
    const Tensor mean = 0.9 * before + gradient / 2;
    expect_close(moved, gradient / 2 + 0.9 * mean, 1e-6, format.name);
    const double error = format.format == Format::float32 ? 1e-6 : format.format == Format::bits4 ? 0.5 : 0.13;
    expect_close(numbers(momentum, gradient, false), mean, error, format.name);
    const Packed kept = clone(momentum);
    const Tensor nothing = moved_by(gradient * NAN, 2, 1, at::kBFloat16);
    EXPECT_EQ(nothing.count_nonzero().item<int64_t>(), 0);
    EXPECT_TRUE(same_bytes(kept.values, momentum.values) && same_bytes(kept.scales, momentum.scales));
  }
  expect_workspace("plimsoll::nesterov_momentum_",
                   {gradient.t(), c10::IValue(), at::zeros({33, 70}), c10::IValue(), at::zeros({}), at::ones({}),
                    at::zeros({}), 0.9, static_cast<int64_t>(at::kFloat), false, 0});
}

TEST(UpdateOps, RefuseWhatDoesNotBelongTogether) {
  const Tensor p = torch::randn({300});
  const auto refusal = [&](const std::function<void(Updated&)>& spoil, const Packed& gradient = {torch::randn({300})}) {
    Updated run(methods()[0], p);
    spoil(run);
    const auto before = run.copies();
    try {
      run.step(gradient);
    } catch (const UserError& error) {
      expect_same_bytes(run.tensors(), before, "after a refusal");
      return std::string(error.what());
    }
    return std::string("nothing was refused");
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(refusal([](Updated& run) { run.means[0].values = at::zeros({299}); }), HasSubstr("exp_avg is [299]"));
  EXPECT_THAT(refusal([](Updated& run) {
                run.means[1] = {at::zeros({300}, at::kByte), at::zeros({9}, at::kByte)};
              }),
              HasSubstr("exp_avg_sq has 9 scales"));
  EXPECT_THAT(refusal([](Updated& run) { run.companion = at::zeros({300}); }), HasSubstr("only 16-bit ones"));
  EXPECT_THAT(refusal([](Updated& run) { run.parameter = at::zeros({300}, at::kInt); }), HasSubstr("Int"));
  EXPECT_THAT(refusal([](Updated& run) { run.parameter = at::zeros({1}).expand({300}); }), HasSubstr("not dense"));
  EXPECT_THAT(refusal([](Updated&) {}, {torch::randn({301})}), HasSubstr("[301]"));
  EXPECT_THAT(refusal([](Updated& run) {
                run.parameter = run.parameter.to(at::kHalf);
                run.companion = at::zeros({300}, at::kShort);
              }),
              HasSubstr("companion"));
}

}  // namespace
}  // namespace plimsoll::ops
