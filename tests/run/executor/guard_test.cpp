// Tests that the guard notices ops that write or read outside of their planned places, and that it changes no bit.
#include "run/executor/guard.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/library.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <functional>
#include <limits>

#include "ops/kernels_cpu.h"
#include "ops/layers/swiglu.h"
#include "ops/op_support.h"
#include "plimsoll/error.h"
#include "plimsoll/models.h"
#include "refusals.h"
#include "run/equality.h"
#include "run/fake_device.h"
#include "run/training_runs.h"

namespace plimsoll {
namespace {

using ::testing::AllOf;
using testing::Batch;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::same_bits;
using testing::token_batch;

constexpr int64_t kScratch = 3 << 20;

// The fault of the CPU's kernel of swiglu that the tests install. Without one it is the kernel of Plimsoll.
using Fault = std::function<void(const at::Tensor& operand, const at::Tensor& result)>;
Fault fault;
int64_t scratch_bytes = 0;

at::Tensor faulty_swiglu(const at::Tensor& gate_up) {
  const at::Tensor result = ops::gated_result("plimsoll::swiglu", gate_up);
  at::Tensor scratch;
  if (scratch_bytes > 0) scratch = at::empty({scratch_bytes}, at::kByte).fill_(1);
  at::parallel_for(0, ops::row_count(result), 1, [&](int64_t begin, int64_t end) {
    ops::swiglu_rows(ops::const_rows(gate_up), ops::rows(result), result.size(-1), begin, end);
  });
  if (fault) fault(gate_up, result);
  return result;
}

Step two_layer_decoder() {
  DecoderConfig config;
  config.vocab_size = 128;
  config.hidden_size = 32;
  config.num_layers = 2;
  config.num_heads = 2;
  return decoder_step(config, 2, 16);
}

/// Replaces the CPU's kernel of swiglu while a test runs.
class Guard : public ::testing::Test {
 protected:
  Guard() : library_(torch::Library::IMPL, "plimsoll", c10::DispatchKey::CPU, __FILE__, __LINE__) {
    fault = nullptr;
    scratch_bytes = 0;
    library_.impl("swiglu", faulty_swiglu);
  }

  // Returns the message with which a checked step of the kernel with this fault ends; empty: it does not end.
  static std::string found(const Fault& installed) {
    const CheckedOps checked;
    Training training(two_layer_decoder(), {});
    training.start();
    training.step({token_batch(2, 16, 128)}, 1e-3);
    fault = installed;
    std::string message;
    try {
      training.step({token_batch(2, 16, 128)}, 1e-3);
    } catch (const InternalError& error) {
      message = error.what();
    }
    fault = nullptr;
    return message;
  }

