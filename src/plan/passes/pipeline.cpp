#include "plan/passes/pipeline.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "plan/passes/offload.h"
#include "plan/passes/passes.h"
#include "plan/passes/rewrite.h"
#include "plan/passes/update_in_backward.h"
#include "plan/placement/assign_offsets.h"
#include "plan/placement/validator.h"
#include "plimsoll/error.h"
#include "plimsoll/trace.h"
#include "trace/trace_queries.h"

namespace plimsoll {
namespace {

// Runs the passes of stages `first` to `last` in order, and reports them.
class PassRunner {
 public:
  PassRunner(Plan& plan, Stage first, Stage last, const PassObserver* observer)
      : plan_(plan), first_(first), last_(last), observer_(observer) {}

  /// Begins `stage`, to which the next passes belong. Returns true if it runs.
  bool begin(Stage stage) { return runs_ = first_ <= stage && stage <= last_; }

  /// Runs a pass from trace to trace if `wanted`, that is, if the choices and the options need it.
  template <typename Pass>
  void pass(std::string_view name, bool wanted, const Pass& pass) {
    if (!runs_) return;
    const Trace before = observer_ ? plan_.trace : Trace();
    if (wanted) plan_.trace = pass(std::move(plan_.trace));
    report(name, wanted, observer_ && wanted && !same_trace(before, plan_.trace));
  }

  /// Reports a pass. One that does not change the trace calls nothing else.
  void report(std::string_view name, bool applied, bool changed) const {
    if (!observer_) return;
    PassReport report = report_of(name, plan_.trace);
    report.applied = applied;
    report.changed = changed;
    (*observer_)(report, plan_.trace);
  }

