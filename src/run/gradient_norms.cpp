#include "run/gradient_norms.h"

#include <algorithm>
#include <limits>
#include <map>

#include "ops/op_call.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr std::string_view kNorm = "plimsoll::gradient_norm_";  // (norms, skipped, gradient, index)

/// Returns the index of the first op of the first micro batch that touches each buffer.
std::map<BufferId, int32_t> first_uses(const Trace& trace) {
  std::map<BufferId, int32_t> first;
  const Segment* micro = trace.segment(SegmentKind::micro);
  for (int32_t i = micro ? micro->begin : 0; micro && i < micro->end; ++i)
    for_each_view(trace.ops[static_cast<size_t>(i)], [&](const View& view, bool) { first.emplace(view.buffer, i); });
  return first;
}

}  // namespace

GradientNorms gradient_norms_of(const Trace& recorded) {
  GradientNorms found;
  const std::map<BufferId, int32_t> first = first_uses(recorded);
  std::vector<std::pair<int32_t, GradientNormEntry>> entries;
  for (const UpdatePiece& piece : recorded.update_pieces) {
    if (piece.kind != UpdatePiece::Kind::norm) continue;
    const auto begin = recorded.ops.begin() + piece.begin, end = recorded.ops.begin() + piece.end;
    const auto norm = std::find_if(begin, end, [](const Op& op) { return op.name == kNorm; });
    if (norm == end) return {};
    check(norm->call && norm->arguments.size() == 4, "an op of another schema");
    found.norms = norm->arguments[0].views.at(0);
    const auto written = first.find(piece.gradient);
    entries.emplace_back(written == first.end() ? std::numeric_limits<int32_t>::max() : written->second,
                         GradientNormEntry{recorded.buffers[static_cast<size_t>(piece.parameter)].label,
                                           norm->call->constants.at(3).toInt()});
  }
  std::ranges::stable_sort(entries, {}, [](const auto& entry) { return entry.first; });
  for (auto& [op, entry] : entries) found.entries.push_back(std::move(entry));
  return found;
}

}  // namespace plimsoll
