#include "run/measured_workspace.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include "plimsoll/error.h"
#include "plimsoll/trace.h"
#include "run/executor/single_op.h"

namespace plimsoll {

std::string MeasuredWorkspace::key_of(const Op& op) {
  std::string key = op.name;
  for_each_view(op, [&](const View& view, bool) {
    key += fmt::format("|{}", static_cast<int>(view.dtype));
    for (size_t i = 0; i < view.sizes.size(); ++i) key += fmt::format(",{}:{}", view.sizes[i], view.strides[i]);
  });
  return key;
}

bool MeasuredWorkspace::record(const Op& op, int64_t bytes) {
  int64_t& known = bytes_[key_of(op)];
  if (bytes <= known) return false;
  known = bytes;
  return true;
}

bool MeasuredWorkspace::record_other_thread_bytes(int64_t bytes) {
  bytes = placed_bytes(bytes);
  if (bytes <= other_thread_bytes_) return false;
  other_thread_bytes_ = bytes;
  return true;
}

MeasuredWorkspace::Probed MeasuredWorkspace::probe(const Trace& trace, int64_t bytes, Backend& backend,
                                                   const RunOp& run) {
  bool any = false;
  int64_t refused = 0;
  std::set<std::string> seen;
  for (const Op& op : trace.ops) {
    if (!op.call || op.link_bytes > 0) continue;  // an exchange needs all ranks
    const std::string key = key_of(op);
    if (bytes_.contains(key) || !seen.insert(key).second) continue;
    if (operand_bytes(trace, op) > bytes) {  // a later call may allow more bytes
      refused += !base_ || !base_(op);
      continue;
    }
    Op ruled = op;  // has its scratch by rule; scratch beyond that is recorded
    const auto run_op = [&] {
      SingleOp single(trace, ruled, op.on_host ? cpu_backend() : backend);
      single.run();
      single.synchronize();
      const int64_t unplanned = single.unplanned_bytes();
      bytes_[key] = unplanned;
      any |= unplanned > 0;
      any |= record_other_thread_bytes(single.other_thread_bytes());
    };
    try {
      if (base_) ruled.workspace_bytes = placed_bytes(trace, base_(op).value_or(0));
      if (!run) {
        run_op();
      } else if (!run(op, operand_bytes(trace, ruled), run_op)) {
        ++refused;
        bytes_.erase(key);
      }
    } catch (const UserError&) {  // refuses zeros, or there is no memory to try it: the first step will measure it
    }
  }
  return {any, refused};
}

std::string MeasuredWorkspace::text() const {
  std::string text = fmt::format("{}\n", other_thread_bytes_);
  for (const auto& [key, bytes] : bytes_)
    if (bytes > 0) text += fmt::format("{} {}\n", bytes, key);
  return text;
}

bool MeasuredWorkspace::merge(std::string_view text) {
  bool larger = false, first = true;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    check(end != std::string_view::npos, "what another rank learned is cut off");
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    int64_t bytes = 0;
    const auto [stop, error] = std::from_chars(line.data(), line.data() + line.size(), bytes);
    check(error == std::errc() && bytes >= 0, "what another rank learned is damaged");
    if (std::exchange(first, false)) {
      larger |= bytes > other_thread_bytes_;
      other_thread_bytes_ = std::max(other_thread_bytes_, bytes);
      continue;
    }
    check(stop != line.data() + line.size(), "what another rank learned is damaged");
    int64_t& known = bytes_[std::string(stop + 1, line.data() + line.size())];
    larger |= bytes > known;
    known = std::max(known, bytes);
  }
  return larger;
}

WorkspaceModel MeasuredWorkspace::model() const {
  return [*this](const Op& op) -> std::optional<int64_t> {
    const std::optional<int64_t> ruled = base_ ? base_(op) : std::nullopt;
    if (bytes_.empty()) return ruled;
    const auto found = bytes_.find(key_of(op));
    if (found == bytes_.end()) return ruled;
    return std::max(found->second, ruled.value_or(0));
  };
}

}  // namespace plimsoll
