// What may lie elsewhere than on the device from step to step, and which of it goes first.
//
// Candidates are of a kind each: optimizer state, gradients, frozen parameters, parameters. The kind whose bytes cross
// the link least often in a step goes first: state comes and goes once, a gradient leaves after each micro batch and
// comes for the update, a parameter comes for forward and for backward of each micro batch and for the update, after
// which it leaves. How much goes is a part: 1.5 is all of the first kind and half of the second. A part of a kind is
// spread evenly over the model, so that the link has the time of the layers in between.
#pragma once

#include <cstdint>
#include <vector>

#include "plimsoll/cost_model.h"
#include "plimsoll/plan.h"
#include "plimsoll/trace.h"

namespace plimsoll {

struct AwayChoice {
  std::vector<Memory> memory;                        ///< by buffer; `device`: it stays
  int64_t host = 0, disk = 0;                        ///< bytes that lie there, as placed
  int64_t state = 0, gradients = 0, parameters = 0;  ///< of both
  bool in_training = false;                          ///< some of it is used by micro batches, not by the update alone

  int64_t bytes() const { return host + disk; }
};

class AwayCandidates {
 public:
  /// `micro_batches` of a step: how often what is done for each counts. `trace` must outlive this.
  AwayCandidates(const Trace& trace, int64_t micro_batches, const OffloadParameters& parameters = {});

  /// Kinds that there is something of: the greatest part.
  int kinds() const { return static_cast<int>(kinds_.size()); }

  /// That part, as far as there is room. What `host_room` has no room for lies on disk: of that, what crosses least.
  AwayChoice choose(double part, int64_t host_room, int64_t disk_room) const;

  /// What copies of a choice take of a step at least, in seconds: beside the ops, whose time is that of `trace`, or
  /// after them.
  double least_seconds(const AwayChoice& choice, const CostModel& cost) const;

 private:
  // Of one micro batch's segments, each as often as it runs in a step, and of the update.
  struct Crossings {
    double in[2] = {0, 0}, out[2] = {0, 0};
    double all() const { return in[0] + in[1] + out[0] + out[1]; }
  };
  struct Candidate {
    BufferId buffer;
    int64_t bytes;  // as placed
    Crossings crossings;
  };

  const Trace& trace_;
  int64_t micro_batches_;
  std::vector<std::vector<Candidate>> kinds_;  // cheapest first
};

}  // namespace plimsoll
