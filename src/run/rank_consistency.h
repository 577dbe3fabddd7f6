// Declares checks and sums over the ranks of one training, so that all ranks plan and run the same step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/exchange.h"
#include "plimsoll/options.h"
#include "plimsoll/trace.h"
#include "run/op_times.h"

namespace plimsoll {

/// Throws UserError if a step recorded as `recorded` cannot run with `exchange` (null: one rank): another number of
/// ranks or another rank, or no exchange.
void require_recorded_ranks(const RankOptions& recorded, const Exchange* exchange);

/// Merges the scratch that each rank knows of into `workspace`. Returns true if any rank has to plan again: it passed
/// `found_more`, or other ranks knew more than it did. The result is the same on every rank.
bool merge_workspaces(Exchange& exchange, MeasuredWorkspace& workspace, bool found_more);

/// Throws UserError (failure) on every rank if a rank exchanges other tensors than rank 0, or in another order.
void require_same_exchanges(Exchange& exchange, const Trace& trace);

/// Sum of the losses of all ranks' micro batches.
struct SummedLosses {
  double sum = 0;  ///< added in the order of the step's micro batches: number i * ranks + r is micro batch i of
                   ///< rank r
  bool found_more = false;  ///< true if any rank passed it
};
/// Returns the sum over all ranks. `own`: losses of this rank's micro batches, in order; the same number on every rank.
/// `found_more`: kernels of this rank allocated scratch that was not planned.
SummedLosses sum_losses(Exchange& exchange, const std::vector<double>& own, bool found_more);

/// Returns a hash of the exchanges of `trace`, by segment: names, sizes and dtypes in order. Ranks that run the same
/// step have the same hash.
std::string exchange_order(const Trace& trace);

}  // namespace plimsoll
