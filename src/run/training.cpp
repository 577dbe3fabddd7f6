#include "plimsoll/training.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <charconv>

#include "base/bytes_up.h"
#include "collectives/exchange.h"
#include "device/backend.h"
#include "device/disk_arena.h"
#include "device/host_memory.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"
#include "plimsoll/machine.h"
#include "plimsoll/trace.h"
#include "run/evaluation_sums.h"
#include "run/executor.h"
#include "run/measured_workspace.h"
#include "run/op_times.h"
#include "run/optimizer/loss_scaler.h"
#include "run/plan_options.h"
#include "run/rank_consistency.h"
#include "run/step_profile.h"

namespace plimsoll {
namespace {

constexpr int64_t kIgnored = -100;  // the target that losses ignore, as in libtorch

}  // namespace

struct Training::Impl {
  Impl(const Step& step, const TrainingOptions& training_options, PlannedStep planned)
      : options(training_options),
        backend(find_backend(options.device)),  // must come before the first use of libtorch's list of devices
        recorded(std::move(planned.recorded)),
        ragged_steps(options.accumulate && options.last_micro_batch > 0),
        samples(ragged_steps ? step.inputs.at(0).sizes.at(0) : 0),
        workspace(planned.workspace ? *planned.workspace
                                    : MeasuredWorkspace(plan_options_of(options, backend).workspace)),
        scaler(options.precision == Precision::fp16_mixed),
        plan(std::move(planned.plan)) {
    at::set_num_threads(threads_of(options));
    if (options.device == "cpu") kernel_choices();  // measured now, not by the first step
    for (const InputSpec& spec : step.inputs) {
      declared_types[spec.name] = spec.dtype;
      if (spec.values > 0) declared_bounds[spec.name] = spec.values;
    }
  }

  // Plans again with the measured scratch of kernels. `whose` names these kernels.
  void replan(const std::string& whose) {
    const int64_t before = plan.peak_bytes;
    plan = make_plan(recorded, with_measured(plan_options_of(options, backend), workspace));
    plan_change_text = fmt::format("kernels take scratch that was not planned: {} instead of {}{}",
                                   format_bytes_up(plan.peak_bytes), format_bytes_up(before), whose);
  }

  // The caller may have written to tensors from state() on another stream. Wait for the whole device before the step.
  void wait_for_others() const {
    if (given_out && backend->device().type() != c10::kCPU) backend->synchronize_device();
  }

  void require_fit(const char* when, const std::string& why = {}) const {
    if (plan.fits) return;
    throw UserError(
        fmt::format("the step does not fit{}: it needs at least {}, the budget is {}{}", when,
                    format_bytes_up(plan.minimum_budget_bytes), format_bytes(plan.budget.device_bytes()), why),
        UserError::Kind::does_not_fit);
  }

  // Throws if the machine does not have the memory. The system does not refuse an allocation for lack of memory; it
  // ends the program later, when pages are touched. Bytes that the arenas already have are subtracted. `scratch`: bytes
  // of host memory needed temporarily in addition.
  void require_memory(int64_t scratch = 0) const {
    const int64_t of_device = plan.arena_bytes - (arena ? arena->bytes() : 0);
    const int64_t of_host = plan.host_bytes - (host_arena ? host_arena->bytes() : 0) + scratch;
    using Owner = MemoryUnavailable::Owner;
    const auto require = [](const std::optional<int64_t>& available, int64_t wanted, const std::string& who,
                            Owner owner) {
      if (available && *available < wanted)
        throw MemoryUnavailable(fmt::format("{} has {} available now, and the arena takes {}", who,
                                            format_bytes(*available), format_bytes(wanted)),
                                wanted, owner);
    };
    if (backend->shares_host_memory())
      return require(current_host_memory(), of_device + of_host, "the machine", Owner::host);
    require(backend->available_bytes(), of_device, backend->name(), Owner::device);
    require(current_host_memory(), of_host, "the machine", Owner::host);
  }

  void start() {
    require_fit("");
    if (!backend) backend = &backend_for(options.device);  // its error says what is missing
    require_memory();                                      // before large ops are tried
    require_recorded_ranks(options.ranks, exchange());
    bool found_more = workspace.probe(recorded, std::max<int64_t>(plan.arena_bytes, kProbedBytes), *backend).found_more;
    if (exchange()) found_more = merge_workspaces(*exchange(), workspace, found_more);
    if (found_more) {
      replan("");
      require_fit(" with the scratch that its kernels take");
      require_memory();
    }
    if (exchange()) require_same_exchanges(*exchange(), plan.trace);
    arena = backend->allocate_arena(plan.arena_bytes);
    allocate_other_arenas();
    make_executor();
    backend->reset_out_of_arena_peak();
    allocations_at_start = backend->out_of_arena_allocations();
    run(SegmentKind::initialize, 0);
    reset_scalars();
  }

