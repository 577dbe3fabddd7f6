// Declares the choice of optimizer state, gradients and parameters that are offloaded to host memory or disk.
//
// Candidates are grouped by kind: optimizer state, gradients, frozen parameters, trained parameters. The kind with the
// least link traffic per byte and step is offloaded first. State is copied in and out once a step. A gradient is copied
// out after each micro batch, and in for the update. A parameter is copied in for forward and backward of each micro
// batch and for the update, after which it is copied out. `fraction` says how much is offloaded: 1.5 is all of the
// first kind and half of the second. If a part of a kind is offloaded, the offloaded buffers are spread evenly over the
// model. Their copies then overlap the layers between them.
#pragma once

#include <cstdint>
#include <vector>

#include "plimsoll/cost_model.h"
#include "plimsoll/planner.h"
#include "plimsoll/trace.h"

namespace plimsoll {

/// An assignment of buffers to memories.
struct OffloadAssignment {
  std::vector<Memory> memory;              ///< memory by buffer; `device`: it is not offloaded
  int64_t host_bytes = 0, disk_bytes = 0;  ///< offloaded bytes in each memory, as placed
  int64_t state_bytes = 0, gradient_bytes = 0,
          parameter_bytes = 0;         ///< offloaded bytes by role, host and disk together
  bool used_by_micro_batches = false;  ///< true: micro batches use offloaded buffers; false: only the update does

  int64_t bytes() const { return host_bytes + disk_bytes; }
};

/// A list of the buffers that may be offloaded, by kind.
class OffloadCandidates {
 public:
  /// Keeps a reference to `trace`. `micro_batches`: number of micro batches of a step.
  OffloadCandidates(const Trace& trace, int64_t micro_batches, const OffloadParameters& parameters = {});

  /// Returns the number of kinds with at least one candidate: the largest value of `fraction`.
  int kind_count() const { return static_cast<int>(kinds_.size()); }

  /// Returns the assignment that offloads `fraction`, with at most `host_room` bytes in host memory and `disk_room`
  /// bytes on disk. The bytes that do not fit into host memory are stored on disk, the kinds with the least traffic
  /// first.
  OffloadAssignment choose(double fraction, int64_t host_room, int64_t disk_room) const;

  /// Returns a lower bound, in seconds per step, of the time that ops wait for the copies of `choice`.
  double wait_seconds_lower_bound(const OffloadAssignment& choice, const CostModel& cost) const;

 private:
  // Number of copies of a buffer over the link in one step. Element 0: in the segments of micro batches; 1: in other
  // segments.
  struct LinkTransfers {
    double in[2] = {0, 0}, out[2] = {0, 0};
    double all() const { return in[0] + in[1] + out[0] + out[1]; }
  };
  struct Candidate {
    BufferId buffer;
    int64_t bytes;  // as placed
    LinkTransfers transfers;
  };

  const Trace& trace_;
  int64_t micro_batches_;
  std::vector<std::vector<Candidate>> kinds_;  // by kind, the kind with the least traffic first
};

}  // namespace plimsoll
