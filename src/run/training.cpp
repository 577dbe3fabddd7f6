#include "plimsoll/training.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <optional>

#include "base/process.h"
#include "base/text.h"
#include "collectives/exchange.h"
#include "device/backend.h"
#include "ops/loss/row_rules.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"
#include "plimsoll/machine.h"
#include "plimsoll/trace.h"
#include "run/executor/executor.h"
#include "run/op_times.h"
#include "run/optimizer/optimizer.h"
#include "run/rank_consistency.h"
#include "run/record_step.h"
#include "run/step_profile.h"
#include "run/training_parts.h"

namespace plimsoll {

struct Training::Impl {
  Impl(const Step& step, const TrainingOptions& training_options, PlannedStep planned)
      : options(with_batch(training_options)),
        backend(find_backend(options.device)),  // must come before the first use of libtorch's list of devices
        recorded(std::move(planned.recorded)),
        inputs(step, options),
        workspace(planned.workspace ? *planned.workspace
                                    : MeasuredWorkspace(plan_options_of(options, backend).workspace)),
        minimum_budget(planned.minimum_budget_bytes),
        loss_rows(step.replace.loss_rows),
        scaler(options.precision == Precision::fp16_mixed),
        plan(std::move(planned.plan)) {
    at::set_num_threads(threads_of(options));
    if (options.device == "cpu") kernel_choices();  // measured now, not by the first step
  }

  // Plans again with the measured scratch of kernels. `whose` names these kernels. Throws as require_fit() does.
  void replan(const char* when, const std::string& whose) {
    const int64_t before = plan.peak_bytes;
    PlanOptions plan_options = with_measured(plan_options_of(options, backend), workspace);
    if (!loss_rows) plan_options.row_slicing = nullptr;
    plan_options.on_schedule = [&] { require_room_for_planning(options.budget); };
    const Planner planner(recorded, plan_options);
    // The plan may be for less than the budget (SearchOptions::accepted_slowdown).
    const std::optional<int64_t> within = plan.budget.device;
    plan = planner.plan(within);
    if (!plan.fits && within != options.budget.device) plan = planner.plan();
    minimum_budget = planner.minimum_budget();
    plan_change_text = fmt::format("kernels take scratch that was not planned: {} instead of {}{}",
                                   format_bytes_up(plan.peak_bytes), format_bytes_up(before), whose);
    require_fit(when, whose);
  }

  // The caller may have written to tensors from state() on another stream. Wait for the whole device before the step.
  void wait_for_others() const {
    if (given_out && backend->device().type() != c10::kCPU) backend->synchronize_device();
  }

  void require_fit(const char* when = "", const std::string& why = {}) const {
    if (plan.fits) return;
    throw UserError(fmt::format("the step does not fit{}: it needs at least {}, the budget is {}{}", when,
                                format_bytes_up(minimum_budget), format_bytes(plan.budget.device_bytes()), why),
                    UserError::Kind::does_not_fit);
  }

  void start() {
    require_fit();
    if (!backend) backend = &backend_for(options.device);  // its error says what is missing
    if (!memory) memory.emplace(*backend, options);
    memory->require(plan);  // before large ops are tried
    require_recorded_ranks(options.ranks, exchange());
    const Trace& ops = loss_rows ? with_loss_rows(recorded, row_slicing()) : recorded;
    if (options.budget.process) release_free_memory();
    const int64_t probed =
        options.budget.process ? plan.arena_bytes : std::max<int64_t>(plan.arena_bytes, kProbedBytes);
    bool found_more = workspace.probe(ops, probed, *backend).found_more;
    if (exchange()) found_more = merge_workspaces(*exchange(), workspace, found_more);
    if (found_more) {
      replan(" with the scratch that its kernels take", "");
      memory->require(plan);
    }
    if (exchange()) require_same_exchanges(*exchange(), plan.trace);
    release_free_memory();  // of planning and of the ops that were tried: the arena is in addition to it
    resident_before_arenas = resident_memory().peak;
    memory->allocate(plan);
    executor = memory->make_executor(plan);
    memory->start_counting();
    run(SegmentKind::initialize, 0);
    reset_scalars();
  }

  Exchange* exchange() const { return options.exchange.get(); }
  int64_t ranks() const { return exchange() ? exchange()->size() : 1; }
  int64_t rank() const { return exchange() ? exchange()->rank() : 0; }

