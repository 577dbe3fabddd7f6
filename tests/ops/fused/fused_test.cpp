// Tests plimsoll::fused on the CPU against libtorch's own operators, bit for bit.
#include "ops/fused/fused.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "ops/libtorch_types.h"
#include "plimsoll/error.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;

void run(const FusedProgram& program, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) {
  static const auto handle = c10::Dispatcher::singleton()
                                 .findSchemaOrThrow(kFused, "")
                                 .typed<void(at::TensorList, at::TensorList, at::IntArrayRef, at::ArrayRef<double>)>();
  handle.call(inputs, outputs, program.code(), program.constants);
}

/// One step on all inputs and then the constants.
FusedProgram single(Opcode opcode, int inputs, std::vector<double> constants, DType dtype) {
  FusedProgram program;
  program.inputs = inputs;
  program.constants = std::move(constants);
  FusedProgram::Step step{opcode, dtype, {}};
  for (int i = 0; i < operands_of(opcode); ++i) step.operands[i] = i;
  program.steps = {step};
  program.outputs = {program.first_step()};
  return program;
}

/// Ordinary numbers, and at both ends error-prone ones. The count is no multiple of any vector.
Tensor numbers(int64_t count, at::ScalarType type, uint64_t seed) {
  Tensor made = at::randn({count}, at::make_generator<at::CPUGeneratorImpl>(seed)) * 3;
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> odd = {0.0f,   -0.0f, infinity, -infinity, nan,     1e-40f, -1e-40f,  3e38f,
                                  -3e38f, 88.7f, -88.7f,   104.0f,    -104.0f, 20.0f,  20.0001f, 1e-8f};
  for (size_t i = 0; i < odd.size(); ++i) {
    made[static_cast<int64_t>(i + seed)] = odd[i];
    made[count - 1 - static_cast<int64_t>((i * 5 + seed) % odd.size())] = odd[i];
  }
  return made.to(type);
}

/// Returns the numbers as integers of 16 or 32 bits; NaNs with any bits are the same.
int64_t different_bits(const Tensor& a, const Tensor& b) {
  const at::ScalarType bits = a.element_size() == 2 ? at::kShort : at::kInt;
  const Tensor same = a.view(bits).eq(b.view(bits)).logical_or(a.isnan().logical_and(b.isnan()));
  return a.numel() - same.sum().item<int64_t>();
}

struct FusedCase {
  Opcode opcode;
  int inputs;
  std::vector<double> constants;
  std::function<Tensor(const std::vector<Tensor>&)> reference;
  std::string types = "fbh";  ///< float32, bfloat16, float16, if pointwise_op() accepts them
};

