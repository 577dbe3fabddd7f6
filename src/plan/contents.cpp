// Implements the reports on the contents of a plan's memory: the buffers at the peak, and bytes by role.
#include "plimsoll/plan.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "plan/placement/assign_offsets.h"
#include "plimsoll/trace.h"

namespace plimsoll {

int64_t peak_model_bytes(const Plan& plan) {
  const Trace& trace = plan.trace;
  const std::vector<Lifetime> lifetimes = lifetimes_of(trace);
  std::vector<int64_t> change(trace.ops.size() + 1, 0);
  for (size_t b = 0; b < trace.buffers.size(); ++b) {
    const Buffer& buffer = trace.buffers[b];
    const bool counts =
        buffer.role == Role::parameter || buffer.role == Role::gradient || buffer.role == Role::optimizer_state;
    if (!counts || !buffer.on_device() || lifetimes[b].birth >= lifetimes[b].death) continue;
    change[lifetimes[b].birth] += placed_bytes(trace, buffer.bytes);
    change[lifetimes[b].death] -= placed_bytes(trace, buffer.bytes);
  }
  int64_t live = 0, most = 0;
  for (int64_t each : change) most = std::max(most, live += each);
  return most;
}

std::vector<Resident> largest_at_peak(const Plan& plan, size_t count) {
  const std::vector<Lifetime> lifetimes = lifetimes_of(plan.trace);
  std::vector<Resident> residents;
  for (size_t b = 0; b < plan.trace.buffers.size(); ++b) {
    const Buffer& buffer = plan.trace.buffers[b];
    if (buffer.on_device() && (buffer.persistent || lifetimes[b].live_at(plan.peak_op)))
      residents.push_back({buffer.label, buffer.role, buffer.bytes});
  }
  if (!plan.trace.ops.empty()) {
    const Op& op = plan.trace.ops[plan.peak_op];
    if (op.workspace_bytes > 0 && !op.on_host)
      residents.push_back({"scratch of " + op.name, Role::workspace, op.workspace_bytes});
  }
  std::stable_sort(residents.begin(), residents.end(),
                   [](const Resident& a, const Resident& b) { return a.bytes > b.bytes; });
  if (residents.size() > count) residents.resize(count);
  return residents;
}

namespace {

std::string first_word(std::string_view path) {
  return std::string(path.substr(0, path.find('.')));
}

// Returns the parameter in a label: "gradient of llm.norm.weight" and "optimizer.exp_avg.llm.norm.weight" belong to
// "llm.norm.weight".
std::string_view parameter_of(std::string_view label) {
  if (const size_t of = label.rfind(" of "); of != std::string_view::npos) label.remove_prefix(of + 4);
  constexpr std::string_view state = "optimizer.";
  if (!label.starts_with(state)) return label;
  const size_t kind = label.find('.', state.size());
  return kind == std::string_view::npos ? std::string_view() : label.substr(kind + 1);
}

bool of_parameter(Role role) {
  return role == Role::parameter || role == Role::gradient || role == Role::optimizer_state;
}

}  // namespace

std::vector<ModuleBytes> bytes_by_module(const Plan& plan) {
  const Trace& trace = plan.trace;
  const std::vector<Lifetime> lifetimes = lifetimes_of(trace);
  std::vector<int32_t> module(trace.buffers.size(), -1);  // module of the op that wrote the buffer first
  for (const Op& op : trace.ops)
    for_each_view(op, [&](const View& view, bool written) {
      if (written && module[view.buffer] < 0) module[view.buffer] = op.module;
    });
  const auto word_of = [&](size_t b) -> std::string {
    const Buffer& buffer = trace.buffers[b];
    if (of_parameter(buffer.role)) return first_word(parameter_of(buffer.label));
    if (buffer.role == Role::input || module[b] < 0) return "";
    return first_word(trace.modules[module[b]]);
  };
  std::map<std::string, Breakdown> by_word;
  for (size_t b = 0; b < trace.buffers.size(); ++b) {
    const Buffer& buffer = trace.buffers[b];
    if (buffer.on_device() && (buffer.persistent || lifetimes[b].live_at(plan.peak_op)))
      add_to_breakdown(by_word[word_of(b)], buffer.role, placed_bytes(trace, buffer.bytes));
  }
  Breakdown& none = by_word[""];
  if (!trace.ops.empty() && !trace.ops[plan.peak_op].on_host) {
    const Op& op = trace.ops[plan.peak_op];
    if (op.workspace_bytes > 0) by_word[first_word(trace.modules[op.module])].workspace += op.workspace_bytes;
  }
  int64_t workspace = 0;
  for (const auto& [word, bytes] : by_word) workspace += bytes.workspace;
  none.workspace += plan.breakdown.workspace - workspace;  // memory reserved by libraries
  none.context = plan.breakdown.context;
  none.fragmentation = plan.breakdown.fragmentation;

  std::vector<ModuleBytes> result;
  for (auto& [word, bytes] : by_word)
    if (!word.empty()) result.push_back({word, bytes});
  std::ranges::stable_sort(result, [](const auto& a, const auto& b) { return a.bytes.total() > b.bytes.total(); });
  result.push_back({"", none});
  return result;
}

}  // namespace plimsoll
