// Tests the pass slice_rows on hand-made traces: the bytes, the ops of chunks, and the heads that stay as they are.
#include "plan/passes/passes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "plan/passes/row_layout.h"
#include "plan/placement/validator.h"
#include "plan/trace_text.h"
#include "plimsoll/planner.h"
#include "rounds.h"

namespace plimsoll {
namespace {

using testing::rounds;
using testing::tensor;

View dense(BufferId buffer, std::vector<int64_t> sizes) {
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i-- > 1;) strides[i - 1] = strides[i] * sizes[i];
  return {buffer, DType::float32, 0, std::move(sizes), std::move(strides)};
}

View transposed(View view) {
  std::swap(view.sizes[0], view.sizes[1]);
  std::swap(view.strides[0], view.strides[1]);
  return view;
}

// Rules for the operators of the traces below.
RowSlicing rules() {
  RowSlicing slicing;
  slicing.min_bytes = 1 << 10;
  slicing.chunk_bytes = 1 << 20;
  slicing.rule = [](const Op& op) -> std::optional<RowRule> {
    static const std::map<std::string, RowRule> rules = {
        {"mm", {.labels = {{0, 1}, {1, 2}, {0, 2}}, .sums = true, .product = true}},
        {"softmax", {{{0, 1}, {0, 1}}, {0, 1}}},
        {"softmax_backward", {{{0, 1}, {0, 1}, {0, 1}}, {0, 1}}},
        {"gather", {{{0, -1}, {0, -1}, {0, -1}}, {}}},
        {"scatter", {{{0, -1}, {0, -1}, {0, -1}, {0, -1}}, {}}},
        {"zero", {{{0, 1}}, {}}},
        {"scale", {{{0, 1}, {0, 1}}, {}}},
        {"mean", {.labels = {{0, 1}, {}}, .sums = true, .means = true}},
    };
    const auto found = rules.find(op.name);
    if (found == rules.end()) return std::nullopt;
    RowRule rule = found->second;
    rule.whole.resize(3, 0);
    rule.unused.resize(rule.labels.size(), 0);
    return rule;
  };
  const auto op_of = [](const char* name, std::vector<Argument> arguments) {
    Op op;
    op.name = name;
    op.arguments = std::move(arguments);
    return op;
  };
  slicing.add_product = [op_of](const View& sum, const View& a, const View& b) {
    return op_of("add_product", {tensor(sum, true), tensor(a), tensor(b)});
  };
  slicing.add = [op_of](const View& sum, const View& addend, double factor) {
    return op_of(factor == 1 ? "add" : "add_fraction", {tensor(sum, true), tensor(addend)});
  };
  slicing.scale = [op_of](const View& value, double) { return op_of("multiply", {tensor(value, true)}); };
  slicing.copy = [op_of](const View& to, const View& from) { return op_of("copy", {tensor(to, true), tensor(from)}); };
  return slicing;
}

constexpr int64_t kRows = 64, kWidth = 4, kClasses = 256;
constexpr int64_t kLogits = kRows * kClasses * 4;

// A layer, a head with the log-probabilities of labels, and their backward pass.
struct HeadStep {
  enum Buffers : BufferId { input, weight, head, labels, x, logits, p, chosen, loss, d, zeros, scattered, g, dx, dw };

