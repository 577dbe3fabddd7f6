#include "run/executor/captures.h"

#include <fmt/format.h>

#include <algorithm>

#include "cost/operators.h"

namespace plimsoll {
namespace {

constexpr int kRunsBefore = 2;  // libraries initialize themselves in the first run
constexpr int32_t kMinOps = 4;  // for fewer, launching a graph costs as much as the ops

}  // namespace

bool Captures::may_capture(const Op& op) const {
  return op.copy == CopyStage::none && !op.on_host && op.random_id < 0 && op.exchange == CopyStage::none &&
         !is_exchange(op);
}

std::vector<Captures::Piece> Captures::pieces_of(const Segment& segment) const {
  std::vector<Piece> pieces;
  for (int32_t i = segment.begin; i < segment.end;) {
    int32_t end = i;
    const bool captured = may_capture(trace_.ops[i]);
    while (end < segment.end && may_capture(trace_.ops[end]) == captured) ++end;
    pieces.push_back({i, end, nullptr});
    i = end;
  }
  return pieces;
}

void Captures::run(const Segment& segment, const std::function<void(int32_t)>& run_op, bool settled) {
  const auto one_by_one = [&run_op](int32_t begin, int32_t end) {
    for (int32_t i = begin; i < end; ++i) run_op(i);
  };
  Runs& runs = runs_[segment.begin];
  runs.kind = segment.kind;
  runs.last_settled = settled;
  runs.waited = false;
  if (!backend_.captures() || !settled || runs.settled < kRunsBefore) {
    runs.settled = settled ? runs.settled + 1 : 0;
    return one_by_one(segment.begin, segment.end);
  }
  const auto [entry, first] = done_.try_emplace(segment.begin);
  if (first) entry->second = pieces_of(segment);
  for (Piece& piece : entry->second) {
    if (first && piece.end - piece.begin >= kMinOps && may_capture(trace_.ops[piece.begin])) {
      piece.ops = backend_.capture([run_op, begin = piece.begin, end = piece.end] {
        for (int32_t i = begin; i < end; ++i) run_op(i);
      });
      if (piece.ops) {
        ++work_.sequences;
        work_.captured_ops += piece.end - piece.begin;
      } else {
        ++work_.refused_sequences;
        const std::string reason = backend_.capture_refusal();
        work_.refusal = fmt::format("{} and the {} ops after it: {}", trace_.ops[piece.begin].name,
                                    piece.end - piece.begin - 1, reason.empty() ? "no reason given" : reason);
      }
    }
    if (piece.ops)
      piece.ops->launch();
    else
      one_by_one(piece.begin, piece.end);
  }
}

void Captures::note_waited(const Segment& segment) {
  Runs& runs = runs_[segment.begin];
  runs.kind = segment.kind;
  runs.waited = true;
}

DeviceWork Captures::work() const {
  DeviceWork work = work_;
  work.captures = backend_.captures();
  int64_t ops = 0;
  for (const auto& [begin, runs] : runs_) {
    const Segment* const segment = trace_.segment(runs.kind);
    ops += segment ? segment->end - segment->begin : 0;
    if (!work.captures || runs.kind == SegmentKind::initialize) continue;
    const auto done = done_.find(begin);
    if (done != done_.end() &&
        std::ranges::any_of(done->second, [](const Piece& piece) { return piece.ops != nullptr; }))
      continue;
    const std::string why = done != done_.end() ? "its sequences are shorter than 4 ops, or were refused"
                            : runs.waited       ? "each op is waited for"
                            : !runs.last_settled
                                ? "its ops allocate memory that was not planned"
                                : fmt::format("ran {} time{}; sequences are captured from run {} on", runs.settled,
                                              runs.settled == 1 ? "" : "s", kRunsBefore + 1);
    work.not_captured.push_back(fmt::format("{}: {}", name_of(runs.kind), why));
  }
  work.single_ops = ops - work.captured_ops;
  return work;
}

}  // namespace plimsoll
