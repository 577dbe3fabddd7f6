#include "run/executor/captures.h"

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
  int& runs = runs_[segment.begin];
  if (!backend_.captures() || !settled || runs < kRunsBefore) {
    runs = settled ? runs + 1 : 0;
    return one_by_one(segment.begin, segment.end);
  }
  const auto [entry, first] = done_.try_emplace(segment.begin);
  if (first) entry->second = pieces_of(segment);
  for (Piece& piece : entry->second) {
    if (first && piece.end - piece.begin >= kMinOps && may_capture(trace_.ops[piece.begin])) {
      piece.ops = backend_.capture([run_op, begin = piece.begin, end = piece.end] {
        for (int32_t i = begin; i < end; ++i) run_op(i);
      });
      captured_ += piece.ops != nullptr;
    }
    if (piece.ops)
      piece.ops->launch();
    else
      one_by_one(piece.begin, piece.end);
  }
}

}  // namespace plimsoll
