#include "ops/scan/ssd_scan.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <random>

#include "ops/ops_testing.h"
#include "plimsoll/error.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;
using namespace testing;

struct ScanCase {
  int64_t batch, time, heads, width, groups, state, chunk;
  bool reverse = false;
};

const std::vector<ScanCase>& scan_cases() {
  static const std::vector<ScanCase> all = {
      {1, 1, 1, 1, 1, 1, 4},      {2, 7, 2, 3, 1, 5, 3},        {1, 33, 4, 16, 2, 8, 8},
      {2, 64, 3, 20, 3, 17, 16},  {1, 50, 2, 32, 1, 16, 64},    {3, 29, 4, 8, 2, 40, 10, true},
      {1, 100, 2, 16, 1, 32, 32}, {2, 41, 6, 5, 3, 4, 7, true}, {1, 130, 2, 33, 2, 24, 64, true},
  };
  return all;
}

std::string name(const ScanCase& c) {
  return c10::str("B=", c.batch, " T=", c.time, " H=", c.heads, " P=", c.width, " G=", c.groups, " N=", c.state,
                  " chunk=", c.chunk, c.reverse ? " reverse" : "");
}

struct Operands {
  Tensor x, dt, a, b, c, d;
  std::vector<Tensor> all() const { return {x, dt, a, b, c, d}; }
  Operands map(const auto& f) const { return {f(x), f(dt), f(a), f(b), f(c), f(d)}; }
};

/// Returns random operands: x, B and C in `type`, the others in float64 if `type` is that, else in float32.
Operands random_operands(const ScanCase& c, at::ScalarType type) {
  const auto wide = type == at::kDouble ? at::kDouble : at::kFloat;
  return {torch::randn({c.batch, c.time, c.heads, c.width}, at::kDouble).to(type),
          (0.02 + 0.5 * torch::rand({c.batch, c.time, c.heads}, at::kDouble)).to(wide),
          -(0.3 + torch::rand({c.heads}, at::kDouble)).to(wide),
          torch::randn({c.batch, c.time, c.groups, c.state}, at::kDouble).to(type),
          torch::randn({c.batch, c.time, c.groups, c.state}, at::kDouble).to(type),
          torch::randn({c.heads}, at::kDouble).to(wide)};
}

Operands exact(const Operands& in) {
  return in.map([](const Tensor& t) { return t.detach().to(at::kDouble).requires_grad_(true); });
}

/// The recurrence as it is written down, a position at a time, by plain operators.
Tensor recurrence(const Operands& in, bool reverse) {
  const int64_t time = in.x.size(1), shared = in.x.size(2) / in.b.size(2);
  const Tensor b = in.b.repeat_interleave(shared, 2), c = in.c.repeat_interleave(shared, 2);
  Tensor state = torch::zeros({in.x.size(0), in.x.size(2), in.b.size(3), in.x.size(3)}, in.x.options());
  std::vector<Tensor> y(time);
  for (int64_t i = 0; i < time; ++i) {
    const int64_t t = reverse ? time - 1 - i : i;
    const auto at = [&](const Tensor& tensor) { return tensor.select(1, t); };
    const Tensor dt = at(in.dt), decay = (dt * in.a).exp();
    state = decay.unsqueeze(-1).unsqueeze(-1) * state +
            dt.unsqueeze(-1).unsqueeze(-1) * at(b).unsqueeze(-1) * at(in.x).unsqueeze(-2);
    y[t] = (at(c).unsqueeze(-1) * state).sum(-2) + in.d.unsqueeze(-1) * at(in.x);
  }
  return at::stack(y, 1);
}

Tensor scan(const Operands& in, const ScanCase& c) {
  return ssd_scan(in.x, in.dt, in.a, in.b, in.c, in.d, c.chunk, c.reverse);
}

std::vector<c10::IValue> arguments(const Operands& in, const ScanCase& c) {
  return {in.x, in.dt, in.a, in.b, in.c, in.d, c.chunk, c.reverse};
}

void expect_agrees(const ScanCase& c, at::ScalarType type) {
  SCOPED_TRACE(name(c) + " " + c10::toString(type));
  const Operands in = random_operands(c, type).map([](const Tensor& t) { return t.requires_grad_(true); });
  const Operands want_in = exact(in);
  const Tensor y = scan(in, c), want = recurrence(want_in, c.reverse);
  EXPECT_EQ(y.scalar_type(), type);
  const Tensor grad = torch::randn(y.sizes(), at::kDouble).to(type);
  y.backward(grad);
  want.backward(grad.to(at::kDouble));
  expect_close(y, want, tolerance(type), "y");
  const char* names[] = {"dx", "ddt", "dA", "dB", "dC", "dD"};
  for (size_t i = 0; i < 6; ++i) {
    const Tensor got = in.all()[i].grad();
    EXPECT_EQ(got.scalar_type(), in.all()[i].scalar_type());
    expect_close(got, want_in.all()[i].grad(), 2 * tolerance(type), names[i], 1e-3);
  }
}

