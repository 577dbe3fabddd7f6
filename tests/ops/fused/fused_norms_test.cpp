// Tests the recognition of recorded ops that are pointwise, or a norm and its sum.
#include "ops/fused/fused_source.h"

#include <gtest/gtest.h>

#include "ops/libtorch_types.h"
#include "plimsoll/trace.h"

namespace plimsoll {
namespace {

constexpr std::string_view kAddRmsNorm = "fused: add, rms_norm", kRmsNormBackwardAdd = "fused: rms_norm_backward, add";

View view(BufferId buffer, DType dtype = DType::float32, std::vector<int64_t> sizes = {4, 8, 32}) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * sizes[i];
  return {buffer, dtype, 0, std::move(sizes), std::move(strides)};
}
Argument read(View view) {
  return {Argument::Kind::tensor, false, {std::move(view)}};
}

Op call(const char* name, const char* overload, std::vector<Argument> arguments, std::vector<c10::IValue> constants) {
  Op op;
  op.name = std::string(name) + (*overload != 0 ? "." : "") + overload;
  op.arguments = std::move(arguments);
  op.call = std::make_shared<OpCall>(
      OpCall{c10::Dispatcher::singleton().findSchemaOrThrow(name, overload), std::move(constants)});
  return op;
}

Op add(const View& a, const View& b, const View& sum, double alpha = 1) {
  return call("aten::add", "out", {read(a), read(b), {}, {Argument::Kind::tensor, true, {sum}}}, {{}, {}, alpha, {}});
}
Op norm(const View& x, const View& weight = view(10, DType::float32, {32})) {
  Op op = call("plimsoll::rms_norm", "", {read(x), read(weight), {}, {}}, {{}, {}, 1e-5, at::kBFloat16});
  op.results = {view(11, DType::bfloat16, x.sizes), view(12, DType::float32, {4, 8, 1})};
  return op;
}
Op backward(const View& x, const View& dx) {
  Op op = call("plimsoll::rms_norm_backward", "",
               {read(view(13, DType::bfloat16)), read(x), read(view(10, DType::float32, {32})),
                read(view(12, DType::float32, {4, 8, 1}))},
               {{}, {}, {}, {}});
  op.results = {dx, view(14, DType::float32, {32})};
  return op;
}

Op divide(const View& a, Argument by, c10::IValue constant = {}) {
  return call("aten::div", "out", {read(a), std::move(by), {Argument::Kind::tensor, true, {view(2)}}},
              {{}, std::move(constant), {}});
}

// libtorch divides by a constant on a CPU, and multiplies by its reciprocal in float32 on CUDA.
TEST(PointwiseOps, AConstantDividesAsOnItsDevice) {
  const Op by_three = divide(view(0), {}, at::scalar_tensor(3.0, at::kDouble));
  const std::optional<PointwiseOp> on_cpu = pointwise_op(by_three, PointwiseDevice::cpu);
  ASSERT_TRUE(on_cpu);
  EXPECT_EQ(on_cpu->opcode, Opcode::div);
  EXPECT_EQ(on_cpu->operands[1].constant, 3.0);
  const std::optional<PointwiseOp> on_cuda = pointwise_op(by_three, PointwiseDevice::cuda);
  ASSERT_TRUE(on_cuda);
  EXPECT_EQ(on_cuda->opcode, Opcode::mul);
  EXPECT_EQ(on_cuda->operands[1].constant, 1.0F / 3.0F);
  EXPECT_EQ(pointwise_op(divide(view(0), read(view(1))), PointwiseDevice::cuda)->opcode, Opcode::div);
}

bool is_pair(const Op& first, const Op& second) {
  return fused_norm(first, second, PointwiseDevice::cpu).has_value();
}

TEST(FusedNorms, ASumAndItsNormHaveOneCall) {
  const View x = view(0), r = view(1, DType::bfloat16), sum = view(2);
  const std::optional<Op> op = fused_norm(add(x, r, sum), norm(sum), PointwiseDevice::cpu);
  ASSERT_TRUE(op);
  EXPECT_EQ(op->name, kAddRmsNorm);
  EXPECT_EQ(op->call->op.schema().name(), "plimsoll::add_rms_norm");
  ASSERT_EQ(op->arguments.size(), op->call->op.schema().arguments().size());
  ASSERT_EQ(op->call->constants.size(), op->arguments.size());
  for (const auto& [argument, wanted] : {std::pair{0, sum}, {1, x}, {2, r}})
    EXPECT_EQ(op->arguments[argument].views[0], wanted);
  EXPECT_TRUE(op->arguments[0].written);
  EXPECT_EQ(op->call->constants[4].toDouble(), 1e-5);
  EXPECT_EQ(op->call->constants[5].toScalarType(), at::kBFloat16);
  EXPECT_EQ(op->results.size(), 2);
}

TEST(FusedNorms, ABackwardAndTheSumOfItsGradientHaveOneCall) {
  const View x = view(0), dx = view(1), grad = view(2);
  for (const Op& sum : {add(grad, dx, grad), add(dx, grad, grad)}) {
    const std::optional<Op> op = fused_norm(backward(x, dx), sum, PointwiseDevice::cuda);
    ASSERT_TRUE(op);
    EXPECT_EQ(op->name, kRmsNormBackwardAdd);
    ASSERT_EQ(op->arguments.size(), op->call->op.schema().arguments().size());
    EXPECT_EQ(op->call->constants.size(), op->arguments.size());
    EXPECT_EQ(op->arguments[0].views[0], grad);
    EXPECT_EQ(op->arguments[1].views[0], grad);
    EXPECT_EQ(op->arguments[3].views[0], x);
    ASSERT_EQ(op->results.size(), 1);
    EXPECT_EQ(op->results[0].buffer, 14);
  }
}

TEST(FusedNorms, ACopyOfThatSumIn16BitsBelongsToTheCallOnCuda) {
  const View x = view(0), dx = view(1), grad = view(2), narrow = view(20, DType::bfloat16);
  const Op summed = fused_norm(backward(x, dx), add(grad, dx, grad), PointwiseDevice::cuda).value();
  const auto copy = [](const View& to, const View& from) {
    return call("aten::copy_", "", {{Argument::Kind::tensor, true, {to}}, read(from), {}}, {{}, {}, false});
  };
  const std::optional<Op> op = fused_norm(summed, copy(narrow, grad), PointwiseDevice::cuda);
  ASSERT_TRUE(op);
  EXPECT_EQ(op->name, "fused: rms_norm_backward, add, cast");
  ASSERT_EQ(op->arguments.size(), op->call->op.schema().arguments().size());
  EXPECT_EQ(op->call->constants.size(), op->arguments.size());
  EXPECT_EQ(op->arguments[1].views[0], narrow);
  EXPECT_TRUE(op->arguments[1].written);
  EXPECT_EQ(op->results.size(), 1);
  EXPECT_FALSE(fused_norm(summed, copy(narrow, grad), PointwiseDevice::cpu));
  EXPECT_FALSE(fused_norm(summed, copy(narrow, x), PointwiseDevice::cuda));                        // another tensor's
  EXPECT_FALSE(fused_norm(summed, copy(view(20), grad), PointwiseDevice::cuda));                   // not narrower
  EXPECT_FALSE(fused_norm(summed, copy(view(13, DType::bfloat16), grad), PointwiseDevice::cuda));  // an operand
}

TEST(FusedNorms, LeavesOtherSums) {
  const View x = view(0), r = view(1), sum = view(2);
  ASSERT_TRUE(is_pair(add(x, r, sum), norm(sum)));
  ASSERT_TRUE(is_pair(add(x, r, x), norm(x)));
  EXPECT_FALSE(is_pair(add(x, r, sum, 2), norm(sum)));                              // scaled
  EXPECT_FALSE(is_pair(add(x, view(1, DType::float32, {32}), sum), norm(sum)));     // broadcast
  EXPECT_FALSE(is_pair(add(x, r, sum), norm(view(2, DType::float32, {32, 32}))));   // another view
  EXPECT_FALSE(is_pair(add(x, r, sum), norm(x)));                                   // another tensor's
  EXPECT_FALSE(is_pair(add(x, r, sum), norm(sum, view(2, DType::float32, {32}))));  // its own weight
  const DType wide = DType::float64;
  EXPECT_FALSE(is_pair(add(view(0, wide), view(1, wide), view(2, wide)), norm(view(2, wide))));
  View part = x, columns = sum;
  part.buffer = 2;
  part.offset = 32;
  EXPECT_FALSE(is_pair(add(part, r, sum), norm(sum)));  // other elements of the place that is written
  columns.strides = {1, 4, 32};
  EXPECT_FALSE(is_pair(add(x, r, columns), norm(columns)));
}

TEST(FusedNorms, LeavesOtherGradients) {
  const View x = view(0), dx = view(1), grad = view(2);
  ASSERT_TRUE(is_pair(backward(x, dx), add(grad, dx, view(3))));
  ASSERT_TRUE(is_pair(backward(x, dx), add(grad, dx, dx)));
  EXPECT_FALSE(is_pair(backward(x, dx), add(dx, dx, view(3))));         // the op's own result
  EXPECT_FALSE(is_pair(backward(x, dx), add(grad, view(4), view(3))));  // adds the result of neither
  EXPECT_FALSE(is_pair(backward(x, dx), add(grad, dx, x)));             // over what is read by the row
  EXPECT_FALSE(is_pair(add(grad, dx, view(3)), backward(x, dx)));
  EXPECT_FALSE(is_pair(backward(x, dx), norm(dx)));
}

}  // namespace
}  // namespace plimsoll