  void reset_scalars() {
    write("loss_factor", 1.0);
    write("loss_scale", scaler.scale());
    write("learning_rate", 0.0);
  }

  const Segment& segment(SegmentKind kind) const {
    const Segment* found = plan.trace.segment(kind);
    if (!found)
      throw UserError(
          fmt::format("this training was recorded without '{}'; ask for it in TrainingOptions", name_of(kind)));
    return *found;
  }

  void run(SegmentKind kind, int64_t micro) {
    const TimedPart timed(profiled, name_of(kind));
    const ExchangeScope scope(exchange(), exchange() ? fmt::format("step {}", steps + 1) : std::string());
    executor->run(segment(kind), {options.seed, steps, micro});
  }

  // A step that is timed, which the executor reports to the profile. A step that fails leaves nothing in the profile.
  class TimedStep {
   public:
    explicit TimedStep(Impl& self) : self_(self) {
      if (!self.profile || !self.profile->wants(++self.steps_begun)) return;
      self.profile->begin_step(self.steps + 1, self.plan);
      self.profiled = self.profile.get();
      self.executor->set_observer(self.profiled);
    }
    ~TimedStep() {
      try {
        if (stop()) self_.profile->drop_step();
      } catch (...) {  // a device that has failed; the first exception is already being thrown
        self_.profile->drop_step();
      }
    }
    TimedStep(const TimedStep&) = delete;
    TimedStep& operator=(const TimedStep&) = delete;

    void done() {
      if (stop()) self_.profile->end_step();
    }

   private:
    bool stop() {
      if (!self_.profiled) return false;
      self_.profiled = nullptr;
      self_.executor->set_observer(nullptr);
      return true;
    }
    Impl& self_;
  };

  // Returns the view of a scalar of float32 or float64 that the host reads or writes.
  static const View& scalar(const std::vector<NamedView>& list, const std::string& name) {
    const NamedView* found = Trace::find(list, name);
    check(found != nullptr, "no scalar '" + name + "'");
    return found->view;
  }
  void write(const std::string& name, double value) {
    const View& view = scalar(plan.trace.inputs, name);
    const auto single = static_cast<float>(value);
    const bool is_double = view.dtype == DType::float64;
    executor->write(view, is_double ? static_cast<const void*>(&value) : &single, element_bytes(view.dtype));
  }
  double read(const std::string& name) {
    const View& view = scalar(plan.trace.outputs, name);
    check(view.dtype == DType::float32, "the scalar '" + name + "' is not float32");
    float value = 0;
    executor->read(view, &value, sizeof value);
    return value;
  }

  // Returns true if kernels allocated more than planned; the next plan includes that scratch. The arenas only grow at
  // their ends. Only persistent buffers are live between two steps.
  bool has_new_workspace() const {
    return executor->other_thread_bytes() > workspace.other_thread_bytes() || !executor->unplanned_workspace().empty();
  }
  void record_workspace(bool any_rank) {
    bool found_more = workspace.record_other_thread_bytes(executor->other_thread_bytes());
    int64_t most = 0;
    std::string whose;
    for (const auto& [index, bytes] : executor->unplanned_workspace()) {
      found_more |= workspace.record(plan.trace.ops[index], bytes);
      if (bytes <= most) continue;
      most = bytes;
      whose = fmt::format("; the most is {} for {}", format_bytes(bytes), plan.trace.ops[index].name);
    }
    if (any_rank && exchange()) found_more = merge_workspaces(*exchange(), workspace, found_more);
    if (!found_more) return;
    note_use();
    executor.reset();  // it refers to the plan
    if (profile) profile->forget_plan();
    const Plan before = std::move(plan);
    replan(" with the scratch that its kernels turned out to take", whose);
    if (exchange()) require_same_exchanges(*exchange(), plan.trace);
    memory->change_plan(before, plan, recorded.buffers.size());
    executor = memory->make_executor(plan);
  }

  // Records the memory that was in use under the current plan.
  void note_use(bool look_through = true) {
    if (executor) memory->note_use(*executor, look_through);
  }
  MemoryUse use() const { return memory ? memory->use() : MemoryUse{}; }

  // Throws if the training has not started: only then are there tensors.
  void require_started() const {
    if (!executor) throw UserError("start() was not called, or the step did not fit");
  }

