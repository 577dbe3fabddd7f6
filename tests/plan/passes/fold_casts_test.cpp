#include "plan/passes/passes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/passes/pipeline.h"
#include "plan/trace_text.h"

namespace plimsoll {
namespace {

using testing::tensor;

constexpr BufferId kParameter = 0, kLow = 1, kGradient = 2, kNorms = 3, kProduct = 4;

View view_as(BufferId buffer, DType dtype, std::vector<int64_t> sizes = {4, 8}) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * sizes[i];
  return {buffer, dtype, 0, sizes, strides};
}

Op op_in_phase(const std::string& name, Phase phase, std::vector<Argument> arguments) {
  Op made;
  made.name = name;
  made.phase = phase;
  made.arguments = std::move(arguments);
  made.bytes_moved = 1000;
  return made;
}

// A product in 16 bits, cast to a float32 gradient; its norm, and the update.
class FoldCasts : public ::testing::Test {
 protected:
  FoldCasts() {
    trace_.modules = {""};
    trace_.buffers = {{128, Role::parameter, true, false, "weight"},
                      {64, Role::temporary, false, false, "mm"},
                      {128, Role::gradient, false, false, "gradient of weight"},
                      {64, Role::input, true, false, "norms"},
                      {64, Role::temporary, false, false, "other"}};
    trace_.ops = {
        op_in_phase("aten::mm.out", Phase::backward, {tensor(view_as(kLow, DType::bfloat16), true)}),
        op_in_phase("aten::copy_", Phase::backward,
                    {tensor(view_as(kGradient, DType::float32), true), tensor(view_as(kLow, DType::bfloat16))}),
        op_in_phase("plimsoll::gradient_norm_", Phase::update,
                    {tensor(view_as(kNorms, DType::float32), true), tensor(view_as(kNorms, DType::float32), true),
                     tensor(view_as(kGradient, DType::float32))}),
        op_in_phase(
            "plimsoll::adamw_", Phase::update,
            {tensor(view_as(kParameter, DType::float32), true), {}, tensor(view_as(kGradient, DType::float32))})};
    trace_.segments = {{SegmentKind::micro, 0, 2}, {SegmentKind::update, 2, 4}};
    trace_.update_pieces = {{UpdatePiece::Kind::norm, kParameter, kGradient, 2, 3},
                            {UpdatePiece::Kind::update, kParameter, kGradient, 3, 4}};
  }
  bool folds() const { return prepare_trace(trace_).ops.size() == 3; }
  Trace trace_;
};

TEST_F(FoldCasts, NormAndUpdateReadTheSixteenBits) {
  const Trace folded = fold_casts(trace_);
  for (const size_t reader : {2, 3}) {
    EXPECT_EQ(folded.ops[reader].arguments[2].views[0], view_as(kLow, DType::bfloat16));
    EXPECT_EQ(folded.ops[reader].bytes_moved, 1000 - 64);
  }
  EXPECT_EQ(folded.buffers[kLow].role, Role::gradient);
  EXPECT_EQ(folded.buffers[kLow].label, "gradient of weight");
  for (const UpdatePiece& piece : folded.update_pieces) EXPECT_EQ(piece.gradient, kLow);
  // And the cast goes, with the float32's bytes.
  const Trace prepared = prepare_trace(trace_);
  EXPECT_EQ(prepared.ops.size(), 3);
  for (const Op& each : prepared.ops)
    for_each_view(each, [](const View& view, bool) { EXPECT_NE(view.buffer, kGradient); });
}

TEST_F(FoldCasts, EveryUpdateThatGoesElementByElement) {
  for (const char* name : {"adamw_", "lion_", "sgd_", "momentum_sgd_", "adafactor_"}) {
    trace_.ops[3].name = std::string("plimsoll::") + name;
    EXPECT_TRUE(folds()) << name;
  }
  trace_.ops[3].name = "plimsoll::nesterov_momentum_";
  EXPECT_FALSE(folds());
}

TEST_F(FoldCasts, AGradientThatIsSummedStaysFloat32) {
  trace_.ops.insert(trace_.ops.begin() + 2,
                    op_in_phase("aten::add.out", Phase::backward, {tensor(view_as(kGradient, DType::float32), true)}));
  trace_.segments = {{SegmentKind::micro, 0, 3}, {SegmentKind::update, 3, 5}};
  trace_.update_pieces.clear();
  EXPECT_EQ(prepare_trace(trace_).ops.size(), 5);
}

TEST_F(FoldCasts, SomebodyElseMayReadTheSourceButNotTheTarget) {
  trace_.ops.push_back(
      op_in_phase("aten::mm.out", Phase::update,
                  {tensor(view_as(kNorms, DType::float32), true), tensor(view_as(kLow, DType::bfloat16))}));
  trace_.segments[1].end = 5;
  EXPECT_EQ(prepare_trace(trace_).ops.size(), 4);
  trace_.ops.back().arguments[1] = tensor(view_as(kGradient, DType::float32));
  EXPECT_EQ(prepare_trace(trace_).ops.size(), 5);
}

TEST_F(FoldCasts, ASourceThatIsWrittenAgainIsNoCopyOfItself) {
  trace_.ops.insert(trace_.ops.begin() + 2,
                    op_in_phase("aten::mm.out", Phase::backward, {tensor(view_as(kLow, DType::bfloat16), true)}));
  trace_.segments = {{SegmentKind::micro, 0, 3}, {SegmentKind::update, 3, 5}};
  trace_.update_pieces.clear();
  EXPECT_EQ(fold_casts(trace_).ops[4].arguments[2].views[0], view_as(kGradient, DType::float32));
}

// Buffers have the size of their types, so that only the types decide.
TEST_F(FoldCasts, OnlyCastsFromSixteenBitsToFloat32AreFolded) {
  for (const DType from : {DType::bfloat16, DType::float16, DType::float32, DType::float64})
    for (const DType to : {DType::bfloat16, DType::float16, DType::float32, DType::float64}) {
      trace_.buffers[kLow].bytes = 32 * element_bytes(from);
      trace_.buffers[kGradient].bytes = 32 * element_bytes(to);
      trace_.ops[0].arguments[0] = tensor(view_as(kLow, from), true);
      trace_.ops[1].arguments = {tensor(view_as(kGradient, to), true), tensor(view_as(kLow, from))};
      for (const size_t reader : {2, 3}) trace_.ops[reader].arguments[2] = tensor(view_as(kGradient, to));
      const bool exact = to == DType::float32 && (from == DType::bfloat16 || from == DType::float16);
      EXPECT_EQ(folds(), exact) << "from " << name_of(from) << " to " << name_of(to);
    }
}

TEST_F(FoldCasts, OtherCastsStay) {
  Trace as_it_was = trace_;
  trace_.ops[1].arguments[1] = tensor(view_as(kLow, DType::float16));
  EXPECT_TRUE(folds());  // exact as well
  trace_.ops[1].arguments[1] = tensor(view_as(kLow, DType::float64));
  EXPECT_FALSE(folds());
  trace_ = as_it_was;
  trace_.ops[1].arguments[1].views[0].strides = {1, 4};  // another order
  EXPECT_FALSE(folds());
  trace_ = as_it_was;
  trace_.buffers[kLow].bytes = 128;  // a part of something
  EXPECT_FALSE(folds());
  trace_ = as_it_was;
  trace_.ops[3].name = "plimsoll::muon_";  // reads float32 alone
  EXPECT_FALSE(folds());
  trace_ = as_it_was;
  trace_.outputs = {{"gradient", view_as(kGradient, DType::float32)}};
  EXPECT_FALSE(folds());
}

// The gradient is summed over two ranks: the cast's target is read, flat, by an exchange.
class FoldCastsOfExchanges : public FoldCasts {
 protected:
  FoldCastsOfExchanges() { exchange("plimsoll::reduce_scatter_", {16}, 64); }

