// Tests sequences of ops that are handed over to a device.
#include "run/executor/captures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace plimsoll {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

// A device that captures sequences without running them, and runs the captured ones. Its other functions are not
// called.
class RecordingBackend final : public Backend {
 public:
  bool takes = true;
  int launched = 0;
  std::string refusal;

  bool captures() const override { return true; }
  std::unique_ptr<CapturedOps> capture(const std::function<void()>& ops) override {
    if (!takes) return nullptr;
    struct Taken final : CapturedOps {
      Taken(RecordingBackend& recorder, std::function<void()> ops) : recorder(recorder), ops(std::move(ops)) {}
      void launch() override {
        ++recorder.launched;
        ops();
      }
      RecordingBackend& recorder;
      std::function<void()> ops;
    };
    return std::make_unique<Taken>(*this, ops);
  }

  std::string capture_refusal() const override { return refusal; }
  std::string name() const override { return "recorder"; }
  c10::Device device() const override { return c10::kCPU; }
  c10::DispatchKeySet keys() const override { return {}; }
  std::unique_ptr<Arena> allocate_arena(int64_t, int64_t) override { return nullptr; }
  std::unique_ptr<Arena> allocate_host_arena(int64_t, int64_t) override { return nullptr; }
  Place place(Arena&, int64_t, int64_t) const override { return {}; }
  void begin_op(AllocationFrame&) override {}
  int64_t end_op() override { return 0; }
  WorkspaceModel workspace_model(int) const override { return {}; }
  std::optional<int64_t> available_bytes() const override { return {}; }
  bool shares_host_memory() const override { return false; }
  int64_t out_of_arena_peak() const override { return 0; }
  void reset_out_of_arena_peak() override {}
  int64_t out_of_arena_allocations() const override { return 0; }
  at::Generator generator() const override { return {}; }
  std::unique_ptr<CopyEngine> copy_engine() override { return nullptr; }
  void write(Arena&, int64_t, const void*, int64_t) override {}
  void read(const Arena&, int64_t, void*, int64_t) override {}
  void zero(Arena&) override {}
  void relocate(std::vector<Relocation>) override {}
  int64_t relocation_scratch_bytes(int64_t) const override { return 0; }
  void synchronize() override {}
};

class CapturesTest : public ::testing::Test {
 protected:
  // A segment of ten ops; the sixth draws numbers.
  CapturesTest() {
    trace_.ops.resize(10);
    trace_.ops[5].random_id = 1;
    trace_.segments = {{SegmentKind::micro, 0, 10}};
  }
  std::vector<int32_t> run(bool settled = true) {
    order_.clear();
    captures_.run(
        {SegmentKind::micro, 0, 10}, [this](int32_t i) { order_.push_back(i); }, settled);
    return order_;
  }
  std::vector<int32_t> all() const {
    std::vector<int32_t> all(10);
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  Trace trace_;
  RecordingBackend recorder_;
  Captures captures_{recorder_, trace_};
  std::vector<int32_t> order_;
};

TEST_F(CapturesTest, EveryOpRunsOnceEachTimeInOrder) {
  for (int i = 0; i < 5; ++i) EXPECT_THAT(run(), ElementsAreArray(all())) << "run " << i;
  EXPECT_EQ(captures_.captured(), 2);    // around the random one
  EXPECT_EQ(recorder_.launched, 3 * 2);  // from the third run on
}

TEST_F(CapturesTest, WhatIsNotSettledGoesOpByOp) {
  run();
  run();
  EXPECT_THAT(run(/*settled=*/false), ElementsAreArray(all()));
  EXPECT_EQ(captures_.captured(), 0);
  run();
  run();
  EXPECT_EQ(captures_.captured(), 0);  // the count began again
  run();
  EXPECT_EQ(captures_.captured(), 2);
}

TEST_F(CapturesTest, CopiesAndOpsOnTheHostStayOutside) {
  trace_.ops[2].copy = CopyStage::start;
  trace_.ops[7].on_host = true;
  for (int i = 0; i < 3; ++i) EXPECT_THAT(run(), ElementsAreArray(all()));
  EXPECT_EQ(captures_.captured(), 0);  // the rest between them is too short
}

TEST_F(CapturesTest, ExchangesBetweenRanksStayOutside) {
  trace_.ops[5].random_id = -1;
  trace_.ops[4].name = "plimsoll::reduce_scatter_";
  for (int i = 0; i < 3; ++i) EXPECT_THAT(run(), ElementsAreArray(all()));
  EXPECT_EQ(captures_.captured(), 2);  // before and after it
}

TEST_F(CapturesTest, ADeviceThatRefusesIsAskedOnce) {
  recorder_.takes = false;
  for (int i = 0; i < 4; ++i) EXPECT_THAT(run(), ElementsAreArray(all()));
  recorder_.takes = true;
  EXPECT_THAT(run(), ElementsAreArray(all()));
  EXPECT_EQ(captures_.captured(), 0);
}

TEST_F(CapturesTest, TellsWhatWasCaptured) {
  for (int i = 0; i < 3; ++i) run();
  const DeviceWork work = captures_.work();
  EXPECT_TRUE(work.captures);
  EXPECT_EQ(work.sequences, 2);
  EXPECT_EQ(work.captured_ops, 9);
  EXPECT_EQ(work.single_ops, 1);  // the random one
  EXPECT_EQ(work.refused_sequences, 0);
  EXPECT_EQ(work.refusal, "");
  EXPECT_THAT(work.not_captured, ElementsAre());
}

TEST_F(CapturesTest, TellsWhatWasRefused) {
  recorder_.takes = false;
  recorder_.refusal = "operator aten::nonzero failed: operation not permitted";
  trace_.ops[6].name = "aten::nonzero";
  for (int i = 0; i < 4; ++i) run();
  const DeviceWork work = captures_.work();
  EXPECT_EQ(work.sequences, 0);
  EXPECT_EQ(work.refused_sequences, 2);
  EXPECT_EQ(work.single_ops, 10);
  EXPECT_EQ(work.refusal,
            "aten::nonzero and the 3 ops after it: operator aten::nonzero failed: operation not permitted");
  EXPECT_THAT(work.not_captured, ElementsAre("micro: its sequences are shorter than 4 ops, or were refused"));
}

TEST_F(CapturesTest, TellsWhySegmentsAreNotCaptured) {
  run();
  EXPECT_THAT(captures_.work().not_captured, ElementsAre("micro: ran 1 time; sequences are captured from run 3 on"));
  run(/*settled=*/false);
  EXPECT_THAT(captures_.work().not_captured, ElementsAre("micro: its ops allocate memory that was not planned"));
}

TEST_F(CapturesTest, TellsThatOpsAreWaitedFor) {
  captures_.note_waited(trace_.segments[0]);
  const DeviceWork work = captures_.work();
  EXPECT_EQ(work.single_ops, 10);
  EXPECT_THAT(work.not_captured, ElementsAre("micro: each op is waited for"));
  run();
  EXPECT_THAT(captures_.work().not_captured, ElementsAre("micro: ran 1 time; sequences are captured from run 3 on"));
}

}  // namespace
}  // namespace plimsoll