 private:
  torch::Library library_;
};

TEST_F(Guard, NamesAnOpThatWritesBehindItsResult) {
  const std::string message = found([](const at::Tensor&, const at::Tensor& result) {
    static_cast<uint8_t*>(result.mutable_data_ptr())[result.nbytes()] = 3;
  });
  EXPECT_THAT(message, AllOf(HasSubstr("plimsoll::swiglu"), HasSubstr("module '"),
                             HasSubstr("writes outside of its planned places"), HasSubstr("of the device arena")));
}

TEST_F(Guard, NamesAnOpThatWritesBeforeItsResult) {
  EXPECT_THAT(found([](const at::Tensor&, const at::Tensor& result) {
                static_cast<uint8_t*>(result.mutable_data_ptr())[-1] = 3;
              }),
              AllOf(HasSubstr("plimsoll::swiglu"), HasSubstr("writes outside of its planned places")));
}

// Each pattern hides the writes of its own byte; the other one shows them.
TEST_F(Guard, NamesAnOpThatWritesTheBytesOfAPattern) {
  for (const uint8_t byte : {0x00, 0xff})
    EXPECT_THAT(found([byte](const at::Tensor&, const at::Tensor& result) {
                  static_cast<uint8_t*>(result.mutable_data_ptr())[result.nbytes()] = byte;
                }),
                AllOf(HasSubstr("plimsoll::swiglu"), HasSubstr("writes outside of its planned places")));
}

TEST_F(Guard, NamesAnOpThatWritesToAnOperandThatItOnlyReads) {
  EXPECT_THAT(
      found([](const at::Tensor& operand, const at::Tensor&) { static_cast<uint8_t*>(operand.data_ptr())[5] ^= 1; }),
      AllOf(HasSubstr("plimsoll::swiglu"), HasSubstr("writes outside of its planned places")));
}

TEST_F(Guard, NamesAnOpThatReadsBehindItsOperand) {
  EXPECT_THAT(found([](const at::Tensor& operand, const at::Tensor& result) {
                static_cast<float*>(result.mutable_data_ptr())[1] +=
                    static_cast<const float*>(operand.const_data_ptr())[operand.numel()];
              }),
              AllOf(HasSubstr("plimsoll::swiglu"), HasSubstr("reads bytes outside of its planned places"),
                    Not(HasSubstr("unwritten"))));
}

TEST_F(Guard, NamesAnOpThatLeavesAByteOfItsResultUnwritten) {
  // The kernel gives the byte the value that it had before, which is the pattern's.
  EXPECT_THAT(found([](const at::Tensor& operand, const at::Tensor& result) {
                const uint8_t pattern = static_cast<const uint8_t*>(operand.const_data_ptr())[operand.nbytes()];
                static_cast<uint8_t*>(result.mutable_data_ptr())[8] = pattern;
              }),
              AllOf(HasSubstr("plimsoll::swiglu"), HasSubstr("unwritten"), HasSubstr("byte 8 of buffer")));
}

// A kernel that makes NaN of finite values reads nothing outside.
TEST_F(Guard, AllowsNaNsThatAKernelMakes) {
  EXPECT_EQ(found([](const at::Tensor&, const at::Tensor& result) {
              static_cast<float*>(result.mutable_data_ptr())[0] = std::numeric_limits<float>::quiet_NaN();
            }),
            "");
}

// Scratch beyond the rule is no fault: the run plans again with it, and names the op.
TEST_F(Guard, ScratchBeyondItsRuleIsNamedAndPlanned) {
  const CheckedOps checked;
  Training training(two_layer_decoder(), {});
  training.start();
  const int64_t planned = training.plan().peak_bytes;
  scratch_bytes = kScratch;
  for (int i = 0; i < 2; ++i) training.step({token_batch(2, 16, 128)}, 1e-3);
  EXPECT_THAT(training.plan_change(), AllOf(HasSubstr("scratch that was not planned"), HasSubstr("plimsoll::swiglu")));
  EXPECT_GT(training.used().workspace, 0);
  EXPECT_GT(training.plan().peak_bytes, planned);
}

// The bytes in use do not show planned scratch that no kernel requests, because a plan holds it for the op.
TEST_F(Guard, NamesPlannedScratchThatIsNotRequested) {
  scratch_bytes = kScratch;
  const CheckedOps checked;
  Training training(two_layer_decoder(), {});
  training.start();
  scratch_bytes = 0;
  training.step({token_batch(2, 16, 128)}, 1e-3);
  EXPECT_EQ(training.used().measured_peak(), training.plan().peak_bytes);
  const std::vector<CheckedOps::Scratch> unrequested = checked.unrequested();
  ASSERT_FALSE(unrequested.empty());
  EXPECT_EQ(unrequested[0].op, "plimsoll::swiglu");
  EXPECT_GE(unrequested[0].planned, kScratch);
  EXPECT_EQ(unrequested[0].requested, 0);
  EXPECT_THAT(checked.summary(), AllOf(HasSubstr("plimsoll::swiglu"), HasSubstr("3.00 MiB")));
}

TEST_F(Guard, RefusesADeviceThatTheHostDoesNotAddress) {
  testing::add_fake_device();
  const CheckedOps checked;
  Training training(two_layer_decoder(), {.device = "made_up"});
  EXPECT_THAT(refusal_of([&] { training.start(); }), AllOf(HasSubstr("on the CPU only"), HasSubstr("maia")));
}

struct ConvolutionNet : torch::nn::Module {
  torch::nn::Conv2d first = register_module("first", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 8, 3).padding(1))),
                    second = register_module(
                        "second", torch::nn::Conv2d(torch::nn::Conv2dOptions(8, 16, 3).stride(2).padding(1)));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(16, 10));
  at::Tensor forward(const at::Tensor& pictures) {
    const at::Tensor wide = at::max_pool2d(at::gelu(first(pictures)), 2);
    return head(at::relu(second(wide)).mean({2, 3}));
  }
};

