// Tests the pass that lets matmuls add to sums: which it merges, the planned bytes, and that each plan is sound.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/passes/passes.h"
#include "plan/placement/validator.h"
#include "plan/trace_text.h"
#include "plimsoll/planner.h"
#include "plimsoll/trace.h"

namespace plimsoll {
namespace {

using ::testing::ElementsAre;
using testing::names;
using testing::op;
using testing::tensor;
using testing::view;

// sum += a b of ops mm(a, b) -> made, cast(made) -> wide, add(sum, addend) -> sum; sum = a b of mm and copy.
std::optional<Op> product_sum(const Op& product, const Op* cast, const Op& sum) {
  const auto at = [](const Op& each, size_t i) { return each.arguments[i].views[0]; };
  if (product.name != "mm" || (cast && cast->name != "cast")) return std::nullopt;
  const View addend = cast ? at(*cast, 1) : at(product, 2);
  if (sum.name == "copy") return op("mm to", {at(product, 0), at(product, 1)}, at(sum, 1));
  if (sum.name != "add" || at(sum, 1) != addend || at(sum, 0) != at(sum, 2)) return std::nullopt;
  Op made;
  made.name = "mm +=";
  made.arguments = {tensor(at(sum, 0), true), tensor(at(product, 0)), tensor(at(product, 1))};
  return made;
}

class AddProducts : public ::testing::Test {
 protected:
  static constexpr BufferId kA = 0, kB = 1, kMade = 2, kWide = 3, kSum = 4, kLoss = 5;

  AddProducts() {
    trace_.modules = {""};
    trace_.buffers = {
        {128 << 10, Role::input, true, false, "a"},         {128 << 10, Role::input, true, false, "b"},
        {128 << 10, Role::temporary, false, false, "made"}, {256 << 10, Role::temporary, false, false, "wide"},
        {256 << 10, Role::gradient, true, false, "sum"},    {4, Role::temporary, false, true, "loss"}};
    trace_.ops = {op("mm", {narrow(kA), narrow(kB)}, narrow(kMade)), op("other", {narrow(kA)}, view(kLoss, {})),
                  op("cast", {narrow(kMade)}, wide(kWide)), op("add", {wide(kSum), wide(kWide)}, wide(kSum))};
    for (Op& each : trace_.ops) each.phase = Phase::backward;
    trace_.ops[0].flops = 1000;
    trace_.ops[3].flops = 10;
    trace_.segments = {{SegmentKind::micro, 0, 4}};
    trace_.inputs = {{"a", narrow(kA)}, {"b", narrow(kB)}};
    trace_.outputs = {{"sum", wide(kSum)}};
  }
  static View narrow(BufferId buffer) { return view(buffer, {256, 256}, DType::bfloat16); }
  static View wide(BufferId buffer) { return view(buffer, {256, 256}); }
  void insert(int32_t at, Op op) {
    trace_.ops.insert(trace_.ops.begin() + at, std::move(op));
    ++trace_.segments[0].end;
  }
  Trace merged() const { return add_products(trace_, product_sum, {}); }

