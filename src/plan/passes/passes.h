// Declares the passes over a recorded trace and over the training graph, one function each; a source has the name of
// its pass.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/passes/training_graph.h"
#include "plimsoll/cost_model.h"
#include "plimsoll/planner.h"
#include "plimsoll/trace.h"
#include "trace/merged_ops.h"
#include "trace/row_slicing.h"

namespace plimsoll {

// The pass that computes the loss of a large linear layer in chunks of rows, so that its results (logits) are
// never whole.
//
//     forward    logits = x W^T   p = log_softmax(logits)   l = gather(p)      for each chunk of rows: logits, p, a
//     slice of l backward   g = f(p, d)   dx = g W   dW = g^T x                           for each chunk: logits and p
//     again, g, a slice
//                                                                              of dx, dW += g^T x
//
// The ops between the layer and values with few elements for each row must each depend on one row (RowSlicing::rule);
// otherwise the head stays as it is. Two heads whose logits one op reads, such as those of a teacher, are cut together.
// Results differ by rounding, because the gradient of the weight is a sum over chunks.
//
// The pass runs first, on the recorded trace: recorded backward ops show which values the loss needs. The recomputed
// matmul costs time, so that the planner takes the pass only if the step does not fit or is slower without it.

/// A head that the pass cuts.
struct SlicedHead {
  std::string module;  ///< module of the layer
  int64_t chunks = 0;
  int64_t whole_bytes = 0;  ///< bytes of all logits
  int64_t chunk_bytes = 0;  ///< bytes of the logits of a chunk, on average
  bool recomputed = false;  ///< backward computes the logits again
};

/// Returns the trace with all heads cut. `heads`: set to those of the first training segment; null: not wanted.
Trace slice_rows(Trace trace, const RowSlicing& slicing, std::vector<SlicedHead>* heads = nullptr);

// The pass that folds casts of gradients into norms and updates.
//
// It runs before update_in_backward: updates in backward depend on the remaining gradients. remove_dead_ops removes the
// casts afterwards. Only exact casts are folded, from 16 bits to float32, so every result is bit-equal.

/// Returns the trace with casts of gradients folded into norms and updates. In mixed precision the backward matmuls
/// return 16-bit gradients, which autograd casts to float32 for the optimizer. Norms and updates read gradients of any
/// dtype, so they get the 16-bit gradient. The float32 copy, two thirds of the gradient's bytes, is dropped. Gradients
/// that are summed over micro batches stay float32.
Trace fold_casts(Trace trace);

// The pass that lets matmuls add to the sum of gradients.
//
//     g = a^T b;  sum = sum + cast(g)   ->   sum += a^T b        g is never stored
//
// It runs before the searches, because which matmuls add must not depend on the budget: results differ by rounding, as
// the product is not rounded before it is added. The searches then see the smaller traffic and fewer live bytes. It
// runs after update_in_backward, which needs the update pieces that this pass drops.

/// Returns the trace with each matmul merged into the op that adds its result to a buffer in place, or that copies it
/// there, if `product_sum` has an op for them and no other op uses the result. The new op runs at the place of the
/// matmul; no op between may use the sum. A copy that only one op reads stays. `workspace` predicts the scratch of the
/// new op; empty: none.
Trace add_products(Trace trace, const ProductSum& product_sum, const WorkspaceModel& workspace);

// The pass that gives ops more scratch where memory remains.
//
// It runs on a finished schedule, after everything that changes live bytes, and just before placement. The searches
// count the scratch of the recorded forms, so no plan needs more memory because of this pass.

/// Returns the trace with ops replaced by the first of their `forms` with which the live transient bytes of the device
/// at the op are at most `limit`. Ops of the segment `evaluate`, which no step runs, do not raise the highest live
/// bytes of `trace`. `workspace` has the scratch of a form; forms that it does not know are not taken.
Trace grow_scratch(Trace trace, const OpForms& forms, const WorkspaceModel& workspace, int64_t limit);

/// Returns the number of ops of `trace` that differ from those of `before` by their form.
int64_t grown_ops_of(const Trace& before, const Trace& trace);

// The pass that merges a sum and the norm that reads it, and a norm's backward and the sum that adds its
// gradient.
//
//     s = x + r;  y, rstd = rms_norm(s)              ->   s, y, rstd        s is read while it is in the cache
//     dx, dw = rms_norm_backward(…);  g = g + dx     ->   g, dw             dx is never stored
//     … g, dw = …;  h = cast(g)                      ->   g, h, dw          g is not read again
//
// It runs on a finished schedule, for the reasons given in fuse_pointwise below. It runs before fuse_pointwise: a sum
// that is merged here has less traffic than in a chain, unless the chain makes the value that it adds.

/// Returns the trace with pairs of ops merged that `fusion_rules.pair` supports. A pair runs at the place of its second
/// op. If an op between them uses what the first writes, or writes what it reads, it runs at the place of the first, if
/// the second may move there. A merged op may be the first or the second of another pair, which runs at its place.
/// Buffers that no other op uses are dropped. A sum with an operand that a pointwise op makes only for it is left to
/// fuse_pointwise. `workspace` predicts the scratch of the new ops; empty: none.
///
/// Without `fusion_rules.all`, a pair is merged only if `cost` predicts less time, and live bytes exceed neither the
/// trace's peak nor their former maximum there.
Trace fuse_norms(Trace trace, const FusionRules& fusion_rules, const CostModel& cost, const WorkspaceModel& workspace,
                 const MergingParameters& limits = {});

// The pass that merges chains of pointwise ops into one op.
//
// It runs on a finished schedule, just before placement. It must not run earlier: recomputation and offload choose
// value by value, and saved values must stay separate; recomputed ops in backward can then be fused with their readers.
// It must not run later: placement is for the remaining buffers.

/// Returns the trace with chains of pointwise ops (`fusion_rules.translate`) merged. The ops of a chain visit the same
/// elements in order, and each reads what another writes or reads. The merged op runs at the place of the last one. No
/// op between may use what they write or write what they read. Buffers that no other op uses are dropped, and so is the
/// scratch of casts. A fused op is named "fused: mul, add".
///
/// Without `fusion_rules.all`, a chain is merged only if `cost` predicts less time, and live bytes exceed neither the
/// trace's peak nor their former maximum there.
Trace fuse_pointwise(Trace trace, const FusionRules& fusion_rules, const CostModel& cost,
                     const MergingParameters& limits = {});

/// Returns the number of recorded ops that run within others.
int64_t fused_ops_of(const Trace& trace);

// The pass that gathers sliced parameters at their first use, in a buffer of their own for each segment.
//
// The recorded trace gathers all parameters at the beginning of a segment, and copies the slices at the end of
// `initialize`. The pass runs before the searches: for recomputation a gathered parameter is a forward value like any
// other. A parameter that is not kept for backward is gathered again, at the cost of the exchange (FSDP's "reshard
// after forward", chosen parameter by parameter).

/// Returns whether `trace` gathers any parameter.
bool gathers_parameters(const Trace& trace);

/// Returns the trace with each `plimsoll::gather_` moved to the first use of the parameter, which gets its own buffer
/// in each segment. In `initialize`, each copy of a slice is moved to the last op before it that makes its parameter.
/// `again_in_backward`: the parameter is gathered again before its first use in backward, and not kept between.
Trace gather_late(Trace trace, bool again_in_backward);

// The pass that merges the updates of small parameters into one op, and the norms of their gradients.
//
// It runs on a finished schedule, like fuse_pointwise: update_in_backward and host_updates choose op by op, and copies
// are timed by the ops that they overlap. Each op costs a dispatch and a launch, and a small one has work for one
// thread only.

/// Returns the trace with equal updates of segment `update` (`grouping`) merged at the place of the last one. No op
/// between may use what they write or write what they read. Not merged: updates on the host, updates of buffers that
/// are copied to or from another memory, and updates within backward. An update that waits keeps its gradient alive. It
/// does not wait if live bytes would then exceed the trace's peak. Norms of gradients are merged by the same rules.
/// `workspace`: the scratch of a group; empty: none.
Trace group_updates(Trace trace, const UpdateGrouping& grouping, const WorkspaceModel& workspace = {},
                    const MergingParameters& limits = {});

/// A count of recorded updates, and of norms of gradients, that run within groups, and of the groups.
struct GroupedUpdates {
  int64_t updates = 0;
  int64_t groups = 0;
  int64_t norms = 0;
  int64_t norm_groups = 0;
};
/// Returns the number of groups in `trace`, and of updates and norms within them.
GroupedUpdates grouped_updates_of(const Trace& trace);

// The pass that lets exchanges between ranks overlap the ops that follow them.
//
//     before   dW(2)  reduce(2)  update(2)  dX(1)  dW(1)  reduce(1)  update(1)
//     after    dW(2)  start(2)   dX(1)  dW(1)  wait(2)  update(2)  start(1)  wait(1)  update(1)
//
// An exchange starts at its recorded place; a gather of a parameter starts earlier by the time that it takes. The wait
// is before the first op that needs the result. Updates that need it are moved behind ops of backward until it is done.
// This is the prefetch and the overlap of PyTorch's FSDP (Zhao et al. 2023, "PyTorch FSDP: experiences on scaling fully
// sharded data parallel") within a limit of bytes.

/// Returns whether `trace` has exchanges that can overlap other ops.
bool has_exchanges(const Trace& trace);

/// Returns the cost model for planning exchanges, which is the same on all ranks of a training. All ranks must make
/// exchanges in the same order, so the model must not depend on what one rank has measured. Figures of the catalogue
/// are the same on all ranks with the same device.
CostModel cost_of_all_ranks(const CostModel& cost);

/// Returns the trace with exchanges split into a start and a wait (Op::exchange). Buffers are held longer for an
/// exchange only while the live bytes of the device are at most `limit`. The scratch of all overlapping exchanges of a
/// segment becomes one buffer, an additional argument of start and wait. Ranks with equal `cost` get the same order of
/// exchanges.
Trace overlap_exchanges(Trace trace, const CostModel& cost, int64_t limit);

// The recompute pass: it runs forward ops a second time in the backward pass for values that are not kept.
//
// Such a value is dropped after its last use in forward, and recomputed just before backward first needs it.
//
//     forward    a  b  c  d            kept: a, d
//     backward         [d'] [b, c recomputed] [c' b']
//
// Ops that draw random numbers keep their id and draw the same numbers again: bit-equal results. The pass runs after
// remove_dead_ops, so that dead ops are not recomputed, and before every pass that depends on lifetimes, which it
// changes. If updates are among backward ops, sink_updates (plan/passes/update_in_backward.h) runs right after it.
// Sources: Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016; Jain et al., "Checkmate", MLSys 2020.

/// A choice of kept values for one training segment.
struct RecomputeChoice {
  const TrainingGraph* graph = nullptr;  ///< graph of the trace that is passed to recompute()
  KeptValues kept;
};

/// Returns the trace with the choices applied. Each choice is for another segment.
Trace recompute(Trace trace, const std::vector<RecomputeChoice>& choices);

// The pass that runs initialization ops with temporary results just before these are used.
//
// It runs after remove_dead_ops, so that it moves no dead op, and before every pass that depends on lifetimes. A model
// is first built and then quantized, cast or sliced. In the recorded order all its full weights would be live at the
// same time, and the peak of initialization would set the budget of the run.

/// Returns the trace in which each op of segment `initialize` that writes no persistent buffer runs directly before the
/// first op there that uses its result. The ops that it depends on run before it. Results and random numbers do not
/// change.
Trace sink_initialization(Trace trace);

}  // namespace plimsoll