std::vector<FusedCase> fused_cases() {
  using T = const std::vector<Tensor>&;
  const auto backward = [](auto op) { return [op](T t) { return op(t[0], t[1]); }; };
  return {
      {Opcode::add, 2, {}, [](T t) { return t[0] + t[1]; }},
      {Opcode::sub, 2, {}, [](T t) { return t[0] - t[1]; }},
      {Opcode::mul, 2, {}, [](T t) { return t[0] * t[1]; }},
      {Opcode::div, 2, {}, [](T t) { return t[0] / t[1]; }},
      {Opcode::mul, 1, {1.1}, [](T t) { return t[0] * 1.1; }},
      {Opcode::div, 1, {1.1}, [](T t) { return t[0] / 1.1; }},
      {Opcode::add, 1, {1.1}, [](T t) { return t[0] + 1.1; }, "f"},
      {Opcode::neg, 1, {}, [](T t) { return -t[0]; }},
      {Opcode::abs, 1, {}, [](T t) { return t[0].abs(); }},
      {Opcode::sqrt, 1, {}, [](T t) { return t[0].sqrt(); }, "bh"},
      {Opcode::rsqrt, 1, {}, [](T t) { return t[0].rsqrt(); }, "f"},
      {Opcode::reciprocal, 1, {}, [](T t) { return t[0].reciprocal(); }, "f"},
      {Opcode::square, 1, {}, [](T t) { return t[0].pow(2); }},
      {Opcode::cube, 1, {}, [](T t) { return t[0].pow(3); }, "f"},
      {Opcode::rsqrt, 1, {}, [](T t) { return t[0].pow(-0.5); }, "f"},
      {Opcode::reciprocal, 1, {}, [](T t) { return t[0].pow(-1); }, "f"},
      {Opcode::clamp_min, 1, {0}, [](T t) { return t[0].relu(); }},
      {Opcode::clamp_min, 1, {-1.5}, [](T t) { return t[0].clamp_min(-1.5); }},
      {Opcode::clamp_max, 1, {1.5}, [](T t) { return t[0].clamp_max(1.5); }},
      {Opcode::threshold_backward, 2, {0}, [](T t) { return at::threshold_backward(t[0], t[1], 0); }},
      {Opcode::sigmoid_backward, 2, {}, backward([](auto... t) { return at::sigmoid_backward(t...); }), "fb"},
      {Opcode::tanh_backward, 2, {}, backward([](auto... t) { return at::tanh_backward(t...); })},
      {Opcode::sigmoid, 1, {}, [](T t) { return t[0].sigmoid(); }},
      {Opcode::silu, 1, {}, [](T t) { return at::silu(t[0]); }},
      {Opcode::silu_backward, 2, {}, backward([](auto... t) { return at::silu_backward(t...); })},
      {Opcode::gelu_tanh, 1, {}, [](T t) { return at::gelu(t[0], "tanh"); }},
      {Opcode::gelu_tanh_backward, 2, {}, backward([](auto... t) { return at::gelu_backward(t..., "tanh"); })},
      {Opcode::softplus, 1, {1, 20}, [](T t) { return at::softplus(t[0]); }},
      {Opcode::softplus_backward, 2, {1, 20}, [](T t) { return at::softplus_backward(t[0], t[1], 1, 20); }},
  };
}

class Fused : public ::testing::Test {
 protected:
  Fused() : threads_(at::get_num_threads()) { at::set_num_threads(1); }
  ~Fused() override { at::set_num_threads(threads_); }
  int threads_;
};

TEST_F(Fused, EachOpcodeGivesTheBitsOfItsOperator) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const FusedCase& each : fused_cases()) {
      if (each.types.find(type == at::kFloat ? 'f' : type == at::kHalf ? 'h' : 'b') == std::string::npos) continue;
      for (const int64_t count : {32, 77, 5000, 40003}) {
        std::vector<Tensor> inputs;
        for (int i = 0; i < each.inputs; ++i) inputs.push_back(numbers(count, type, static_cast<uint64_t>(i)));
        const Tensor expected = each.reference(inputs);
        const Tensor made = at::full_like(expected, 7);
        run(single(each.opcode, each.inputs, each.constants, plimsoll::dtype_of(type)), inputs, {made});
        EXPECT_EQ(different_bits(made, expected), 0)
            << name_of(each.opcode) << " of " << count << " " << c10::toString(type);
      }
    }
}

TEST_F(Fused, CastsRoundAsCopiesDo) {
  for (const at::ScalarType from : {at::kFloat, at::kBFloat16, at::kHalf, at::kByte, at::kBool, at::kLong})
    for (const at::ScalarType to : {at::kFloat, at::kBFloat16, at::kHalf}) {
      const Tensor source = at::isFloatingType(from) ? numbers(3001, from, 3) : at::randint(0, 2000, {3001}).to(from);
      const Tensor made = at::zeros({3001}, to);
      run(single(Opcode::cast, 1, {}, plimsoll::dtype_of(to)), {source}, {made});
      EXPECT_EQ(different_bits(made, source.to(to)), 0) << c10::toString(from) << " to " << c10::toString(to);
    }
}