  TrainingOptions options;
  Backend* backend;
  Trace recorded;
  MicroBatchInputs inputs;
  MeasuredWorkspace workspace;
  int64_t minimum_budget;  // bytes
  const bool loss_rows;    // Replacements::loss_rows
  int64_t resident_before_arenas = 0;
  LossScaler scaler;
  Plan plan;
  std::string plan_change_text;
  std::optional<TrainingMemory> memory;  // since start()
  std::unique_ptr<Executor> executor;
  std::unique_ptr<StepProfile> profile;
  StepProfile* profiled = nullptr;  // `profile` while a timed step runs
  bool given_out = false;           // true: a caller of state() has tensors in the arenas
  int64_t steps = 0, skipped = 0;
  int64_t steps_begun = 0;  // steps begun by this object, failed ones included
};

Training::Training(const Step& step, const TrainingOptions& options)
    : Training(step, options, plan_step(step, options)) {}
Training::Training(const Step& step, const TrainingOptions& options, PlannedStep planned)
    : impl_(std::make_unique<Impl>(step, options, std::move(planned))) {}
Training::~Training() = default;

const Plan& Training::plan() const {
  return impl_->plan;
}

DeviceWork Training::device_work() const {
  return impl_->executor ? impl_->executor->device_work() : DeviceWork{};
}

const std::string& Training::plan_change() const {
  return impl_->plan_change_text;
}

int64_t Training::minimum_budget_bytes() const {
  return impl_->minimum_budget;
}

void Training::start() {
  impl_->start();
}

StepResult Training::step(const std::vector<std::map<std::string, at::Tensor>>& micro_batches, double learning_rate) {
  return step(
      static_cast<int64_t>(micro_batches.size()), [&](int64_t index) -> const auto& { return micro_batches[index]; },
      learning_rate, micro_batches.size() > 1 && impl_->inputs.is_remainder(micro_batches.back()));
}

StepResult Training::step(int64_t micro_batches, const MicroBatchSource& next, double learning_rate, bool ragged) {
  if (micro_batches < 1) throw UserError("a step needs at least one micro batch");
  Impl& self = *impl_;
  self.require_started();
  if (ragged && (micro_batches == 1 || !self.inputs.ragged_steps()))
    throw UserError(
        "only the last of several micro batches may be smaller, and only with TrainingOptions::last_micro_batch");
  Impl::TimedStep timed(self);
  self.wait_for_others();
  self.write("loss_scale", self.scaler.scale());
  self.write("learning_rate", learning_rate);
  // Weight of a micro batch: its share of the samples of the step.
  const int64_t last = ragged ? self.options.last_micro_batch : 0;
  // Micro batch i of rank r is micro batch i * ranks + r of the step.
  const int64_t ranks = self.ranks(), rank = self.rank(), all = micro_batches * ranks;
  const auto total = static_cast<double>(ragged ? self.inputs.samples() * (all - 1) + last : all);
  const bool in_last = self.plan.trace.segment(SegmentKind::last) != nullptr;
  StepResult result;
  std::vector<double> losses;
  for (int64_t i = 0; i < micro_batches; ++i) {
    const int64_t of_step = i * ranks + rank;
    const bool smaller = ragged && of_step + 1 == all;
    const auto share = static_cast<double>(smaller ? last : ragged ? self.inputs.samples() : 1);
    if (i == 0 || smaller) self.write("loss_factor", self.scaler.scale() * share / total);
    {
      const TimedPart waiting(self.profiled, "inputs");
      self.inputs.bind(*self.executor, self.plan.trace, next(i), smaller ? last : 0);
    }
    if (i == 0 && self.plan.trace.segment(SegmentKind::norms)) self.run(SegmentKind::norms, of_step);
    const bool last_of_several = in_last && i > 0 && i + 1 == micro_batches;
    self.run(i == 0            ? SegmentKind::micro
             : smaller         ? SegmentKind::remainder
             : last_of_several ? SegmentKind::last
                               : SegmentKind::accumulate,
             of_step);
    losses.push_back(self.read("loss") * share / total);
  }
  self.run(in_last && micro_batches > 1 ? SegmentKind::finish : SegmentKind::update, 0);
  bool found_more = self.has_new_workspace();
  if (self.exchange()) {
    const SummedLosses summed = sum_losses(*self.exchange(), losses, found_more);
    result.loss = summed.sum;
    found_more = summed.found_more;
  } else {
    for (const double loss : losses) result.loss += loss;
  }
  result.gradient_norm = self.read("gradient_norm");
  result.skipped = self.read("skipped") != 0;
  self.scaler.update(result.skipped);
  ++self.steps;
  self.skipped += result.skipped;
  timed.done();
  self.record_workspace(found_more);
  if (self.profile) self.profile->write_when_complete();
  return result;
}

double Training::evaluate(const std::map<std::string, at::Tensor>& micro_batch) {
  std::map<std::string, at::Tensor> sums;
  return evaluate(micro_batch, sums);
}

double Training::evaluate(const std::map<std::string, at::Tensor>& micro_batch,
                          std::map<std::string, at::Tensor>& sums) {
  impl_->require_started();
  impl_->wait_for_others();
  impl_->inputs.bind(*impl_->executor, impl_->plan.trace, micro_batch);
  impl_->run(SegmentKind::evaluate, 0);
  const double loss = impl_->read("evaluation_loss");
  for (const NamedView& output : impl_->plan.trace.outputs) {
    if (!output.name.starts_with(kSumPrefix)) continue;
    at::Tensor part = at::empty(output.view.sizes, at::kFloat);
    impl_->executor->read(output.view, part.mutable_data_ptr(), static_cast<int64_t>(part.nbytes()));
    part = part.to(at::kDouble);
    at::Tensor& sum = sums[output.name.substr(kSumPrefix.size())];
    sum = sum.defined() ? sum + part : part;
  }
  if (!impl_->exchange())
    impl_->record_workspace(false);  // ranks evaluate different numbers of micro batches: the next step plans again
  return loss;
}

void Training::profile(const ProfileOptions& options) {
  impl_->profile = std::make_unique<StepProfile>(options, ProfileTitle{machine_name(), threads_of(impl_->options)},
                                                 impl_->exchange());
  impl_->steps_begun = 0;
}

int64_t Training::write_profile() {
  return impl_->profile ? impl_->profile->write() : 0;
}

MemoryUse Training::used() const {
  impl_->note_use();
  return impl_->use();
}

int64_t Training::resident_before_arenas() const {
  return impl_->resident_before_arenas;
}

int64_t Training::peak_bytes_used() const {
  impl_->note_use(/*look_through=*/false);
  return impl_->use().measured_peak();
}

int64_t Training::steps_done() const {
  return impl_->steps;
}
int64_t Training::steps_skipped() const {
  return impl_->skipped;
}
std::vector<std::pair<std::string, double>> Training::gradient_norms() const {
  std::vector<std::pair<std::string, double>> named;
  impl_->require_started();
  const GradientNorms found = gradient_norms_of(impl_->recorded);
  if (found.entries.empty()) return named;
  std::vector<float> norms(static_cast<size_t>(found.norms.elements()));
  impl_->executor->read(found.norms, norms.data(), std::ssize(norms) * static_cast<int64_t>(sizeof(float)));
  for (const GradientNormEntry& entry : found.entries)
    named.emplace_back(entry.parameter, norms.at(static_cast<size_t>(entry.index)));
  return named;
}

double Training::loss_scale() const {
  return impl_->scaler.scale();
}

std::vector<std::pair<std::string, at::Tensor>> Training::state() {
  impl_->require_started();
  impl_->backend->synchronize();  // the caller may read them on a stream of its own
  impl_->given_out = true;
  std::vector<std::pair<std::string, at::Tensor>> state;
  for (const NamedView& entry : impl_->plan.trace.state)
    state.emplace_back(entry.name, impl_->executor->tensor(entry.view));
  return state;
}

void Training::require_state() const {
  if (impl_->memory) impl_->memory->require_disk();
}

std::map<std::string, std::vector<int64_t>> Training::slices() const {
  std::map<std::string, std::vector<int64_t>> slices;
  for (const NamedView& entry : impl_->plan.trace.state)
    if (!entry.whole_sizes.empty()) slices[entry.name] = entry.whole_sizes;
  return slices;
}

std::map<std::string, std::string> Training::counters() const {
  return text_of({impl_->steps, impl_->skipped, impl_->scaler.scale(), impl_->scaler.growth_tracker()});
}

void Training::restore_counters(const std::map<std::string, std::string>& counters) {
  const TrainingCounters restored = counters_of(counters);
  impl_->steps = restored.steps;
  impl_->skipped = restored.skipped;
  impl_->scaler.restore(restored.loss_scale, restored.loss_scale_growth);
}

}  // namespace plimsoll