  // `sum` elements of the sum on each rank.
  void exchange(const std::string& name, const std::vector<int64_t>& sum, int64_t link_bytes) {
    trace_.buffers[kProduct].bytes = sum[0] * 4;
    trace_.ops[2] = op_in_phase(
        name, Phase::backward,
        {tensor(view_as(kProduct, DType::float32, sum), true), tensor(view_as(kGradient, DType::float32, {32})), {}});
    trace_.ops[2].link_bytes = link_bytes;
    trace_.ops[3].arguments[2] = tensor(view_as(kProduct, DType::float32, sum));
    trace_.segments = {{SegmentKind::micro, 0, 3}, {SegmentKind::update, 3, 4}};
    trace_.update_pieces.clear();
  }
};

TEST_F(FoldCastsOfExchanges, TheExchangeWidensWhatItAddsUp) {
  for (const DType low : {DType::bfloat16, DType::float16}) {
    trace_.ops[0].arguments[0] = tensor(view_as(kLow, low), true);
    trace_.ops[1].arguments[1] = tensor(view_as(kLow, low));
    const Trace folded = fold_casts(trace_);
    EXPECT_EQ(folded.ops[2].arguments[1].views[0], view_as(kLow, low, {32}));
    EXPECT_EQ(folded.ops[2].arguments[0].views[0], view_as(kProduct, DType::float32, {16}));
    EXPECT_EQ(folded.ops[2].bytes_moved, 1000 - 64);
    EXPECT_EQ(folded.buffers[kLow].role, Role::gradient);
    EXPECT_TRUE(folds());
  }
}

// Half of 128 bytes of float32 cross the link. In an all-reduce the float32 sums cross it too.
TEST_F(FoldCastsOfExchanges, FewerBytesCross) {
  EXPECT_EQ(fold_casts(trace_).ops[2].link_bytes, 32);
  exchange("plimsoll::all_reduce_", {32}, 128);
  EXPECT_EQ(fold_casts(trace_).ops[2].link_bytes, 96);
}

TEST_F(FoldCastsOfExchanges, SumsOfSixteenBitsAndOtherExchangesAreNotFolded) {
  const Trace as_it_was = trace_;
  trace_.ops[2].arguments[0].views[0].dtype = DType::bfloat16;
  EXPECT_FALSE(folds());
  for (const char* name : {"plimsoll::all_gather_", "plimsoll::gather_", "plimsoll::broadcast_"}) {
    trace_ = as_it_was;
    trace_.ops[2].name = name;
    EXPECT_FALSE(folds()) << name;
  }
  trace_ = as_it_was;
  EXPECT_TRUE(folds());
}

TEST_F(FoldCastsOfExchanges, APartOfTheGradientIsNotFolded) {
  const Trace as_it_was = trace_;
  trace_.ops[2].arguments[1].views[0].sizes = {31};
  EXPECT_FALSE(folds());
  trace_ = as_it_was;
  trace_.ops[2].arguments[1].views[0].offset = 1;
  EXPECT_FALSE(folds());
  trace_ = as_it_was;
  trace_.ops[2].arguments[1].views[0].dtype = DType::int32;  // its bits
  EXPECT_FALSE(folds());
}

// Its norm is taken too, of the float32.
TEST_F(FoldCastsOfExchanges, AnotherReaderKeepsTheCast) {
  trace_.ops.insert(trace_.ops.begin() + 3, op_in_phase("aten::mm.out", Phase::update,
                                                        {tensor(view_as(kNorms, DType::float32), true),
                                                         tensor(view_as(kGradient, DType::float32))}));
  trace_.segments[1].end = 5;
  EXPECT_EQ(fold_casts(trace_).ops[2].arguments[1].views[0], view_as(kGradient, DType::float32, {32}));
  EXPECT_EQ(fold_casts(trace_).ops[2].link_bytes, 64);
}

}  // namespace
}  // namespace plimsoll
