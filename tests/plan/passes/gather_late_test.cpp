#include "plan/passes/passes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "plan/trace_text.h"
#include "plimsoll/trace.h"

namespace plimsoll {
namespace {

using ::testing::ElementsAre;
using testing::names;
using testing::TraceText;

// Lines of TraceText, in which op `make_w` that reads `slice_w` is the gather of w, and initialize's `make_slice_w` the
// copy of the slice.
struct Gathered {
  explicit Gathered(const std::string& text) : text(text) {
    Trace& trace = this->text.trace;
    for (const Segment& segment : trace.segments)
      for (int32_t i = segment.begin; i < segment.end; ++i) {
        Op& op = trace.ops[i];
        const auto read_buffer = [&](size_t argument) {
          return trace.buffers[op.arguments[argument].views[0].buffer].label;
        };
        if (segment.kind == SegmentKind::initialize) op.phase = Phase::initialize;
        if (op.arguments.size() != 2) continue;
        if (segment.kind == SegmentKind::initialize && read_buffer(0) == "slice_" + read_buffer(1))
          op.name = "aten::copy_";
        if (segment.kind != SegmentKind::initialize && read_buffer(1) == "slice_" + read_buffer(0))
          op.name = "plimsoll::gather_";
      }
  }

  Trace late(bool again_in_backward = false) const { return gather_late(text.trace, again_in_backward); }