  Exchange* exchange() const { return options.exchange.get(); }
  int64_t ranks() const { return exchange() ? exchange()->size() : 1; }
  int64_t rank() const { return exchange() ? exchange()->rank() : 0; }

  void make_executor() {
    executor = std::make_unique<Executor>(plan, *backend, *arena, host_arena.get(), disk_arena.get());
  }

  // Grows or allocates the arenas of host and disk to the plan's sizes; an arena never shrinks.
  void allocate_other_arenas() {
    if (host_arena) host_arena->grow(plan.host_bytes);
    if (!host_arena && plan.host_bytes > 0)
      host_arena = backend->allocate_host_arena(plan.host_bytes, options.budget.host);
    if (disk_arena) disk_arena->grow(plan.disk_bytes);
    if (!disk_arena && plan.disk_bytes > 0)
      disk_arena = std::make_unique<DiskArena>(options.disk_path, plan.disk_bytes, options.budget.disk);
  }

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

  // Returns true if the batch is the smaller last micro batch that was recorded. If its tensors disagree, bind()
  // reports it.
  bool is_remainder(const std::map<std::string, at::Tensor>& batch) const {
    return ragged_steps && std::ranges::all_of(batch, [&](const auto& entry) {
             return entry.second.dim() > 0 && entry.second.size(0) == options.last_micro_batch;
           });
  }

  // Throws for an index that is too large. A device's kernel would find it later, without a name, and the device would
  // be lost for the program.
  void require_in_range(const std::string& name, const at::Tensor& values) const {
    const auto bound = declared_bounds.find(name);
    if (bound == declared_bounds.end() || values.numel() == 0) return;
    const auto [least, most] = at::aminmax(values);
    const auto low = least.item<int64_t>(), high = most.item<int64_t>();
    if (low >= kIgnored && high < bound->second) return;
    throw UserError(
        fmt::format("input '{}' has values from {} to {}; they must be below {}", name, low, high, bound->second),
        UserError::Kind::failure);
  }

  // Copies a batch to the inputs. `rows` > 0: to the first `rows` rows of every input.
  void bind(const std::map<std::string, at::Tensor>& batch, int64_t rows = 0) {
    for (const NamedView& input : plan.trace.inputs) {
      if (input.name == "loss_factor" || input.name == "loss_scale" || input.name == "learning_rate") continue;
      const auto found = batch.find(input.name);
      if (found == batch.end()) throw UserError(fmt::format("the micro batch has no '{}'", input.name));
      at::Tensor target = executor->tensor(input.view);
      if (rows > 0) target = target.narrow(0, 0, rows);
      const at::Tensor& source = found->second;
      const c10::ScalarType declared = declared_types.at(input.name);
      if (source.sizes() != target.sizes() ||
          (source.scalar_type() != declared && source.scalar_type() != target.scalar_type()))
        throw UserError(fmt::format(
            "input '{}' is {} [{}]; the step declares {} [{}]{}", input.name, c10::toString(source.scalar_type()),
            fmt::join(source.sizes(), ", "), c10::toString(declared), fmt::join(target.sizes(), ", "),
            rows > 0 ? " of the last micro batch"
            : ragged_steps
                ? fmt::format(", and of the last of several micro batches {} samples", options.last_micro_batch)
                : ""));
      if (target.device().is_cpu()) {
        target.copy_(source);
      } else {  // the host casts, so that only the bytes that the step reads are copied over the link
        check(target.is_contiguous(), "an input of the plan is not contiguous");
        require_in_range(input.name, source);
        const at::Tensor cast = source.to(target.scalar_type()).contiguous();
        executor->write(input.view, cast.const_data_ptr(), static_cast<int64_t>(cast.nbytes()));
      }
    }
  }

