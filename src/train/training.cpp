#include "plimsoll/training.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <charconv>

#include "device/cpu_arena.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"
#include "run/executor.h"
#include "run/learned_workspace.h"
#include "train/loss_scaler.h"
#include "train/plan_options.h"

namespace plimsoll {
struct Training::Impl {
  explicit Impl(const Step& step, const TrainingOptions& training_options)
      : options(training_options),
        recorded(record_step(step, options)),
        workspace(plan_options_of(options).workspace),
        scaler(options.precision == Precision::fp16_mixed) {
    at::set_num_threads(threads_of(options));
    make_plan_anew();
  }

  void make_plan_anew() {
    PlanOptions plan_options = plan_options_of(options);
    plan_options.workspace = workspace.model();
    plan = make_plan(recorded, plan_options);
  }

  void require_fit(const char* when) const {
    if (plan.fits) return;
    throw UserError(fmt::format("the step does not fit{}: it needs at least {}, the budget is {}", when,
                                format_bytes(plan.minimum_budget_bytes), format_bytes(plan.budget_bytes)),
                    UserError::Kind::does_not_fit);
  }

  void start() {
    require_fit("");
    arena = std::make_unique<CpuArena>(plan.arena_bytes);
    executor = std::make_unique<Executor>(plan, *arena);
    AllocationFrame::reset_outside_peak();
    run("initialize", 0);
    reset_scalars();
  }

  // The step's scalars lie in the arena, which starts as zeros.
  void reset_scalars() {
    write("loss_factor", 1.0);
    write("loss_scale", scaler.scale());
    write("learning_rate", 0.0);
  }

  const Segment& segment(const char* name) const {
    const Segment* found = plan.trace.segment(name);
    if (!found)
      throw UserError(fmt::format("this training was recorded without '{}'; ask for it in TrainingOptions", name));
    return *found;
  }

  void run(const char* name, int64_t micro) {
    check(executor != nullptr, "start() was not called");
    executor->run(segment(name), {options.seed, steps, micro});
  }

  at::Tensor place(const std::vector<NamedView>& list, const std::string& name) {
    const NamedView* found = Trace::find(list, name);
    check(found != nullptr, "no scalar '" + name + "'");
    return executor->tensor(found->view);
  }
  void write(const std::string& name, double value) { place(plan.trace.inputs, name).fill_(value); }
  double read(const std::string& name) { return place(plan.trace.outputs, name).item().toDouble(); }

  void bind(const std::map<std::string, at::Tensor>& batch) {
    for (const NamedView& input : plan.trace.inputs) {
      if (input.name == "loss_factor" || input.name == "loss_scale" || input.name == "learning_rate") continue;
      const auto found = batch.find(input.name);
      if (found == batch.end()) throw UserError(fmt::format("the micro batch has no '{}'", input.name));
      at::Tensor target = executor->tensor(input.view);
      const at::Tensor& source = found->second;
      if (source.sizes() != target.sizes() || source.scalar_type() != target.scalar_type())
        throw UserError(fmt::format("input '{}' is {} [{}]; the step declares {} [{}]", input.name,
                                    c10::toString(source.scalar_type()), fmt::join(source.sizes(), ", "),
                                    c10::toString(target.scalar_type()), fmt::join(target.sizes(), ", ")));
      target.copy_(source);
    }
  }

  // What kernels took beyond the plan is planned from now on. Persistent buffers keep their places, so the arena only
  // grows at its end. Nothing else lives between two steps.
  void learn() {
    bool learned = false;
    for (const auto& [index, bytes] : executor->unplanned_workspace())
      learned |= workspace.learn(plan.trace.ops[index], bytes);
    if (!learned) return;
    arena_used = std::max(arena_used, executor->arena_bytes_used());
    executor.reset();
    make_plan_anew();
    require_fit(" with the scratch that its kernels turned out to take");
    arena->grow(plan.arena_bytes);
    executor = std::make_unique<Executor>(plan, *arena);
  }

  TrainingOptions options;
  Trace recorded;
  LearnedWorkspace workspace;
  LossScaler scaler;
  Plan plan;
  std::unique_ptr<CpuArena> arena;
  std::unique_ptr<Executor> executor;
  int64_t steps = 0, skipped = 0;
  int64_t arena_used = 0;
};

Training::Training(const Step& step, const TrainingOptions& options) : impl_(std::make_unique<Impl>(step, options)) {}
Training::~Training() = default;

const Plan& Training::plan() const {
  return impl_->plan;
}

void Training::start() {
  impl_->start();
}

StepResult Training::step(const std::vector<std::map<std::string, at::Tensor>>& micro_batches, double learning_rate) {
  check(!micro_batches.empty(), "a step needs a micro batch");
  Impl& self = *impl_;
  const auto count = static_cast<double>(micro_batches.size());
  check(self.executor != nullptr, "start() was not called");
  self.write("loss_factor", self.scaler.scale() / count);
  self.write("loss_scale", self.scaler.scale());
  self.write("learning_rate", learning_rate);
  StepResult result;
  for (size_t i = 0; i < micro_batches.size(); ++i) {
    self.bind(micro_batches[i]);
    self.run(i == 0 ? "micro" : "accumulate", static_cast<int64_t>(i));
    result.loss += self.read("loss") / count;
  }
  self.run("update", 0);
  result.gradient_norm = self.read("gradient_norm");
  result.skipped = self.read("skipped") != 0;
  self.scaler.update(result.skipped);
  ++self.steps;
  self.skipped += result.skipped;
  self.learn();
  return result;
}

double Training::evaluate(const std::map<std::string, at::Tensor>& micro_batch) {
  impl_->bind(micro_batch);
  impl_->run("evaluate", 0);
  const double loss = impl_->read("evaluation_loss");
  impl_->learn();
  return loss;
}

MemoryUse Training::used() const {
  MemoryUse use;
  use.arena = std::max(impl_->arena_used, impl_->executor ? impl_->executor->arena_bytes_used() : 0);
  use.workspace = AllocationFrame::outside_peak();
  return use;
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
  std::vector<std::pair<std::string, at::Tensor>> state;
  for (const NamedView& entry : impl_->plan.trace.state)
    state.emplace_back(entry.name, impl_->executor->tensor(entry.view));
  return state;
}

std::map<std::string, std::string> Training::counters() const {
  return {{"steps", std::to_string(impl_->steps)},
          {"steps_skipped", std::to_string(impl_->skipped)},
          {"loss_scale", fmt::format("{}", impl_->scaler.scale())},
          {"loss_scale_growth", std::to_string(impl_->scaler.growth_tracker())}};
}

void Training::restore_counters(const std::map<std::string, std::string>& counters) {
  const auto number = [&](const char* name) {
    const auto found = counters.find(name);
    double value = 0;
    if (found == counters.end() ||
        std::from_chars(found->second.data(), found->second.data() + found->second.size(), value).ec != std::errc())
      throw UserError(fmt::format("the checkpoint has no number '{}'", name), UserError::Kind::failure);
    return value;
  };
  impl_->steps = static_cast<int64_t>(number("steps"));
  impl_->skipped = static_cast<int64_t>(number("steps_skipped"));
  impl_->scaler.restore(number("loss_scale"), static_cast<int64_t>(number("loss_scale_growth")));
}

int64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * KiB;  // Linux counts in KiB
}

}  // namespace plimsoll