TEST(SsdScan, AgreesWithTheRecurrence) {
  torch::manual_seed(1);
  for (const ScanCase& c : scan_cases())
    for (const auto type : kTypes) expect_agrees(c, type);
}

TEST(SsdScan, AgreesForAnyShape) {
  torch::manual_seed(2);
  std::mt19937 random(2);
  const auto any = [&](int64_t most) { return static_cast<int64_t>(random() % static_cast<uint32_t>(most)) + 1; };
  for (int i = 0; i < 30; ++i) {
    const int64_t groups = any(3);
    expect_agrees({any(3), any(60), groups * any(3), any(24), groups, any(40), any(40), any(2) == 1}, at::kFloat);
  }
}

TEST(SsdScan, HasTheGradientOfFiniteDifferences) {
  const Threads one(1);  // thousands of small calls: waiting for a second thread would take longer than they do
  torch::manual_seed(3);
  for (const ScanCase& c : {ScanCase{1, 9, 2, 3, 1, 4, 4}, ScanCase{2, 11, 4, 2, 2, 3, 5, true}}) {
    const Operands in = random_operands(c, at::kDouble).map([](const Tensor& t) { return t.requires_grad_(true); });
    const Tensor weight = torch::randn(in.x.sizes(), at::kDouble);
    (scan(in, c) * weight).sum().backward();
    const torch::NoGradGuard no_grad;
    constexpr double kStep = 1e-5;
    for (const Tensor& operand : in.all()) {
      Tensor flat = operand.view({-1});
      for (int64_t i = 0; i < flat.numel(); ++i) {
        const double before = flat[i].item<double>();
        const auto value = [&](double at) {
          flat[i].fill_(at);
          return (scan(in, c) * weight).sum().item<double>();
        };
        const double slope = (value(before + kStep) - value(before - kStep)) / (2 * kStep);
        flat[i].fill_(before);
        EXPECT_NEAR(operand.grad().view({-1})[i].item<double>(), slope, 1e-6 * std::max(1.0, std::abs(slope)));
      }
    }
  }
}

TEST(SsdScan, ReverseIsTheFlippedScan) {
  torch::manual_seed(4);
  for (const ScanCase& c : scan_cases()) {
    const Operands in = random_operands(c, at::kFloat);
    Operands flipped = in;
    for (Tensor* each : {&flipped.x, &flipped.dt, &flipped.b, &flipped.c}) *each = each->flip(1);
    ScanCase other = c;
    other.reverse = !c.reverse;
    EXPECT_TRUE(at::equal(scan(flipped, other), scan(in, c).flip(1))) << name(c);
  }
}

TEST(SsdScan, ChunksAreWithoutEffect) {
  torch::manual_seed(5);
  ScanCase c{2, 90, 4, 16, 2, 16, 90};
  const Operands in = random_operands(c, at::kFloat);
  const Tensor whole = scan(in, c);
  for (const int64_t chunk : {1, 2, 13, 32, 89, 1000}) {
    c.chunk = chunk;
    expect_close(scan(in, c), whole, 2e-5, name(c));
  }
}

TEST(SsdScan, ForgetsWithoutOverflow) {
  torch::manual_seed(6);
  // Decays of e^-600 over a chunk, and steps of 0: a kept state is kept exactly, a lost one is 0.
  const ScanCase c{1, 64, 2, 8, 1, 8, 32};
  Operands in = random_operands(c, at::kFloat);
  in.dt.fill_(20).narrow(1, 30, 20).zero_();
  const Operands want = exact(in);
  const Tensor y = scan(in, c);
  EXPECT_TRUE(y.isfinite().all().item<bool>());
  expect_close(y, recurrence(want, false), 2e-5, "y");
}