  std::byte* place_of(const Plan& where, BufferId buffer) const {
    const Memory memory = where.trace.buffers[buffer].memory;
    std::byte* const begin = memory == Memory::device ? arena->data()
                             : memory == Memory::host ? host_arena->data()
                                                      : disk_arena->data();
    return begin + where.offsets[buffer];
  }
  // Returns the persistent buffers that have another offset in the new plan. Without other memories they keep their
  // offsets, whatever is planned above them; with them, buffers may move between the memories.
  std::vector<BufferId> buffers_to_relocate(const Plan& before) const {
    std::vector<BufferId> relocated;
    for (BufferId b = 0; b < static_cast<BufferId>(recorded.buffers.size()); ++b) {
      const Buffer &was = before.trace.buffers[b], &is = plan.trace.buffers[b];
      if (!was.persistent || before.offsets[b] < 0) continue;
      if (was.memory != is.memory || before.offsets[b] != plan.offsets[b]) relocated.push_back(b);
    }
    return relocated;
  }
  // Moves buffers within the arenas, because there is no other memory for it.
  void relocate_from(const Plan& before, const std::vector<BufferId>& relocated) {
    if (relocated.empty()) return;
    std::vector<Relocation> relocations;
    relocations.reserve(relocated.size());
    for (const BufferId b : relocated)
      relocations.push_back(
          {place_of(before, b), place_of(plan, b), placed_bytes(before.trace, before.trace.buffers[b].bytes)});
    backend->relocate(std::move(relocations));
    if (disk_arena) disk_arena->evict(0, disk_arena->bytes(), /*written=*/true);
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
    replan(whose);
    require_fit(" with the scratch that its kernels turned out to take", whose);
    if (exchange()) require_same_exchanges(*exchange(), plan.trace);
    backend->reset_out_of_arena_peak();
    const std::vector<BufferId> relocated = buffers_to_relocate(before);
    int64_t relocated_bytes = 0;
    for (const BufferId b : relocated) relocated_bytes += placed_bytes(before.trace, before.trace.buffers[b].bytes);
    require_memory(backend->relocation_scratch_bytes(relocated_bytes));
    arena->grow(plan.arena_bytes);
    allocate_other_arenas();
    relocate_from(before, relocated);
    make_executor();
  }

  // Records the memory that was in use under the current plan.
  void note_use(bool look_through = true) {
    if (!executor) return;
    use.out_of_arena_allocations = backend->out_of_arena_allocations() - allocations_at_start;
    use.arena = std::max(use.arena, executor->arena_bytes_used());
    if (look_through) use.touched = std::max(use.touched, arena->touched_bytes());
    // On the CPU, the bytes that the exchange holds are memory of the device.
    const int64_t held = exchange() && backend->shares_host_memory() ? exchange()->held_bytes() : 0;
    use.workspace = std::max(use.workspace, backend->out_of_arena_peak() + held);
    use.host = std::max(use.host, executor->host_bytes_used());
    use.disk = std::max(use.disk, executor->disk_bytes_used());
    use.peak = std::max(use.peak, executor->arena_bytes_used() + backend->out_of_arena_peak() + held);
  }

  // Throws if the training has not started: only then are there tensors.
  void require_started() const {
    if (!executor) throw UserError("start() was not called, or the step did not fit");
  }

