#include "run/profile_file.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "base/atomic_file.h"
#include "plimsoll/trace.h"

namespace plimsoll {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kOpsRow = 1, kCopiesRow = 2, kExchangesRow = 3;
constexpr size_t kChunk = 1 << 20;  // bytes written at a time: the text of a profile is never in memory as a whole

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
  Writer(const ProfiledProcess& process, bool follower, const std::function<void(std::string_view)>& take)
      : process_(process), take_(take), first_(!follower) {}

  void title(int threads, const std::vector<ProfiledStep>& steps) {
    metadata("process_name", 0, process_.name);
    add(fmt::format(R"({{"name":"process_sort_index","ph":"M","pid":{0},"tid":0,"args":{{"sort_index":{0}}}}})",
                    process_.number));
    metadata("thread_name", kOpsRow, fmt::format("ops ({} thread{})", threads, threads == 1 ? "" : "s"));
    bool copies = false, exchanges = false;
    for (const ProfiledStep& step : steps)
      for (const ProfiledStep::Run& run : step.copies) (step.plan->ops[run.op].exchange ? exchanges : copies) = true;
    if (copies) metadata("thread_name", kCopiesRow, "copies");
    if (exchanges) metadata("thread_name", kExchangesRow, "exchanges beside ops");
  }

  void step(const ProfiledStep& step) {
    slice(fmt::format("step {}", step.number), "step", kOpsRow, step.span, Json::object());
    for (const ProfiledStep::Part& part : step.parts) slice(part.name, "segment", kOpsRow, part.span, Json::object());
    for (const ProfiledStep::Run& run : step.ops) {
      const ProfiledOp& op = step.plan->ops[run.op];
      memory(*step.plan, op, run.span.begin);
      slice(op.name, op.exchange ? "exchange" : name_of(op.phase), kOpsRow, run.span, arguments_of(op, run.op));
    }
    for (const ProfiledStep::Run& run : step.copies) {
      const ProfiledOp& op = step.plan->ops[run.op];
      slice(op.name, op.exchange ? "exchange" : "copy", op.exchange ? kExchangesRow : kCopiesRow, run.span,
            arguments_of(op, run.op));
    }
  }

  void finish() {
    take_(text_);
    text_.clear();
  }

 private:
  static Json arguments_of(const ProfiledOp& op, int32_t index) {
    Json arguments = {{"op", index}, {"phase", name_of(op.phase)}, {"module", op.module}, {"bytes", op.bytes}};
    if (op.flops > 0) arguments["flops"] = op.flops;
    if (op.link_bytes > 0) arguments["sent_bytes"] = op.link_bytes;
    if (!op.buffer.empty()) arguments["buffer"] = op.buffer;
    if (op.recomputed) arguments["recomputed"] = true;
    if (op.on_host) arguments["on_host"] = true;
    return arguments;
  }

  // The format counts in microseconds. Three decimals keep every nanosecond, so that nested slices stay nested.
  static std::string microseconds(int64_t nanoseconds) {
    return fmt::format("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000);
  }

  void add(const std::string& event) {
    if (!first_) text_ += ",\n";
    first_ = false;
    text_ += event;
    if (text_.size() >= kChunk) finish();
  }

  void metadata(const char* what, int row, const std::string& name) {
    add(fmt::format(R"({{"name":"{}","ph":"M","pid":{},"tid":{},"args":{{"name":{}}}}})", what, process_.number, row,
                    json_string(name)));
  }

  void slice(std::string_view name, std::string_view category, int row, const ProfiledSpan& span,
             const Json& arguments) {
    add(fmt::format(R"({{"name":{},"cat":{},"ph":"X","ts":{},"dur":{},"pid":{},"tid":{},"args":{}}})",
                    json_string(name), json_string(category), microseconds(span.begin - process_.start),
                    microseconds(span.end - span.begin), process_.number, row,
                    arguments.dump(-1, ' ', false, Json::error_handler_t::replace)));
  }

  // Written only if it changes: a viewer extends the last value.
  void memory(const ProfiledPlan& plan, const ProfiledOp& op, int64_t when) {
    static constexpr std::array<const char*, kMemories> names = {"arena", "host arena", "disk arena"};
    for (int m = 0; m < kMemories; ++m) {
      if (plan.arena_bytes[m] == 0 || op.live_bytes[m] == shown_[m]) continue;
      shown_[m] = op.live_bytes[m];
      add(fmt::format(R"({{"name":"{}","ph":"C","ts":{},"pid":{},"tid":0,"args":{{"live bytes":{}}}}})", names[m],
                      microseconds(when - process_.start), process_.number, op.live_bytes[m]));
    }
  }

  const ProfiledProcess& process_;
  const std::function<void(std::string_view)>& take_;
  std::string text_;
  bool first_;
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
    profiled.link_bytes = op.link_bytes;
    profiled.recomputed = op.recomputed;
    profiled.on_host = op.on_host;
    profiled.exchange = op.link_bytes > 0 || op.exchange != CopyStage::none;
    if (op.copy != CopyStage::none) {
      const Buffer& source = trace.buffers[op.arguments[1].views[0].buffer];
      profiled.buffer = source.label;
      profiled.bytes = source.bytes;
    }
    for (size_t m = 0; m < live.size(); ++m) profiled.live_bytes[m] = live[m][i];
    profiled.live_bytes[static_cast<size_t>(op.on_host ? Memory::host : Memory::device)] += op.workspace_bytes;
  }
}

std::string profile_head(const ProfileTitle& title, int ranks) {
  Json other = {{"machine", title.machine},
                {"threads", title.threads},
                {"memory", "live bytes as planned, buffers as placed; not what the system counts"}};
  if (ranks > 1) {
    other["ranks"] = ranks;
    other["time"] = "one clock for all ranks of a host; the first profiled steps of different hosts begin at 0";
  }
  return fmt::format("{{\"displayTimeUnit\":\"ms\",\"otherData\":{},\n\"traceEvents\":[\n", other.dump());
}

void profile_events(const ProfiledProcess& process, int threads, const std::vector<ProfiledStep>& steps, bool follower,
                    const std::function<void(std::string_view)>& take) {
  Writer writer(process, follower, take);
  writer.title(threads, steps);
  for (const ProfiledStep& step : steps) writer.step(step);
  writer.finish();
}

void write_profile(const std::filesystem::path& file, const ProfileTitle& title,
                   const std::vector<ProfiledStep>& steps) {
  AtomicFile out(file);
  out.write(profile_head(title, 1));
  ProfiledProcess process;
  if (!steps.empty()) process.start = steps.front().span.begin;
  profile_events(process, title.threads, steps, /*follower=*/false, [&](std::string_view text) { out.write(text); });
  out.write(kProfileEnd);
  out.commit();
}

}  // namespace plimsoll