  TraceText text;
};

// "make_h(x w) -> h": names of buffers, of the second buffer of a name "w'", of the third "w''".
std::vector<std::string> ops_of(const Trace& trace, const std::string& segment) {
  const auto name_of_buffer = [&](const View& view) {
    std::string name = trace.buffers[view.buffer].label;
    for (BufferId i = 0; i < view.buffer; ++i)
      if (trace.buffers[i].label == trace.buffers[view.buffer].label) name += "'";
    return name;
  };
  std::vector<std::string> lines;
  const Segment* found = trace.segment_named(segment);
  for (int32_t i = found->begin; i < found->end; ++i) {
    const Op& op = trace.ops[i];
    std::string line = op.name == "plimsoll::gather_" ? "gather" : op.name == "aten::copy_" ? "copy" : "op";
    std::string written;
    for (const Argument& argument : op.arguments)
      for (const View& view : argument.views) (argument.written ? written : line) += " " + name_of_buffer(view);
    for (const View& view : op.results) written += " " + name_of_buffer(view);
    lines.push_back(line + " ->" + written);
  }
  return lines;
}

int64_t peak_of(const Trace& trace) {
  return std::ranges::max(transient_bytes_by_op(trace, lifetimes_of(trace)));
}

const std::string kSlicedBuffers =
    "buffer x 64 persistent\nbuffer slice_v 512 state\nbuffer slice_w 512 state\nbuffer v 1024 persistent\n"
    "buffer w 1024 persistent\n";

const std::string kSlicedStep = kSlicedBuffers +
                                "micro\n"
                                "f - v <- slice_v\nf - w <- slice_w\n"
                                "f a h = x v\nf b k = h w\n"
                                "b b g = k w\nb b slice_w <- g\n"
                                "b a d = g v\nb a slice_v <- d\n";

// Gathered buffers are not persistent any more.
Trace without_inputs(const Gathered& gathered, bool again = false) {
  Gathered changed = gathered;
  std::erase_if(changed.text.trace.inputs, [](const NamedView& view) { return view.name == "v" || view.name == "w"; });
  return changed.late(again);
}

TEST(GatherLate, TracesWithoutGathersStayAsTheyAre) {
  const TraceText text("buffer x 64 persistent\nmicro\nf a h = x\nb a g = h\n");
  const Trace late = gather_late(text.trace, true);
  EXPECT_EQ(names(late), names(text.trace));
  EXPECT_EQ(late.buffers.size(), text.trace.buffers.size());
}

TEST(GatherLate, AParameterIsGatheredAtItsFirstUse) {
  const Trace late = without_inputs(Gathered(kSlicedStep));
  EXPECT_THAT(ops_of(late, "micro"),
              ElementsAre("gather slice_v -> v'", "op x v' -> h", "gather slice_w -> w'", "op h w' -> k",
                          "op k w' -> g", "op g -> slice_w", "op g v' -> d", "op d -> slice_v"));
  for (const Buffer& buffer : late.buffers)
    EXPECT_FALSE(buffer.persistent && (buffer.label == "v" || buffer.label == "w"));
}

TEST(GatherLate, TheGatherIsOfTheModuleThatUsesIt) {
  const Trace late = without_inputs(Gathered(kSlicedStep));
  EXPECT_EQ(late.modules[late.ops[0].module], "a");
  EXPECT_EQ(late.modules[late.ops[2].module], "b");
}

TEST(GatherLate, AgainInBackward) {
  const Trace late = without_inputs(Gathered(kSlicedStep), true);
  EXPECT_THAT(ops_of(late, "micro"),
              ElementsAre("gather slice_v -> v'", "op x v' -> h", "gather slice_w -> w'", "op h w' -> k",
                          "gather slice_w -> w''", "op k w'' -> g", "op g -> slice_w", "gather slice_v -> v''",
                          "op g v'' -> d", "op d -> slice_v"));
  std::vector<Phase> phases;
  for (const Op& op : late.ops)
    if (op.name == "plimsoll::gather_") phases.push_back(op.phase);
  EXPECT_THAT(phases, ElementsAre(Phase::forward, Phase::forward, Phase::backward, Phase::backward));
}

// v and w are never whole at the same time if they are gathered again; without the pass they always are.
TEST(GatherLate, FewerBytesAreLive) {
  const Gathered gathered(kSlicedStep);
  Trace recorded = gathered.text.trace;
  for (Buffer& buffer : recorded.buffers)
    if (buffer.label == "v" || buffer.label == "w") buffer.persistent = false;
  const int64_t before = peak_of(recorded), kept = peak_of(without_inputs(gathered)),
                again = peak_of(without_inputs(gathered, true));
  EXPECT_GE(before, 2048);
  EXPECT_LE(kept, before);
  EXPECT_LT(again, 1024 + 4 * 64);
}

TEST(GatherLate, EachSegmentHasABufferOfItsOwn) {
  const Gathered gathered(kSlicedBuffers +
                          "micro\nf - w <- slice_w\nf a h = x w\n"
                          "evaluate\nf - w <- slice_w\nf a k = x w\n");
  const Trace late = without_inputs(gathered);
  EXPECT_THAT(ops_of(late, "micro"), ElementsAre("gather slice_w -> w'", "op x w' -> h"));
  EXPECT_THAT(ops_of(late, "evaluate"), ElementsAre("gather slice_w -> w''", "op x w'' -> k"));
  const std::vector<Lifetime> lifetimes = lifetimes_of(late);
  EXPECT_EQ(lifetimes[gathered.text["w"]].birth, lifetimes[gathered.text["w"]].death) << "the recorded one is unused";
}

TEST(GatherLate, AParameterThatIsNotUsedIsNotGathered) {
  const Gathered gathered(kSlicedBuffers +
                          "micro\nf - v <- slice_v\nf - w <- slice_w\nf a h = x w\n"
                          "evaluate\nf - v <- slice_v\nf a k = x\n");
  const Trace late = without_inputs(gathered);
  EXPECT_THAT(ops_of(late, "micro"), ElementsAre("gather slice_w -> w'", "op x w' -> h"));
  EXPECT_THAT(ops_of(late, "evaluate"), ElementsAre("op x -> k"));
}

TEST(GatherLate, SegmentsStayNextToEachOther) {
  const Trace late = without_inputs(Gathered(kSlicedStep + "update\nu - v <- slice_v\nu - slice_w <- x\n"), true);
  ASSERT_EQ(late.segments.size(), 2u);
  EXPECT_EQ(late.segments[0].begin, 0);
  EXPECT_EQ(late.segments[0].end, late.segments[1].begin);
  EXPECT_EQ(late.segments[1].end, static_cast<int32_t>(late.ops.size()));
  EXPECT_THAT(ops_of(late, "update"), ElementsAre("op x -> slice_w"));
}

// The update of slice_w, which could come before the use in backward, would change what is gathered.
TEST(GatherLate, NeverBehindAnUpdateOfTheSlice) {
  const Gathered gathered(kSlicedBuffers +
                          "micro\nf - w <- slice_w\n"
                          "f a h = x\nu - slice_w <- x\nb a g = h w\n");
  for (const bool again : {false, true})
    EXPECT_THAT(ops_of(without_inputs(gathered, again), "micro"),
                ElementsAre("op x -> h", "gather slice_w -> w'", "op x -> slice_w", "op h w' -> g"));
}

// v and w are made and then changed; each slice is copied after the last change, so that one is whole at a time.
TEST(GatherLate, SlicesAreCopiedWhenTheParameterIsMade) {
  const Gathered gathered(kSlicedBuffers +
                          "initialize\nf - v <- x\nf - w <- x\nf - v <- v x\nf - slice_v <- v\nf - slice_w <- w\n"
                          "micro\nf - v <- slice_v\nf - w <- slice_w\nf a h = x v w\n");
  const Trace late = without_inputs(gathered);
  EXPECT_THAT(ops_of(late, "initialize"),
              ElementsAre("op x -> v'", "op x -> w'", "copy w' -> slice_w", "op v' x -> v'", "copy v' -> slice_v"));
  EXPECT_EQ(late.segment(SegmentKind::initialize)->end, 5);
  EXPECT_THAT(ops_of(late, "micro"),
              ElementsAre("gather slice_v -> v''", "gather slice_w -> w''", "op x v'' w'' -> h"));
}

// Other copies in initialize, and copies of slices in other segments, are left alone.
TEST(GatherLate, OnlyCopiesOfSlicesAreMoved) {
  const Gathered gathered(kSlicedBuffers +
                          "initialize\nf - h = x\nf - slice_v <- h\nf - slice_w <- w\n"
                          "micro\nf - w <- slice_w\nf a k = x w\n");
  const Trace late = without_inputs(gathered);
  EXPECT_THAT(ops_of(late, "initialize"), ElementsAre("copy w' -> slice_w", "op x -> h", "op h -> slice_v"));
}

// Only copies are moved.
TEST(GatherLate, OtherOpsThatMakeASliceStay) {
  Gathered gathered(kSlicedBuffers +
                    "initialize\nf - w <- x\nf - h = x\nf - slice_w <- w\n"
                    "micro\nf - w <- slice_w\nf a k = x w\n");
  gathered.text.trace.ops[2].name = "aten::mul.out";
  EXPECT_THAT(ops_of(without_inputs(gathered), "initialize"), ElementsAre("op x -> w", "op x -> h", "op w -> slice_w"));
}

}  // namespace
}  // namespace plimsoll