  TrainingOptions options;
  std::map<std::string, c10::ScalarType> declared_types;  // types of inputs; in memory they may be narrower
  std::map<std::string, int64_t> declared_bounds;         // upper bounds of whole numbers, by input
  Backend* backend;
  Trace recorded;
  bool ragged_steps;  // true: a step may end with a smaller micro batch
  int64_t samples;    // samples of the other micro batches, if ragged_steps
  MeasuredWorkspace workspace;
  LossScaler scaler;
  Plan plan;
  std::string plan_change_text;
  std::unique_ptr<Arena> arena, host_arena;
  std::unique_ptr<DiskArena> disk_arena;
  std::unique_ptr<Executor> executor;
  std::unique_ptr<StepProfile> profile;
  StepProfile* profiled = nullptr;  // `profile` while a timed step runs
  bool given_out = false;           // true: a caller of state() has tensors in the arenas
  int64_t steps = 0, skipped = 0;
  int64_t allocations_at_start = 0;
  int64_t steps_begun = 0;  // steps begun by this object, failed ones included
  MemoryUse use;
};

PlannedStep plan_step(const Step& step, const TrainingOptions& options) {
  Backend* const backend = find_backend(options.device);  // must come before the first use of libtorch's list of
                                                          // devices
  PlannedStep planned;
  planned.recorded = record_step(step, options);
  PlanOptions plan_options = plan_options_of(options, backend);
  // Scratch without a rule is measured before the step is checked against the budget; for large ops, at the start.
  if (backend) {
    at::set_num_threads(threads_of(options));
    if (options.device == "cpu") kernel_choices();  // measured now, not by the first step
    const auto measured = std::make_shared<MeasuredWorkspace>(plan_options.workspace);
    measured->probe(planned.recorded, kProbedBytes, *backend);
    plan_options = with_measured(std::move(plan_options), *measured);
    planned.workspace = measured;
  }
  planned.plan = make_plan(planned.recorded, plan_options);
  return planned;
}

Training::Training(const Step& step, const TrainingOptions& options)
    : Training(step, options, plan_step(step, options)) {}
Training::Training(const Step& step, const TrainingOptions& options, PlannedStep planned)
    : impl_(std::make_unique<Impl>(step, options, std::move(planned))) {}
Training::~Training() = default;

const Plan& Training::plan() const {
  return impl_->plan;
}

const std::string& Training::plan_change() const {
  return impl_->plan_change_text;
}

void Training::start() {
  impl_->start();
}

StepResult Training::step(const std::vector<std::map<std::string, at::Tensor>>& micro_batches, double learning_rate) {
  return step(
      static_cast<int64_t>(micro_batches.size()), [&](int64_t index) -> const auto& { return micro_batches[index]; },
      learning_rate, micro_batches.size() > 1 && impl_->is_remainder(micro_batches.back()));
}

StepResult Training::step(int64_t micro_batches, const MicroBatchSource& next, double learning_rate, bool ragged) {
  if (micro_batches < 1) throw UserError("a step needs at least one micro batch");
  Impl& self = *impl_;
  self.require_started();
  if (ragged && (micro_batches == 1 || !self.ragged_steps))
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
  const auto total = static_cast<double>(ragged ? self.samples * (all - 1) + last : all);
  const bool in_last = self.plan.trace.segment(SegmentKind::last) != nullptr;
  StepResult result;
  std::vector<double> losses;
  for (int64_t i = 0; i < micro_batches; ++i) {
    const int64_t of_step = i * ranks + rank;
    const bool smaller = ragged && of_step + 1 == all;
    const auto share = static_cast<double>(smaller ? last : ragged ? self.samples : 1);
    if (i == 0 || smaller) self.write("loss_factor", self.scaler.scale() * share / total);
    {
      const TimedPart waiting(self.profiled, "inputs");
      self.bind(next(i), smaller ? last : 0);
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
  impl_->bind(micro_batch);
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
}

int64_t Training::write_profile() {
  return impl_->profile ? impl_->profile->write() : 0;
}

MemoryUse Training::used() const {
  impl_->note_use();
  return impl_->use;
}

int64_t Training::peak_bytes_used() const {
  impl_->note_use(/*look_through=*/false);
  return impl_->use.measured_peak();
}

int64_t Training::steps_done() const {
  return impl_->steps;
}
int64_t Training::steps_skipped() const {
  return impl_->skipped;
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

std::map<std::string, std::vector<int64_t>> Training::slices() const {
  std::map<std::string, std::vector<int64_t>> slices;
  for (const NamedView& entry : impl_->plan.trace.state)
    if (!entry.whole_sizes.empty()) slices[entry.name] = entry.whole_sizes;
  return slices;
}

std::map<std::string, std::string> Training::counters() const {
  return {{"steps", std::to_string(impl_->steps)},
          {"steps_skipped", std::to_string(impl_->skipped)},
          {"loss_scale", fmt::format("{}", impl_->scaler.scale())},
          {"loss_scale_growth", std::to_string(impl_->scaler.growth_tracker())}};
}

void Training::restore_counters(const std::map<std::string, std::string>& counters) {
  const auto refuse = [](const char* name) -> UserError {
    return UserError(fmt::format("the checkpoint's counter '{}' is missing or damaged", name),
                     UserError::Kind::failure);
  };
  const auto number = [&]<typename Number>(const char* name, Number min, Number max) {
    const auto found = counters.find(name);
    if (found == counters.end()) throw refuse(name);
    Number value{};
    const char* const end = found->second.data() + found->second.size();
    const auto [stop, error] = std::from_chars(found->second.data(), end, value);
    if (error != std::errc() || stop != end || !(value >= min && value <= max)) throw refuse(name);
    return value;
  };
  constexpr int64_t kMaxCount = int64_t{1} << 62;
  const auto steps = number("steps", int64_t{0}, kMaxCount), skipped = number("steps_skipped", int64_t{0}, steps);
  const auto scale = number("loss_scale", 1e-30, 1e30);
  const auto growth = number("loss_scale_growth", int64_t{0}, kMaxCount);
  impl_->steps = steps;
  impl_->skipped = skipped;
  impl_->scaler.restore(scale, growth);
}

int64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * KiB;  // Linux counts in KiB
}

}  // namespace plimsoll
