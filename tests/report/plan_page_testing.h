// Declares pages of plans for tests, and a reader of their data.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "plan/trace_text.h"
#include "plimsoll/plan_page.h"
#include "plimsoll/planner.h"

namespace plimsoll::testing {

/// The two blocks with large buffers. The peak is at op 4.
inline const std::string kPageTrace = R"(
buffer x 640 persistent
buffer w0 4096 persistent
buffer w1 4096 persistent
buffer h0 20480
buffer h1 20480
buffer g0 4096
buffer g1 4096
)" + kTwoBlockOps;

inline Plan page_plan(int64_t context_bytes = 0) {
  TraceText text(kPageTrace);
  for (const char* name : {"w0", "w1"}) text.trace.buffers[text[name]].role = Role::parameter;
  for (const char* name : {"g0", "g1"}) text.trace.buffers[text[name]].role = Role::gradient;
  for (const char* name : {"h0", "h1"}) text.trace.buffers[text[name]].role = Role::activation;
  text.trace.buffers[text["x"]].role = Role::input;
  PlanOptions options;
  options.gradient_checkpointing = Choice::off;
  options.budget.context = context_bytes;
  options.workspace = [](const Op& op) -> std::optional<int64_t> {
    return op.name == "make_d1" ? std::optional<int64_t>(1000) : std::nullopt;
  };
  return make_plan(text.trace, options);
}

// A trace as large as an 80-layer model's: many ops and buffers with long names, each live for several ops, stacked in
// rows.
inline Plan large_plan(int32_t ops, int32_t buffers) {
  Plan plan;
  Trace& trace = plan.trace;
  trace.modules = {""};
  for (int layer = 0; layer < 80; ++layer)
    trace.modules.push_back(fmt::format("model.layers.{}.self_attention", layer));
  trace.ops.resize(ops);
  for (int32_t i = 0; i < ops; ++i) {
    trace.ops[i].name = fmt::format("plimsoll::operator_{}", i % 90);
    trace.ops[i].module = 1 + i % 80;
    trace.ops[i].phase = i < ops / 2 ? Phase::forward : Phase::backward;
  }
  for (int32_t b = 0; b < buffers; ++b) {
    const int64_t bytes = 64 * (1 + int64_t{7919} * b % 100003);
    const bool named = b % 10 == 0;
    const int32_t birth = static_cast<int32_t>(int64_t{ops} * b / buffers),
                  death = std::min(ops, birth + 1 + b % 300) - 1;
    trace.buffers.push_back(
        {bytes, static_cast<Role>(b % 6), false, false,
         named ? fmt::format("gradient of model.layers.{}.self_attention.query.weight", b) : trace.ops[birth].name});
    const View view{b, DType::uint8, 0, {bytes}, {1}};
    trace.ops[birth].results.push_back(view);
    trace.ops[death].arguments.push_back({Argument::Kind::tensor, false, {view}});
    plan.offsets.push_back(int64_t{64} * 100003 * (b % 400));
  }
  plan.workspace_offsets.assign(ops, -1);
  trace.segments = {{SegmentKind::micro, 0, ops}};
  plan.arena_bytes = plan.peak_bytes = plan.live_bytes = int64_t{64} * 100003 * 401;
  plan.peak_op = ops / 2;
  return plan;
}

inline PlanPage page_of(const Plan& plan) {
  PlanPage page;
  page.title = "job.yaml";
  page.subtitle = "a small decoder on a test";
  page.plan = &plan;
  return page;
}

/// Returns the page's data, as its script reads it.
inline nlohmann::json data_in(const std::string& html) {
  const std::string open = "<script type=\"application/json\" id=\"plan-data\">";
  const size_t begin = html.find(open) + open.size();
  return nlohmann::json::parse(html.substr(begin, html.find("</script>", begin) - begin));
}

/// Returns the page of a plan in which everything has this name.
inline std::string page_named(const std::string& name) {
  Plan plan = page_plan();
  for (Buffer& buffer : plan.trace.buffers) buffer.label = name;
  for (Op& op : plan.trace.ops) op.name = name;
  for (std::string& module : plan.trace.modules) module = name;
  plan.reasons = {{name, name}};
  PlanPage page = page_of(plan);
  page.title = page.subtitle = name;
  page.facts = {{name, name}};
  page.frontier = {{1000, 1000, 1, name, true}};
  return to_html(page);
}

}  // namespace plimsoll::testing
