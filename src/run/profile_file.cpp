#include "run/profile_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/atomic_file.h"
#include "plimsoll/liveness.h"

namespace plimsoll {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kOpsRow = 1, kCopiesRow = 2;
constexpr size_t kChunk = 1 << 20;  // written at a time: the text of a profile is never in memory as a whole

std::array<std::vector<int64_t>, kMemories> live_bytes_of(const Trace& trace) {
  const std::vector<Lifetime> lifetimes = lifetimes_of(trace);
  std::array<std::vector<int64_t>, kMemories> live;
  for (auto& each : live) each.assign(trace.ops.size() + 1, 0);
  for (size_t b = 0; b < trace.buffers.size(); ++b) {
    if (lifetimes[b].birth >= lifetimes[b].death) continue;
    std::vector<int64_t>& change = live[static_cast<size_t>(trace.buffers[b].memory)];
    change[lifetimes[b].birth] += placed_bytes(trace, trace.buffers[b].bytes);
    change[lifetimes[b].death] -= placed_bytes(trace, trace.buffers[b].bytes);
  }
  for (auto& each : live)
    for (size_t i = 1; i < each.size(); ++i) each[i] += each[i - 1];
  return live;
}

std::string json_string(std::string_view text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

class Writer {
 public:
  Writer(const std::filesystem::path& file, int64_t start) : file_(file), start_(start) {}

  void title(const ProfileTitle& title, const std::vector<ProfiledStep>& steps) {
    const Json other = {{"machine", title.machine},
                        {"threads", title.threads},
                        {"memory", "live bytes as planned, buffers as placed; not what the system counts"}};
    text_ += fmt::format("{{\"displayTimeUnit\":\"ms\",\"otherData\":{},\n\"traceEvents\":[\n", other.dump());
    metadata("process_name", 0, "plimsoll train");
    metadata("thread_name", kOpsRow, fmt::format("ops ({} thread{})", title.threads, title.threads == 1 ? "" : "s"));
    const auto copies = [](const ProfiledStep& step) { return !step.copies.empty(); };
    if (std::ranges::any_of(steps, copies)) metadata("thread_name", kCopiesRow, "copies");
  }

  void step(const ProfiledStep& step) {
    slice(fmt::format("step {}", step.number), "step", kOpsRow, step.span, Json::object());
    for (const ProfiledStep::Part& part : step.parts) slice(part.name, "segment", kOpsRow, part.span, Json::object());
    for (const ProfiledStep::Run& run : step.ops) {
      const ProfiledOp& op = step.plan->ops[run.op];
      memory(*step.plan, op, run.span.begin);
      slice(op.name, name_of(op.phase), kOpsRow, run.span, arguments_of(op, run.op));
    }
    for (const ProfiledStep::Run& run : step.copies) {
      const ProfiledOp& op = step.plan->ops[run.op];
      slice(op.name, "copy", kCopiesRow, run.span, arguments_of(op, run.op));
    }
  }

  void finish() {
    text_ += "\n]}\n";
    file_.write(text_);
    file_.commit();
  }

 private:
  static Json arguments_of(const ProfiledOp& op, int32_t index) {
    Json arguments = {{"op", index}, {"phase", name_of(op.phase)}, {"module", op.module}, {"bytes", op.bytes}};
    if (op.flops > 0) arguments["flops"] = op.flops;
    if (!op.buffer.empty()) arguments["buffer"] = op.buffer;
    if (op.recomputed) arguments["recomputed"] = true;
    if (op.on_host) arguments["on_host"] = true;
    return arguments;
  }

  // The format counts in microseconds; three decimals keep every nanosecond, so that slices nest as they were.
  static std::string microseconds(int64_t nanoseconds) {
    return fmt::format("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000);
  }

  void add(const std::string& event) {
    if (!first_) text_ += ",\n";
    first_ = false;
    text_ += event;
    if (text_.size() < kChunk) return;
    file_.write(text_);
    text_.clear();
  }

  void metadata(const char* what, int row, const std::string& name) {
    add(fmt::format(R"({{"name":"{}","ph":"M","pid":1,"tid":{},"args":{{"name":{}}}}})", what, row, json_string(name)));
  }

  void slice(std::string_view name, std::string_view category, int row, const ProfiledSpan& span,
             const Json& arguments) {
    add(fmt::format(R"({{"name":{},"cat":{},"ph":"X","ts":{},"dur":{},"pid":1,"tid":{},"args":{}}})", json_string(name),
                    json_string(category), microseconds(span.begin - start_), microseconds(span.end - span.begin), row,
                    arguments.dump(-1, ' ', false, Json::error_handler_t::replace)));
  }

  // Only where it changes: a viewer draws the last value on.
  void memory(const ProfiledPlan& plan, const ProfiledOp& op, int64_t when) {
    static constexpr std::array<const char*, kMemories> names = {"arena", "host arena", "disk arena"};
    for (int m = 0; m < kMemories; ++m) {
      if (plan.arena_bytes[m] == 0 || op.live_bytes[m] == shown_[m]) continue;
      shown_[m] = op.live_bytes[m];
      add(fmt::format(R"({{"name":"{}","ph":"C","ts":{},"pid":1,"tid":0,"args":{{"live bytes":{}}}}})", names[m],
                      microseconds(when - start_), op.live_bytes[m]));
    }
  }

  AtomicFile file_;
  int64_t start_;  ///< the nanosecond that is 0 in the file
  std::string text_;
  bool first_ = true;
  std::array<int64_t, kMemories> shown_{-1, -1, -1};
};

}  // namespace

ProfiledPlan::ProfiledPlan(const Plan& plan) : arena_bytes{plan.arena_bytes, plan.host_bytes, plan.disk_bytes} {
  const Trace& trace = plan.trace;
  const auto live = live_bytes_of(trace);
  ops.reserve(trace.ops.size());
  for (size_t i = 0; i < trace.ops.size(); ++i) {
    const Op& op = trace.ops[i];
    ProfiledOp& profiled = ops.emplace_back();
    profiled.name = op.name;
    profiled.module = trace.modules[op.module];
    profiled.phase = op.phase;
    profiled.flops = op.flops;
    profiled.bytes = op.bytes_moved;
    profiled.recomputed = op.recomputed;
    profiled.on_host = op.on_host;
    if (op.copy != CopyStage::none) {
      const Buffer& source = trace.buffers[op.arguments[1].views[0].buffer];
      profiled.buffer = source.label;
      profiled.bytes = source.bytes;
    }
    for (size_t m = 0; m < live.size(); ++m) profiled.live_bytes[m] = live[m][i];
    profiled.live_bytes[static_cast<size_t>(op.on_host ? Memory::host : Memory::device)] += op.workspace_bytes;
  }
}

void write_profile(const std::filesystem::path& file, const ProfileTitle& title,
                   const std::vector<ProfiledStep>& steps) {
  Writer writer(file, steps.empty() ? 0 : steps.front().span.begin);
  writer.title(title, steps);
  for (const ProfiledStep& step : steps) writer.step(step);
  writer.finish();
}

}  // namespace plimsoll
