// Ops that a device has run often enough are handed over to it in sequences (CUDA graphs): it runs each by itself.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "device/backend.h"
#include "plimsoll/trace.h"

namespace plimsoll {

/// Divides segments into what can be handed over and what cannot: copies between memories, ops that run on the host,
/// random ops, whose seed is new each time, and exchanges between ranks, which wait for other processes.
class Captures {
 public:
  /// Both must outlive it.
  Captures(Backend& backend, const Trace& trace) : backend_(backend), trace_(trace) {}

  /// Runs a segment by `run_op(index)`, from the third time on as sequences where the device takes them. `settled`: its
  /// ops take nothing that was not planned; otherwise it goes op by op. `run_op` must be valid as long as this is.
  void run(const Segment& segment, const std::function<void(int32_t)>& run_op, bool settled);

  /// Sequences that were handed over.
  int64_t captured() const { return captured_; }

 private:
  struct Piece {
    int32_t begin, end;
    std::unique_ptr<CapturedOps> ops;  // none: op by op
  };
  std::vector<Piece> pieces_of(const Segment& segment) const;
  bool may_capture(const Op& op) const;

  Backend& backend_;
  const Trace& trace_;
  std::map<int32_t, int> runs_;                 // by a segment's first op
  std::map<int32_t, std::vector<Piece>> done_;  // likewise
  int64_t captured_ = 0;
};

}  // namespace plimsoll
