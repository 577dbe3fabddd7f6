#include "trace/trace_queries.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

namespace plimsoll {
namespace {

View view_of(BufferId buffer, DType dtype = DType::float32) {
  return {buffer, dtype, 0, {3}, {1}};
}

/// One product of an input with a parameter.
Trace product() {
  Trace trace;
  trace.buffers = {{12, Role::input, true, false, "x"}, {12, Role::parameter, true, false, "w"}, {12}};
  Op op{.name = "aten::mul.out"};
  op.arguments = {{Argument::Kind::tensor, false, {view_of(0)}},
                  {Argument::Kind::tensor, false, {view_of(1)}},
                  {Argument::Kind::tensor, true, {view_of(2)}}};
  op.results = {view_of(2)};
  trace.ops = {op};
  trace.segments = {{SegmentKind::micro, 0, 1}};
  trace.modules = {"", "layer"};
  trace.inputs = {{"x", view_of(0)}};
  trace.outputs = {{"loss", view_of(2)}};
  trace.state = {{"w", view_of(1)}};
  trace.constants = {{1, {std::byte{7}}}};
  return trace;
}

std::shared_ptr<const OpCall> some_call() {
  const auto anything = std::make_shared<int>();
  return {anything, reinterpret_cast<const OpCall*>(anything.get())};
}

TEST(SameTrace, EveryPartCounts) {
  const std::vector<std::function<void(Trace&)>> changes = {
      [](Trace& t) { t.alignment = 256; },
      [](Trace& t) { t.model_parameters = 3; },
      [](Trace& t) { t.trained_parameters = 3; },
      [](Trace& t) { t.modules[1] = "head"; },
      [](Trace& t) { t.segments[0].kind = SegmentKind::last; },
      [](Trace& t) { t.segments[0].end = 0; },
      [](Trace& t) { t.segments.emplace_back(); },
      [](Trace& t) { t.buffers[2].bytes = 16; },
      [](Trace& t) { t.buffers[2].role = Role::activation; },
      [](Trace& t) { t.buffers[2].persistent = true; },
      [](Trace& t) { t.buffers[2].output = true; },
      [](Trace& t) { t.buffers[2].label = "y"; },
      [](Trace& t) { t.buffers[2].memory = Memory::host; },
      [](Trace& t) { t.ops[0].name = "aten::add.out"; },
      [](Trace& t) { t.ops[0].arguments.pop_back(); },
      [](Trace& t) { t.ops[0].arguments[0].kind = Argument::Kind::tensor_list; },
      [](Trace& t) { t.ops[0].arguments[0].written = true; },
      [](Trace& t) { t.ops[0].arguments[0].views[0].dtype = DType::int32; },
      [](Trace& t) { t.ops[0].results.clear(); },
      [](Trace& t) { t.ops[0].phase = Phase::backward; },
      [](Trace& t) { t.ops[0].module = 1; },
      [](Trace& t) { t.ops[0].random_id = 0; },
      [](Trace& t) { t.ops[0].flops = 1; },
      [](Trace& t) { t.ops[0].bytes_moved = 1; },
      [](Trace& t) { t.ops[0].link_bytes = 1; },
      [](Trace& t) { t.ops[0].workspace_bytes = 1; },
      [](Trace& t) { t.ops[0].recomputed = true; },
      [](Trace& t) { t.ops[0].on_host = true; },
      [](Trace& t) { t.ops[0].copy = CopyStage::start; },
      [](Trace& t) { t.ops[0].exchange = CopyStage::wait; },
      [](Trace& t) { t.ops[0].offload_memory = Memory::disk; },
      [](Trace& t) { t.ops[0].call = some_call(); },
      [](Trace& t) { t.inputs[0].name = "z"; },
      [](Trace& t) { t.outputs[0].view.buffer = 1; },
      [](Trace& t) { t.state[0].whole_sizes = {6}; },
      [](Trace& t) { t.constants[0].buffer = 0; },
      [](Trace& t) { t.constants[0].bytes[0] = std::byte{8}; },
  };
  EXPECT_TRUE(same_trace(product(), product()));
  for (size_t i = 0; i < changes.size(); ++i) {
    Trace changed = product();
    changes[i](changed);
    EXPECT_FALSE(same_trace(product(), changed)) << "change " << i;
    EXPECT_FALSE(same_trace(changed, product())) << "change " << i;
    EXPECT_TRUE(same_trace(changed, changed)) << "change " << i;
  }
}

TEST(SameTrace, AnotherCallAndUpdatePiecesDoNotCount) {
  Trace one = product(), other = product();
  one.ops[0].call = some_call();
  other.ops[0].call = some_call();
  other.update_pieces.push_back({.kind = UpdatePiece::Kind::total});
  EXPECT_TRUE(same_trace(one, other));
}

}  // namespace
}  // namespace plimsoll