// Slices of wider rows, as a model has them, are read in place.
TEST(SsdScan, TakesSlicesAndAnnouncesItsResultsAndItsWorkspace) {
  torch::manual_seed(7);
  for (const ScanCase& c : scan_cases()) {
    for (const auto type : {at::kFloat, at::kBFloat16, at::kDouble}) {
      SCOPED_TRACE(name(c) + " " + c10::toString(type));
      Operands in = random_operands(c, type);
      const Tensor grad = torch::randn(in.x.sizes(), at::kDouble).to(type);
      const auto want = call("plimsoll::ssd_scan", arguments(in, c));
      std::vector<c10::IValue> backward = arguments(in, c);
      backward.insert(backward.begin(), grad);
      const auto want_gradients = call("plimsoll::ssd_scan_backward", backward);
      for (const bool apart : {false, true}) {
        if (apart) {
          for (Tensor* each : {&in.x, &in.b, &in.c}) {
            const int64_t width = each->size(2) * each->size(3);
            Tensor wide = torch::randn({c.batch, c.time, width + 5}).to(type);
            wide.narrow(2, 3, width).copy_(each->reshape({c.batch, c.time, width}));
            *each = wide.narrow(2, 3, width).view(each->sizes());
          }
          in.b = in.b.transpose(1, 3).contiguous().transpose(1, 3);  // its last elements are not contiguous
          in.dt = in.dt.transpose(1, 2).contiguous().transpose(1, 2);
        }
        const std::vector<c10::IValue> forward = arguments(in, c);
        backward = forward;
        backward.insert(backward.begin(), apart ? torch::ones({}).to(type).expand(grad.sizes()) : grad);
        expect_meta_agrees("plimsoll::ssd_scan", forward);
        expect_workspace("plimsoll::ssd_scan", forward);
        expect_meta_agrees("plimsoll::ssd_scan_backward", backward);
        expect_workspace("plimsoll::ssd_scan_backward", backward);
        EXPECT_TRUE(at::equal(call("plimsoll::ssd_scan", forward)[0].toTensor(), want[0].toTensor()));
        backward[0] = grad;
        const auto gradients = call("plimsoll::ssd_scan_backward", backward);
        for (size_t i = 0; i < 6; ++i)
          EXPECT_TRUE(at::equal(gradients[i].toTensor(), want_gradients[i].toTensor())) << i;
      }
    }
  }
}

TEST(SsdScan, DoesNotDependOnTheThreadCount) {
  torch::manual_seed(8);
  const ScanCase c{2, 300, 4, 16, 1, 16, 32};
  const Operands in = random_operands(c, at::kFloat);
  std::vector<c10::IValue> backward = arguments(in, c);
  backward.insert(backward.begin(), torch::randn(in.x.sizes()));
  const auto with = [&](int threads) {
    const Threads guard(threads);
    return call("plimsoll::ssd_scan_backward", backward);
  };
  const auto one = with(1), three = with(3);
  for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(at::equal(one[i].toTensor(), three[i].toTensor())) << i;
}

TEST(SsdScan, TheStatesHaveNoGradient) {
  const ScanCase c{1, 64, 2, 8, 1, 8, 16};
  const Operands in = random_operands(c, at::kFloat).map([](const Tensor& t) { return t.requires_grad_(true); });
  EXPECT_TRUE(scan(in, c).requires_grad());
  EXPECT_FALSE(call("plimsoll::ssd_scan", arguments(in, c))[1].toTensor().requires_grad());
}

TEST(SsdScan, AutocastLowersWhatIsLarge) {
  const ScanCase c{1, 20, 2, 8, 1, 8, 8};
  const Operands in = random_operands(c, at::kFloat).map([](const Tensor& t) { return t.requires_grad_(true); });
  Tensor y;
  {
    const Autocast autocast(at::kBFloat16);
    y = scan(in, c);
  }
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  const auto low = [](const Tensor& t) { return t.detach().to(at::kBFloat16); };
  const Operands lowered{low(in.x), in.dt, in.a, low(in.b), low(in.c), in.d};
  EXPECT_TRUE(at::equal(y, scan(lowered, c)));
  y.sum().backward();
  for (const Tensor& each : in.all()) EXPECT_EQ(each.grad().scalar_type(), at::kFloat);
}

TEST(SsdScan, RefusesWhatDoesNotAgree) {
  const ScanCase c{2, 10, 4, 8, 2, 6, 4};
  const Operands good = random_operands(c, at::kFloat);
  const auto refuses = [&](const auto& change) {
    Operands in = good;
    change(in);
    EXPECT_THROW(scan(in, c), UserError);
  };
  refuses([](Operands& in) { in.dt = in.dt.narrow(1, 0, 9); });
  refuses([](Operands& in) { in.a = in.a.narrow(0, 0, 3); });
  refuses([](Operands& in) { in.c = in.c.narrow(3, 0, 5); });
  refuses([](Operands& in) { in.b = in.c = torch::randn({2, 10, 3, 6}); });
  refuses([](Operands& in) { in.x = in.x.to(at::kBFloat16); });
  refuses([](Operands& in) { in.dt = in.dt.to(at::kDouble); });
  EXPECT_THROW(ssd_scan(good.x, good.dt, good.a, good.b, good.c, good.d, 0), UserError);
}

}  // namespace
}  // namespace plimsoll::ops