  Trace trace_;
};

TEST_F(AddProducts, AreMergedAtThePlaceOfTheMatmul) {
  const Trace trace = merged();
  EXPECT_THAT(names(trace), ElementsAre("mm +=", "other"));
  EXPECT_EQ(trace.ops[0].phase, Phase::backward);
  EXPECT_EQ(trace.ops[0].flops, 1010);
  EXPECT_EQ(trace.ops[0].bytes_moved, 2 * (128 << 10) + 2 * (256 << 10));  // the sum is read and written
  EXPECT_EQ(trace.segments[0].end, 2);
}

TEST_F(AddProducts, WithoutACastToo) {
  trace_.ops.erase(trace_.ops.begin() + 2);
  trace_.ops[2] = op("add", {narrow(kSum), narrow(kMade)}, narrow(kSum));
  trace_.segments[0].end = 3;
  EXPECT_THAT(names(merged()), ElementsAre("mm +=", "other"));
}

TEST_F(AddProducts, ACopyOfAProductIsNotStoredTwice) {
  trace_.ops.erase(trace_.ops.begin() + 2);
  trace_.ops[2] = op("copy", {narrow(kMade)}, wide(kSum));
  trace_.segments[0].end = 3;
  EXPECT_THAT(names(merged()), ElementsAre("mm to", "other"));
}

TEST_F(AddProducts, ACopyThatIsNoSumIsLeft) {
  trace_.ops[2] = op("copy", {narrow(kMade)}, wide(kWide));
  trace_.ops[3] = op("norm", {wide(kWide)}, view(kLoss, {}));
  EXPECT_THAT(names(merged()), ElementsAre("mm", "other", "copy", "norm"));
}

TEST_F(AddProducts, NotIfAnotherOpReadsTheProduct) {
  trace_.ops[1] = op("other", {narrow(kMade)}, view(kLoss, {}));
  EXPECT_THAT(names(merged()), ElementsAre("mm", "other", "cast", "add"));
  trace_.ops[1] = op("other", {wide(kWide)}, view(kLoss, {}));
  std::swap(trace_.ops[1], trace_.ops[2]);
  EXPECT_THAT(names(merged()), ElementsAre("mm", "cast", "other", "add"));
}

TEST_F(AddProducts, NotIfAnOpBetweenUsesTheSum) {
  trace_.ops[1] = op("other", {wide(kSum)}, view(kLoss, {}));
  EXPECT_THAT(names(merged()), ElementsAre("mm", "other", "cast", "add"));
  trace_.ops[1] = op("other", {narrow(kA)}, wide(kSum));
  EXPECT_THAT(names(merged()), ElementsAre("mm", "other", "cast", "add"));
}

TEST_F(AddProducts, NotOnTheHost) {
  trace_.ops[3].on_host = true;
  EXPECT_THAT(names(merged()), ElementsAre("mm", "other", "cast", "add"));
}

TEST_F(AddProducts, TwoOfThemKeepTheirOrder) {
  const std::vector<Op> ops = trace_.ops;
  trace_.buffers.push_back({128 << 10, Role::temporary, false, false, "made again"});
  trace_.buffers.push_back({256 << 10, Role::temporary, false, false, "wide again"});
  for (Op each : ops) {
    for (Argument& argument : each.arguments)
      for (View& view : argument.views) view.buffer = view.buffer == kMade ? 6 : view.buffer == kWide ? 7 : view.buffer;
    insert(trace_.segments[0].end, each);
  }
  EXPECT_THAT(names(merged()), ElementsAre("mm +=", "other", "mm +=", "other"));
}

// The merged op that writes the sum first is at the place of its matmul, after the other matmul.
TEST_F(AddProducts, NotBeforeTheMatmulThatWritesTheSumFirst) {
  trace_.buffers.push_back({128 << 10, Role::temporary, false, false, "made again"});
  trace_.ops[1] = op("mm", {narrow(kB), narrow(kA)}, narrow(6));
  insert(2, op("copy", {narrow(6)}, wide(kSum)));
  EXPECT_THAT(names(merged()), ElementsAre("mm", "mm to", "cast", "add"));
}

TEST_F(AddProducts, TakeTheScratchOfTheirOwnOp) {
  const Trace trace = add_products(trace_, product_sum, [](const Op& op) { return op.name == "mm +=" ? 1000 : 0; });
  EXPECT_EQ(trace.ops[0].workspace_bytes, placed_bytes(trace, 1000));
}

// The product and its copy in float32 are not planned any more: 128 KiB and 256 KiB that are live at the same time.
TEST_F(AddProducts, APlanHasFewerBytes) {
  Op first;  // of the sum, before the step
  first.name = "zero";
  first.arguments = {tensor(wide(kSum), true)};
  trace_.ops.insert(trace_.ops.begin(), first);
  trace_.segments = {{SegmentKind::initialize, 0, 1}, {SegmentKind::micro, 1, 5}};
  PlanOptions options;
  const Plan before = make_plan(trace_, options);
  options.product_sum = product_sum;
  const Plan plan = make_plan(trace_, options);
  EXPECT_EQ(find_fault(plan), "");
  EXPECT_EQ(before.arena_bytes - plan.arena_bytes, (128 << 10) + (256 << 10));
}

}  // namespace
}  // namespace plimsoll