  HeadStep() {
    const auto bytes = [&](int64_t elements, bool persistent = false) {
      trace.buffers.push_back({elements * 4, Role::temporary, persistent, false, "b"});
    };
    bytes(kRows * kWidth, true);
    bytes(kWidth * kWidth, true);
    bytes(kClasses * kWidth, true);
    bytes(kRows, true);
    bytes(kRows * kWidth);
    for (int i = 0; i < 2; ++i) bytes(kRows * kClasses);
    bytes(kRows);
    bytes(1);
    bytes(kRows);
    for (int i = 0; i < 3; ++i) bytes(kRows * kClasses);
    bytes(kRows * kWidth);
    bytes(kClasses * kWidth);
    for (const BufferId b : {input, weight, head, labels}) trace.inputs.push_back({"in", dense(b, {1})});
    trace.modules = {"", "lm_head"};
    const View all = dense(logits, {kRows, kClasses});
    const auto wide = [&](BufferId buffer) { return dense(buffer, {kRows, kClasses}); };
    const auto narrow = [&](BufferId buffer) { return dense(buffer, {kRows, 1}); };
    const View hidden = dense(x, {kRows, kWidth}), table = dense(head, {kClasses, kWidth});
    add("layer", Phase::forward, {tensor(dense(input, {kRows, kWidth})), tensor(dense(x, {kRows, kWidth}), true)});
    add("mm", Phase::forward, {tensor(hidden), tensor(transposed(table)), tensor(all, true)});
    trace.ops.back().module = 1;
    add("softmax", Phase::forward, {tensor(all), tensor(wide(p), true)});
    add("gather", Phase::forward, {tensor(wide(p)), tensor(narrow(labels)), tensor(narrow(chosen), true)});
    add("sum", Phase::forward, {tensor(narrow(chosen)), tensor(dense(loss, {1}), true)});
    add("expand", Phase::backward, {tensor(dense(loss, {1})), tensor(narrow(d), true)});
    add("zero", Phase::backward, {tensor(wide(zeros), true)});
    add("scatter", Phase::backward,
        {tensor(wide(zeros)), tensor(narrow(labels)), tensor(narrow(d)), tensor(wide(scattered), true)});
    add("softmax_backward", Phase::backward, {tensor(wide(scattered)), tensor(wide(p)), tensor(wide(g), true)});
    add("mm", Phase::backward, {tensor(wide(g)), tensor(table), tensor(dense(dx, {kRows, kWidth}), true)});
    add("mm", Phase::backward,
        {tensor(transposed(wide(g))), tensor(hidden), tensor(dense(dw, {kClasses, kWidth}), true)});
    add("layer_backward", Phase::backward, {tensor(dense(dx, {kRows, kWidth})), tensor(dense(weight, {4, 4}), true)});
    const auto count = static_cast<int32_t>(trace.ops.size());
    add("update", Phase::update,
        {tensor(dense(head, {kClasses, kWidth}), true), tensor(dense(dw, {kClasses, kWidth}))});
    trace.segments = {{SegmentKind::micro, 0, count}, {SegmentKind::update, count, count + 1}};
    trace.update_pieces = {{UpdatePiece::Kind::update, head, dw, count, count + 1}};
  }

  void add(const std::string& name, Phase phase, std::vector<Argument> arguments) {
    Op op;
    op.name = name;
    op.phase = phase;
    op.arguments = std::move(arguments);
    trace.ops.push_back(std::move(op));
  }

  int64_t count(const Trace& in, const std::string& name) const { return std::ranges::count(in.ops, name, &Op::name); }