Step convolution_step() {
  Step step;
  step.model = [] { return std::make_shared<ConvolutionNet>(); };
  step.inputs = {{"x", {4, 3, 17, 17}, torch::kFloat32}, {"y", {4}, torch::kLong}};
  step.loss = [](torch::nn::Module& module, const StepInputs& in) {
    return at::cross_entropy_loss(static_cast<ConvolutionNet&>(module).forward(in["x"]), in["y"]);
  };
  return step;
}

Batch picture_batch() {
  return {{"x", torch::randn({4, 3, 17, 17})}, {"y", torch::randint(10, {4}, torch::kLong)}};
}

struct Bits {
  std::vector<double> losses;
  int64_t host_bytes = 0;  ///< bytes of the host's arena in use
  std::map<std::string, at::Tensor> state;
};

Bits trained(const Step& step, const TrainingOptions& options, const std::function<Batch()>& batch) {
  torch::manual_seed(7);
  Training training(step, options);
  training.start();
  Bits bits;
  for (int i = 0; i < 3; ++i) bits.losses.push_back(training.step({batch(), batch()}, 1e-3).loss);
  bits.losses.push_back(training.evaluate(batch()));
  for (const auto& [name, tensor] : training.state()) bits.state[name] = tensor.clone();
  bits.host_bytes = training.used().host;
  return bits;
}

// Budgets from the minimum to no limit, with copies to host memory and without.
void expect_same_bits(const Step& step, const std::function<Batch()>& batch) {
  TrainingOptions options;
  options.accumulate = true;
  options.micro_batches = 2;
  options.evaluate = true;
  for (const int64_t host : {int64_t{0}, int64_t{64} << 20}) {
    options.budget.device.reset();
    options.budget.host = host;
    const PlannedStep unlimited = plan_step(step, options);
    const int64_t minimum = unlimited.minimum_budget_bytes, most = unlimited.plan.peak_bytes;
    ASSERT_LT(minimum, most);
    for (const std::optional<int64_t>& budget :
         {std::optional<int64_t>(minimum), std::optional<int64_t>((minimum + most) / 2), std::optional<int64_t>()}) {
      options.budget.device = budget;
      const Bits plain = trained(step, options, batch);
      const CheckedOps checked;
      const Bits guarded = trained(step, options, batch);
      EXPECT_GT(checked.runs(), 0);
      if (budget == minimum) {
        EXPECT_EQ(guarded.host_bytes > 0, host > 0);
      }
      EXPECT_EQ(guarded.losses, plain.losses) << budget.value_or(0) << " and " << host << " bytes";
      for (const auto& [name, tensor] : plain.state) EXPECT_TRUE(same_bits(tensor, guarded.state.at(name))) << name;
    }
  }
}

TEST(GuardedTraining, OfADecoderHasTheSameBits) {
  expect_same_bits(two_layer_decoder(), [] { return token_batch(2, 16, 128); });
}

TEST(GuardedTraining, OfAConvolutionNetworkHasTheSameBits) {
  expect_same_bits(convolution_step(), picture_batch);
}

}  // namespace
}  // namespace plimsoll