// out = cast(a + b) and a += b: an overwritten value was read before, and the next step reads the rounded result.
TEST_F(Fused, StepsFindWhatWasRoundedAndOutputsMayBeInputs) {
  FusedProgram program;
  program.inputs = 2;
  program.constants = {0.3};
  program.steps = {{Opcode::add, DType::float32, {0, 1}},
                   {Opcode::cast, DType::bfloat16, {3}},
                   {Opcode::cast, DType::float32, {4}},
                   {Opcode::mul, DType::float32, {5, 2}}};
  program.outputs = {3, 4, 6};
  const Tensor a = at::randn({7000}), b = at::randn({7000}).to(at::kBFloat16);
  const Tensor sum = a + b, low = sum.to(at::kBFloat16), scaled = low.to(at::kFloat) * 0.3;
  const Tensor low_made = at::zeros_like(low), scaled_made = at::zeros_like(scaled);
  run(program, {a, b}, {a, low_made, scaled_made});
  EXPECT_EQ(different_bits(a, sum) + different_bits(low_made, low) + different_bits(scaled_made, scaled), 0);
}

// Rows of a wider matrix, a row for all, a number for each row, results that lie between others.
TEST_F(Fused, StridesAndBroadcastsOfAnyBlock) {
  for (const auto& [rows, columns] : std::vector<std::pair<int64_t, int64_t>>{{3, 5}, {700, 9}, {5, 3000}}) {
    const Tensor wide = at::randn({rows, columns + 6}), row = at::randn({columns}), scale = at::randn({rows, 1});
    const Tensor target = at::full({rows, columns + 4}, 9.0);
    FusedProgram program;
    program.inputs = 3;
    program.steps = {{Opcode::add, DType::float32, {0, 1}}, {Opcode::mul, DType::float32, {3, 2}}};
    program.outputs = {4};
    const Tensor x = wide.narrow(1, 2, columns);
    run(program, {x, row.expand({rows, columns}), scale.expand({rows, columns})}, {target.narrow(1, 1, columns)});
    EXPECT_EQ(different_bits(target.narrow(1, 1, columns).contiguous(), (x + row) * scale), 0);
    EXPECT_TRUE(target.select(1, 0).eq(9).all().item<bool>());
    EXPECT_TRUE(target.narrow(1, columns + 1, 3).eq(9).all().item<bool>());
  }
}

TEST_F(Fused, SeveralThreadsGiveTheBitsOfTheOperator) {
  at::set_num_threads(2);
  const Tensor x = numbers(150001, at::kFloat, 1), expected = at::silu(x), made = at::zeros_like(x);
  run(single(Opcode::silu, 1, {}, DType::float32), {x}, {made});
  EXPECT_EQ(different_bits(made, expected), 0);
}

TEST_F(Fused, RefusesWhatIsNoProgram) {
  const FusedProgram good = single(Opcode::add, 2, {}, DType::float32);
  const auto refused = [](std::vector<int64_t> code) {
    try {
      fused_program(code, {});
    } catch (const UserError&) {
      return true;
    }
    return false;
  };
  EXPECT_EQ(fused_program(good.code(), {}), good);
  for (size_t i = 0; i < good.code().size(); ++i) {
    auto code = good.code();
    code[i] = 1 << 20;
    EXPECT_TRUE(refused(code)) << i;
    code[i] = -1;
    EXPECT_TRUE(refused(code)) << i;
    EXPECT_TRUE(refused({code.begin(), code.begin() + static_cast<std::ptrdiff_t>(i)})) << i;
  }
  const Tensor x = at::ones({4}), wide = at::ones({5});
  EXPECT_THROW(run(good, {x}, {x}), UserError);
  EXPECT_THROW(run(good, {x, wide}, {x}), UserError);
  EXPECT_THROW(run(good, {x, x}, {x.to(at::kHalf)}), UserError);
}

}  // namespace
}  // namespace plimsoll::ops
