#include "run/learned_workspace.h"

#include <fmt/format.h>

#include <set>

#include "plimsoll/error.h"
#include "plimsoll/liveness.h"
#include "run/single_op.h"

namespace plimsoll {

std::string LearnedWorkspace::key_of(const Op& op) {
  std::string key = op.name;
  for_each_view(op, [&](const View& view, bool) {
    key += fmt::format("|{}", static_cast<int>(view.dtype));
    for (size_t i = 0; i < view.sizes.size(); ++i) key += fmt::format(",{}:{}", view.sizes[i], view.strides[i]);
  });
  return key;
}

bool LearnedWorkspace::learn(const Op& op, int64_t bytes) {
  int64_t& known = bytes_[key_of(op)];
  if (bytes <= known) return false;
  known = bytes;
  return true;
}

bool LearnedWorkspace::learn_beside(int64_t bytes) {
  bytes = placed_bytes(bytes);
  if (bytes <= beside_bytes_) return false;
  beside_bytes_ = bytes;
  return true;
}

LearnedWorkspace::Probed LearnedWorkspace::probe(const Trace& trace, int64_t bytes, Backend& backend,
                                                 const RunOp& run) {
  bool any = false;
  std::set<std::string> refused;
  for (const Op& op : trace.ops) {
    if (!op.call || operand_bytes(trace, op) > bytes) continue;  // a large one may be asked for again, with more bytes
    const auto [entry, fresh] = bytes_.try_emplace(key_of(op), 0);
    if (!fresh) continue;
    Op ruled = op;  // by rule it takes this much; what comes on top is learned
    int64_t& learned = entry->second;
    const auto try_op = [&] {
      SingleOp single(trace, ruled, op.on_host ? cpu_backend() : backend);
      single.run();
      single.synchronize();
      learned = single.unplanned_bytes();
      any |= learned > 0;
      any |= learn_beside(single.beside_bytes());
    };
    try {
      if (base_) ruled.workspace_bytes = placed_bytes(trace, base_(op).value_or(0));
      if (!run) {
        try_op();
      } else if (!run(op, try_op)) {
        refused.insert(entry->first);
        bytes_.erase(entry);
      }
    } catch (const UserError&) {  // refuses zeros, or there is no room to try it: the first step will tell
      bytes_.erase(entry);
    }
  }
  return {any, static_cast<int64_t>(refused.size())};
}

WorkspaceModel LearnedWorkspace::model() const {
  return [*this](const Op& op) -> std::optional<int64_t> {
    const std::optional<int64_t> ruled = base_ ? base_(op) : std::nullopt;
    if (bytes_.empty()) return ruled;
    const auto found = bytes_.find(key_of(op));
    if (found == bytes_.end()) return ruled;
    return std::max(found->second, ruled.value_or(0));
  };
}

}  // namespace plimsoll
