#include "run/step_trial.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "base/measurement.h"
#include "base/process.h"
#include "device/available_memory.h"
#include "device/backend.h"
#include "plimsoll/error.h"
#include "plimsoll/machine.h"
#include "plimsoll/training.h"
#include "run/executor/executor.h"
#include "trace/trace_queries.h"

namespace plimsoll {
namespace {

constexpr size_t kLeastSteps = 3;
// Short steps run for a time in which the speed of a shared machine has its ups and downs.
constexpr size_t kUsualSteps = 8, kMostSteps = 64;
constexpr double kSecondsOfUsual = 2;

// Segments in the order in which a step runs them.
constexpr SegmentKind kOrder[] = {SegmentKind::norms, SegmentKind::micro,     SegmentKind::accumulate,
                                  SegmentKind::last,  SegmentKind::remainder, SegmentKind::update,
                                  SegmentKind::finish};

class Timings final : public OpObserver {
 public:
  explicit Timings(const std::vector<Op>& ops) : ops_(ops) {}

  void begin_step() { steps_.push_back({0, std::vector<double>(ops_.size())}); }

  void ran(int32_t index, const TimeSpan& span) override {
    const Op& op = ops_[index];
    const double measured = std::chrono::duration<double>(span.end - span.begin).count();
    const double seconds = measuring_machine().done({op.name, op.flops, static_cast<double>(op.bytes_moved)}, measured);
    steps_.back().of_op[index] = std::max(seconds, 1e-9);
    steps_.back().all += seconds;
  }
  void copied(int32_t op, const TimeSpan& span) override {}

  size_t steps() const { return steps_.size(); }

  // Returns the seconds of each op, by index: the mean over steps without the quarter that was shortest as a whole and
  // the one that was longest. The shortest runs of each op would add up to less than any step takes. Precondition:
  // steps() >= 1.
  std::vector<double> seconds() {
    std::ranges::sort(steps_, {}, &Step::all);
    const size_t quarter = steps_.size() / 4, count = steps_.size() - 2 * quarter;
    std::vector<double> mean(ops_.size());
    for (size_t i = 0; i < mean.size(); ++i) {
      for (size_t step = quarter; step < quarter + count; ++step) mean[i] += steps_[step].of_op[i];
      mean[i] /= static_cast<double>(count);
    }
    return mean;
  }

 private:
  struct Step {
    double all = 0;
    std::vector<double> of_op;
  };
  const std::vector<Op>& ops_;
  std::vector<Step> steps_;
};

// A step's arenas and its executor, on the CPU.
class Trial {
 public:
  explicit Trial(const Plan& plan)
      : plan_(plan),
        arena_(cpu_backend().allocate_arena(std::max<int64_t>(plan.arena_bytes, plan.trace.alignment))),
        host_(plan.host_bytes > 0 ? cpu_backend().allocate_host_arena(plan.host_bytes) : nullptr),
        executor_(plan, cpu_backend(), *arena_, host_.get()) {
    executor_.run(*plan.trace.segment(SegmentKind::initialize), {});
  }

  void observe(OpObserver* observer) { executor_.set_observer(observer); }

  void step(const StepShape& shape) {
    for (const SegmentKind kind : kOrder) {
      const Segment* const segment = plan_.trace.segment(kind);
      if (!segment || runs_in_step(plan_.trace, kind, shape.micro_batches, shape.ragged) == 0) continue;
      if (is_training(kind)) fill_inputs();
      executor_.run(*segment, {});
    }
  }

  // Returns whether the last step's updates changed the parameters.
  bool updated() {
    const NamedView* const skipped = Trace::find(plan_.trace.outputs, "skipped");
    return !skipped || executor_.tensor(skipped->view).item<float>() == 0;
  }

 private:
  // Indices are 0, which every table has; masks hide nothing, and every sample counts.
  void fill_inputs() {
    for (const NamedView& input : plan_.trace.inputs) {
      at::Tensor tensor = executor_.tensor(input.view);
      if (input.name == "loss_factor" || input.name == "loss_scale" || input.name == kSampleMask)
        tensor.fill_(1);
      else if (input.name == "learning_rate" || at::isIntegralType(tensor.scalar_type(), /*includeBool=*/false))
        tensor.zero_();
      else if (tensor.scalar_type() == at::kBool)
        tensor.fill_(true);
      else
        tensor.normal_(0, 1, generator_);
    }
  }

  const Plan& plan_;
  std::unique_ptr<Arena> arena_, host_;
  Executor executor_;
  at::Generator generator_ = at::detail::createCPUGenerator(1);
};

// Returns whether the machine has the memory of both arenas. The system would end the program instead of refusing it.
bool has_memory_for(const Plan& plan) {
  release_free_memory();
  const std::optional<int64_t> available = current_host_memory();
  return !available || plan.peak_bytes + plan.host_bytes <= *available;
}

bool runs_alone(const Plan& plan) {
  return plan.disk_bytes == 0 && std::ranges::none_of(plan.trace.ops, [](const Op& op) { return op.link_bytes > 0; });
}

}  // namespace

std::vector<OpInStep> try_step(const Plan& plan, const StepShape& shape, int threads, double seconds, int64_t bytes) {
  MeasuringMachine& machine = measuring_machine();
  const double end = machine.now() + seconds;
  const std::vector<Op>& ops = plan.trace.ops;
  if (!runs_alone(plan) || plan.arena_bytes > bytes) return {};
  // A segment runs once: of more than three micro batches all but three are repeated.
  const double expected = plan.time.step(std::min<int64_t>(shape.micro_batches, 3), shape.ragged);
  if (expected * (1 + kLeastSteps) > seconds) return {};
  if (!has_memory_for(plan)) return {};
  at::set_num_threads(threads);
  kernel_choices();  // a choice that the step made would be timed
  Timings timings(ops);
  try {
    Trial trial(plan);
    const double begin = machine.now();
    trial.step(shape);  // touches pages, and libraries prepare what they keep: does not count
    const double of_step = machine.now() - begin;
    if (begin + of_step * (1 + kLeastSteps) > end) return {};
    trial.observe(&timings);
    const double usual_end = std::min(end, machine.now() + kSecondsOfUsual);
    while (timings.steps() < kMostSteps &&
           machine.now() + of_step < (timings.steps() < kUsualSteps ? end : usual_end)) {
      timings.begin_step();
      trial.step(shape);
      if (!trial.updated()) return {};
    }
    if (timings.steps() < kLeastSteps) return {};
  } catch (const UserError&) {  // no memory, or a kernel that refuses the numbers
    return {};
  }
  const std::vector<double> of_op = timings.seconds();
  std::vector<OpInStep> result(ops.size());
  for (const Segment& segment : plan.trace.segments) {
    const int64_t runs = runs_in_step(plan.trace, segment.kind, shape.micro_batches, shape.ragged);
    for (int32_t i = segment.begin; runs > 0 && i < segment.end; ++i) result[i] = {of_op[i], runs};
  }
  return result;
}

}  // namespace plimsoll