 private:
  Plan& plan_;
  const Stage first_, last_;
  const PassObserver* const observer_;
  bool runs_ = false;
};

std::vector<RecomputeChoice> recompute_choices(const PassInputs& in) {
  std::vector<RecomputeChoice> choices;
  for (const TrainingGraph& graph : *in.graphs) choices.push_back({&graph, in.choices.kept});
  return choices;
}

OffloadChoice offload_choice(const Trace& trace, const PassInputs& in) {
  const std::vector<char>& offloaded = in.choices.offloaded;
  OffloadChoice choice{std::vector<char>(trace.buffers.size(), 0), in.choices.host_updates};
  for (const TrainingGraph& graph : *in.graphs)
    for (size_t v = 0; v < offloaded.size(); ++v)
      if (offloaded[v]) choice.offloaded_saved[graph.values[v].buffer] = 1;
  return choice;
}

}  // namespace

Plan run_passes(Plan plan, Stage first, Stage last, const PassInputs& in) {
  const PlanOptions& options = in.options;
  const PlanChoices& choices = in.choices;
  // A trace without training segments is placed as prepared.
  const FusionRules* const fusion_rules = plan.trace.segment(SegmentKind::micro) ? options.fusion_rules.get() : nullptr;
  PassRunner run(plan, first, last, in.observer);

  run.begin(Stage::prepare);
  // On the trace as recorded, and before the scratch of each op is known.
  run.pass("slice_rows", choices.loss_rows,
           [&](Trace trace) { return slice_rows(std::move(trace), *options.row_slicing); });
  run.pass("apply_workspace_model", bool(options.workspace),
           [&](Trace trace) { return apply_workspace_model(std::move(trace), options.workspace); });
  // Before update_in_backward, which places updates by the remaining gradients.
  run.pass("fold_casts", true, fold_casts);
  // Before ops are removed, because it reads the order of ops as recorded.
  run.pass("update_in_backward", choices.update_in_backward, update_in_backward);
  // After update_in_backward, which needs the update pieces, and before the searches: which matmuls add to sums must
  // not depend on the budget.
  run.pass("add_products", bool(options.product_sum),
           [&](Trace trace) { return add_products(std::move(trace), options.product_sum, options.workspace); });
  // After updates are placed by the gradients, and before the searches, which depend on the lifetimes of gathered
  // parameters.
  run.pass("gather_late", gathers_parameters(plan.trace),
           [&](Trace trace) { return gather_late(std::move(trace), options.gradient_checkpointing == Choice::off); });
  // Before the searches, so that none counts or recomputes dead ops.
  run.pass("remove_dead_ops", true, remove_dead_ops);
  run.pass("sink_initialization", true, sink_initialization);

  // The searches choose here, on the prepared trace.

  if (run.begin(Stage::choices) && options.on_schedule) options.on_schedule();
  // Before offload, which inserts copies of buffers that are not on the device.
  run.pass("assign_memories", !choices.memory.empty(),
           [&](Trace trace) { return assign_memories(std::move(trace), choices.memory); });
  run.pass("recompute", choices.recompute,
           [&](Trace trace) { return recompute(std::move(trace), recompute_choices(in)); });
  // After recompute, whose ops may read parameters.
  run.pass("sink_updates", choices.recompute, sink_updates);
  // After recompute, whose ops may read offloaded buffers.
  run.pass("offload", choices.offload, [&](Trace trace) {
    const OffloadChoice choice = offload_choice(trace, in);
    return offload(std::move(trace), choice, in.cost, choices.copy_limit_bytes);
  });

  run.begin(Stage::merging);
  // Norms first: a chain that includes a norm's sum would leave the norm unmerged.
  run.pass("fuse_norms", fusion_rules != nullptr, [&](Trace trace) {
    return fuse_norms(std::move(trace), *fusion_rules, in.cost, options.workspace, options.solver.merging);
  });
  run.pass("fuse_pointwise", fusion_rules != nullptr, [&](Trace trace) {
    return fuse_pointwise(std::move(trace), *fusion_rules, in.cost, options.solver.merging);
  });
  run.pass("group_updates", fusion_rules && fusion_rules->updates, [&](Trace trace) {
    return group_updates(std::move(trace), *fusion_rules->updates, options.workspace, options.solver.merging);
  });

  run.begin(Stage::overlap);
  // After merging, which moves ops next to each other.
  run.pass("overlap_exchanges", choices.exchange_limit_bytes >= 0, [&](Trace trace) {
    return overlap_exchanges(std::move(trace), cost_of_all_ranks(in.cost), choices.exchange_limit_bytes);
  });

  run.begin(Stage::scratch);
  // Last, because the live bytes of the finished schedule say how much memory remains.
  run.pass("grow_scratch", choices.scratch_limit_bytes >= 0, [&](Trace trace) {
    return grow_scratch(std::move(trace), options.forms, options.workspace, choices.scratch_limit_bytes);
  });

  if (run.begin(Stage::placement)) {
    assign_offsets(plan, options);
    plan.choices = choices;
    plan.fused_ops = fused_ops_of(plan.trace);
    run.report("placement", true, false);
  }
  if (run.begin(Stage::validation)) {
    if (const std::string fault = find_fault(plan); !fault.empty()) throw InternalError("unsound plan: " + fault);
    run.report("validation", true, false);
  }
  return plan;
}

PassReport report_of(std::string_view pass, const Trace& after) {
  PassReport report;
  report.pass = pass;
  report.changed = true;
  report.ops = static_cast<int64_t>(after.ops.size());
  const std::vector<Lifetime> lifetimes = lifetimes_of(after);
  for (const int64_t live : transient_bytes_by_op(after, lifetimes))
    report.live_bytes = std::max(report.live_bytes, live);
  for (size_t b = 0; b < after.buffers.size(); ++b) {
    const Buffer& buffer = after.buffers[b];
    report.buffers += buffer.persistent || lifetimes[b].birth < lifetimes[b].death;
    if (buffer.persistent && buffer.on_device()) report.live_bytes += placed_bytes(after, buffer.bytes);
  }
  return report;
}

Trace prepare_trace(Trace trace, const PlanChoices& choices, const PlanOptions& options) {
  return run_passes({.trace = std::move(trace)}, Stage::prepare, Stage::prepare, {options, choices, options.cost})
      .trace;
}

Trace apply_choices(Trace trace, const PlanChoices& choices, const std::vector<TrainingGraph>& graphs,
                    const CostModel& cost) {
  static const PlanOptions none;  // the stage reads no option
  return run_passes({.trace = std::move(trace)}, Stage::choices, Stage::choices, {none, choices, cost, &graphs}).trace;
}

Trace apply_workspace_model(Trace trace, const WorkspaceModel& model) {
  for (Op& op : trace.ops)
    if (const auto bytes = model(op)) op.workspace_bytes = placed_bytes(trace, *bytes);
  return trace;
}

}  // namespace plimsoll