  Trace trace;
};

TEST(SliceRows, KeepsNoLogitsAndAddsUpTheGradientOfTheWeight) {
  const HeadStep step;
  std::vector<SlicedHead> heads;
  const Trace sliced = slice_rows(step.trace, rules(), &heads);
  ASSERT_EQ(heads.size(), 1);
  EXPECT_EQ(heads[0].module, "lm_head");
  EXPECT_EQ(heads[0].chunks, 4);
  EXPECT_EQ(heads[0].whole_bytes, kLogits);
  EXPECT_EQ(heads[0].chunk_bytes, kLogits / 4);
  // Two matmuls of logits for each chunk and one of dx; the gradient of the weight is written once and added to.
  EXPECT_EQ(step.count(sliced, "mm"), 4 * 3 + 1);
  EXPECT_EQ(step.count(sliced, "add_product"), 3);
  EXPECT_EQ(step.count(sliced, "gather"), 4);
  for (const Op& op : sliced.ops)
    for_each_view(op, [&](const View& view, bool) { EXPECT_LE(sliced.buffers[view.buffer].bytes, kLogits / 4); });
  EXPECT_EQ(std::ranges::count(sliced.ops, true, &Op::recomputed), 4 * 2);
  // Forward ops come before backward ops, and the pieces of the update still name its ops.
  EXPECT_TRUE(std::ranges::is_sorted(sliced.ops, {}, &Op::phase));
  EXPECT_EQ(sliced.ops[sliced.update_pieces[0].begin].name, "update");
  EXPECT_EQ(sliced.segments[1].begin, sliced.update_pieces[0].begin);
}

// The gradient of the loss is known before the loss: nothing is computed twice, and the loss waits for its chunks.
TEST(SliceRows, ComputesGradientsWhileAChunksLogitsExist) {
  HeadStep step;
  step.trace.ops[5].arguments[0] = tensor(dense(HeadStep::input, {1}));
  std::vector<SlicedHead> heads;
  const Trace sliced = slice_rows(step.trace, rules(), &heads);
  ASSERT_EQ(heads.size(), 1);
  EXPECT_FALSE(heads[0].recomputed);
  EXPECT_EQ(step.count(sliced, "mm"), 4 * 2 + 1);
  EXPECT_EQ(step.count(sliced, "add_product"), 3);
  EXPECT_EQ(std::ranges::count(sliced.ops, true, &Op::recomputed), 0);
  EXPECT_TRUE(std::ranges::is_sorted(sliced.ops, {}, &Op::phase));
  const auto sum = std::ranges::find(sliced.ops, "sum", &Op::name);
  EXPECT_EQ(sum->phase, Phase::backward);
  EXPECT_EQ(std::count_if(sum, sliced.ops.end(), [](const Op& op) { return op.name == "gather"; }), 0);
}

// A sum in 16 bits is added up in float32, and rounded once.
TEST(SliceRows, AddsUpSumsIn16BitsInFloat32) {
  HeadStep step;
  step.trace.ops[10].arguments[2].views[0].dtype = DType::bfloat16;
  step.trace.ops.back().arguments[1].views[0].dtype = DType::bfloat16;
  step.trace.buffers[HeadStep::dw].bytes /= 2;
  const Trace sliced = slice_rows(step.trace, rules());
  EXPECT_EQ(step.count(sliced, "add_product"), 0);
  EXPECT_EQ(step.count(sliced, "add"), 3);
  EXPECT_EQ(step.count(sliced, "copy"), 2);
  const View* total = nullptr;
  int of_dw = 0;
  for (const Op& op : sliced.ops) {
    if (op.name == "add") total = &op.arguments[0].views[0];
    for_each_view(op, [&](const View& view, bool) { of_dw += view.buffer == HeadStep::dw; });
  }
  ASSERT_TRUE(total);
  EXPECT_EQ(total->dtype, DType::float32);
  EXPECT_EQ(sliced.buffers[total->buffer].bytes, kClasses * kWidth * 4);
  EXPECT_EQ(of_dw, 2);  // the copy behind the loop, and the update
  const auto copy =
      std::find_if(sliced.ops.rbegin(), sliced.ops.rend(), [](const Op& op) { return op.name == "copy"; });
  EXPECT_EQ(copy->arguments[0].views[0].buffer, HeadStep::dw);
  EXPECT_EQ(copy->arguments[1].views[0].buffer, total->buffer);
}

// The mean over all elements is the sum of the means of the chunks, each times its fraction.
TEST(SliceRows, AddsUpMeansOfChunksTimesTheirFractions) {
  HeadStep step;
  const auto mean = static_cast<BufferId>(step.trace.buffers.size());
  step.trace.buffers.push_back({4, Role::temporary, false, true, "mean"});
  Op op = step.trace.ops[2];
  op.name = "mean";
  op.arguments[1] = tensor(View{mean, DType::float32, 0, {}, {}}, true);
  step.trace.ops.insert(step.trace.ops.begin() + 3, op);
  for (Segment& segment : step.trace.segments) segment.end += 1;
  step.trace.segments[1].begin += 1;
  for (UpdatePiece& piece : step.trace.update_pieces) {
    piece.begin += 1;
    piece.end += 1;
  }
  const Trace sliced = slice_rows(step.trace, rules());
  EXPECT_EQ(step.count(sliced, "mean"), 4);
  EXPECT_EQ(step.count(sliced, "multiply"), 1);
  EXPECT_EQ(step.count(sliced, "add_fraction"), 3);
  for (size_t b = step.trace.buffers.size(); b < sliced.buffers.size(); ++b) EXPECT_FALSE(sliced.buffers[b].output);
}

TEST(SliceRows, IsTakenIfTheStepDoesNotFitOtherwise) {
  const HeadStep step;
  PlanOptions options;
  options.row_slicing = std::make_shared<const RowSlicing>(rules());
  const Planner planner(step.trace, options);
  const Plan whole = planner.plan();
  EXPECT_FALSE(whole.choices.loss_rows);
  EXPECT_LT(planner.minimum_budget(), whole.peak_bytes - kLogits);
  const Plan small = planner.plan(planner.minimum_budget());
  ASSERT_TRUE(small.fits);
  EXPECT_TRUE(small.choices.loss_rows);
  EXPECT_EQ(find_fault(small), "");
  const auto reason = std::ranges::find(small.reasons, "loss_rows: on", &Reason::decision);
  ASSERT_NE(reason, small.reasons.end());
  EXPECT_TRUE(
      reason->why.starts_with("logits of 'lm_head' in 4 chunks of rows, 16.0 KiB of 64.0 KiB at a time, twice: "))
      << reason->why;
  options.row_slicing = nullptr;
  EXPECT_GT(Planner(step.trace, options).minimum_budget(), small.peak_bytes);
}

TEST(SliceRows, LeavesOtherHeadsAsTheyAre) {
  const auto unchanged = [](const auto& change) {
    HeadStep step;
    change(step);
    std::vector<SlicedHead> heads;
    const Trace sliced = slice_rows(step.trace, rules(), &heads);
    return heads.empty() && sliced.ops.size() == step.trace.ops.size();
  };
  EXPECT_FALSE(unchanged([](HeadStep&) {}));
  EXPECT_TRUE(unchanged([](HeadStep& step) { step.trace.ops[2].name = "unknown"; }));
  EXPECT_TRUE(unchanged([](HeadStep& step) { step.trace.buffers[HeadStep::logits].output = true; }));
  EXPECT_TRUE(unchanged([](HeadStep& step) {
    step.trace.outputs.push_back({"logits", dense(HeadStep::logits, {kRows, kClasses})});
  }));
  // The softmax is over the rows.
  EXPECT_TRUE(unchanged([](HeadStep& step) {
    for (Argument& argument : step.trace.ops[2].arguments) argument.views[0] = transposed(argument.views[0]);
  }));
  // The weight changes between the matmul and its repetition.
  EXPECT_TRUE(unchanged([](HeadStep& step) {
    step.trace.ops[5].arguments.push_back(tensor(dense(HeadStep::head, {kClasses, kWidth}), true));
  }));
  // Another segment reads the logits.
  EXPECT_TRUE(unchanged([](HeadStep& step) {
    step.trace.ops.back().arguments.push_back(tensor(dense(HeadStep::logits, {kRows, kClasses})));
  }));
}

// A view of some rows of a buffer, and a buffer of its chunks: every element belongs to one chunk, and has its row.
TEST(RowLayout, ChunksHaveEveryElementOnce) {
  for (int round = 0; round < rounds(300); ++round) {
    std::mt19937 random(round);
    SCOPED_TRACE(round);
    const auto draw = [&](int64_t min, int64_t max) {
      return std::uniform_int_distribution<int64_t>(min, max)(random);
    };
    const RowSpace space{draw(1, 3), draw(1, 9)};
    const int64_t width = draw(1, 4), first = draw(0, space.tokens - 1);
    const RowLayout layout{width, 0, space.sequences, first, draw(1, space.tokens - first)};
    // Either [sequences, tokens, width] of some tokens, or [rows, width] of all.
    const bool flat = draw(0, 1) == 1;
    const int64_t skipped = flat ? 0 : draw(0, layout.tokens - 1);
    const int64_t tokens = layout.tokens - skipped;
    View view{0, DType::float32, skipped * width, {}, {}};
    std::vector<int> labels = {0, 1};
    if (flat) {
      view.sizes = {layout.rows(), width};
      view.strides = {width, 1};
    } else {
      view.sizes = {space.sequences, tokens, width};
      view.strides = {layout.tokens * width, width, 1};
      labels = {0, 1, 2};
    }
    int64_t other = 0;
    const auto rows = rows_of(view, layout, labels, other);
    ASSERT_TRUE(rows);
    if (view.elements() == layout.rows() * width && layout.tokens > 1 && view.sizes[0] > 1 && (flat || tokens > 1)) {
      EXPECT_EQ(layout_of(view, layout.rows() * width, *rows, labels), layout);
    }
    std::map<int64_t, int> seen;
    for (const RowChunk& chunk : space.chunks(draw(1, space.rows()))) {
      const auto part = part_of(view, *rows, labels, chunk);
      if (!part) continue;
      const View local = in_chunk(*part, layout, chunk, 1);
      const RowChunk own = layout.own(chunk);
      const int64_t own_rows = own.sequences.size() * own.tokens.size();
      std::vector<int64_t> index(part->sizes.size(), 0);
      for (int64_t i = 0; i < part->elements(); ++i) {
        int64_t rest = i, at = part->offset, at_local = local.offset;
        for (size_t d = part->sizes.size(); d-- > 0; rest /= part->sizes[d]) {
          at += rest % part->sizes[d] * part->strides[d];
          at_local += rest % part->sizes[d] * local.strides[d];
        }
        ++seen[at];
        const int64_t row = at / width, s = row / layout.tokens, t = row % layout.tokens;
        EXPECT_EQ(at_local,
                  ((s - own.sequences.begin) * own.tokens.size() + t - own.tokens.begin) * width + at % width);
        EXPECT_LT(at_local, own_rows * width);
        EXPECT_LE(chunk.sequences.begin, s);
        EXPECT_LT(layout.first_token + t, chunk.tokens.end);
      }
    }
    EXPECT_EQ(static_cast<int64_t>(seen.size()), view.elements());
    for (const auto& [at, times] : seen) EXPECT_EQ(times, 1);
  }
}

}  // namespace
}  // namespace plimsoll
