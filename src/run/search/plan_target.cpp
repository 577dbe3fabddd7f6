// Determines the target of a plan, this machine or a device of the catalogue, and warns about a 16-bit precision that
// costs time on it.
#include "run/search/open_choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/measurement.h"
#include "catalogue/catalogue.h"
#include "device/available_memory.h"
#include "device/backend.h"
#include "ops/matmul_throughput.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"
#include "plimsoll/machine.h"
#include "plimsoll/plan_training.h"
#include "plimsoll/training.h"
#include "run/device_rates.h"
#include "run/machine_cost.h"
#include "run/search/process_budget.h"
#include "run/training_parts.h"

namespace plimsoll {

int64_t less_margin(int64_t available) {
  return std::max<int64_t>(1, available / 10 * 9);
}

PlanTarget target_of(const DeviceSpec& device) {
  PlanTarget target;
  target.device = device.device;
  target.is_local = false;
  target.cost = cost_model_of(device);
  target.budget.device = device.usable_bytes;
  target.budget_reason =
      fmt::format("the memory that {} leaves to a program, of {}", device.name, format_bytes(device.memory_bytes));
  target.budget.context = device.context_bytes;
  target.budget.library = device.library_workspace_bytes;
  target.cost.bfloat16 = device.rates.bf16 > 0;
  return target;
}

namespace {

// Returns the target for a device of this machine: its speed as measured (plimsoll doctor), else from the catalogue;
// its memory as available now. Memory of the program's own context is not available any more, so it is not subtracted
// again.
PlanTarget target_here(const TrainingOptions& options, const Backend& backend) {
  const DeviceSpec* const known = find_device(backend.name());
  PlanTarget target;
  if (known) target = target_of(*known);
  target.device = options.device;
  target.is_local = true;
  target.measuring = std::make_shared<MeasureAllowance>();
  if (!known) target.cost = generic_cost_model();
  if (std::optional<DeviceRates> rates = stored_device_rates(backend.name(), target.cost))
    target.cost = std::move(rates->model);
  else if (!known)
    target.notes.push_back(
        {"not counted", fmt::format("the speed and the context size of {} are not known", backend.name())});
  target.budget_reason.clear();
  // The stated budget, with the bytes that the device itself needs.
  const Budget of_device = target.budget;
  target.budget = options.budget;
  target.budget.context = of_device.context;
  target.budget.library = of_device.library;
  if (options.budget.device) return target;
  const std::optional<int64_t> available = backend.available_bytes();
  if (!available) {
    target.budget_reason = fmt::format("{} does not say how much memory it has", backend.name());
    return target;
  }
  target.budget.device = std::max<int64_t>(1, *available / 50 * 49 + target.budget.context + target.budget.library);
  target.budget_reason = fmt::format("the {} that {} has free now, less 2 %, and what this program took of it",
                                     format_bytes(*available), backend.name());
  return target;
}

}  // namespace

PlanTarget with_ranks(PlanTarget target, const PeerTopology& topology) {
  check(!target.ranks.count, "the ranks of a plan target are set once");
  const DeviceSpec* const device = target.device != "cpu" ? find_device(target.cost.device) : nullptr;
  // All ranks must predict the same times, but each machine stores its own measurements.
  if (topology.ranks > 1 && target.device != "cpu" && target.cost.source == "measured")
    target.cost = device ? target_of(*device).cost : generic_cost_model();
  target.ranks.link = set_peer_link(target.cost, device, topology, target.device == "cpu");
  target.ranks.count = topology.ranks;
  // Ranks on the CPU of one machine share its memory.
  const int64_t sharing = std::min(topology.ranks, topology.devices_per_machine);
  if (target.is_local && target.budget.process == 0)
    target.budget.process = std::max<int64_t>(1, process_limit_of(target.budget, sharing));
  if (target.is_local && target.device == "cpu" && target.budget.device && !target.budget_reason.empty() &&
      sharing > 1) {
    target.budget.device = std::max<int64_t>(1, *target.budget.device / sharing);
    target.budget_reason += fmt::format("; 1/{} of them for each of the ranks on it", sharing);
  }
  return target;
}

PlanTarget target_of(const TrainingOptions& options) {
  if (options.ranks.count > 1) {
    TrainingOptions one = options;
    one.ranks.count = 1;
    PlanTarget target = with_ranks(target_of(one), {.ranks = options.ranks.count});
    target.ranks.rank = options.ranks.rank;
    target.ranks.exchange = options.exchange;
    return target;
  }
  if (options.device != "cpu")
    if (const Backend* backend = find_backend(options.device)) return target_here(options, *backend);
  PlanTarget target;
  target.device = options.device;
  target.budget = options.budget;
  if (options.device != "cpu") {
    target.cost = generic_cost_model();
    target.notes.push_back({"not counted", fmt::format("scratch of kernels, context and libraries of a device '{}' are "
                                                       "not known here and not counted; name one with --gpu",
                                                       options.device)});
    if (!options.budget.device)
      target.budget_reason = fmt::format(
          "what a device '{}' has is not known here; name one with --gpu, or set memory_budget", options.device);
    return target;
  }
  target.measuring = std::make_shared<MeasureAllowance>();
  kernel_choices();  // measured by the first plan of a machine, in about 0.5 s each
  {
    const MeasureAllowance::Charge charge(target.measuring.get());
    ops::matmul_throughputs();  // measured by the first plan of a machine, in at most about 1 s
  }
  target.cost = machine_cost_model(threads_of(options));
  const std::optional<int64_t> available = current_host_memory();
  if (options.budget.device) {
    if (available && *options.budget.device > *available)
      target.notes.push_back(
          {kBudgetNote,
           fmt::format("{} is more than the {} that are available on this machine now; a plan that takes more than "
                       "these does not start",
                       format_bytes(*options.budget.device), format_bytes(*available))});
    return target;
  }
  if (!available) {
    target.budget_reason = "the system does not say how much memory is available";
    return target;
  }
  // Data offloaded to host memory is in the same memory here.
  target.budget.device = std::max<int64_t>(1, less_margin(*available) - options.budget.host);
  target.budget_reason =
      fmt::format("the {} that are available on this machine now, less 10 %{}", format_bytes(*available),
                  options.budget.host > 0 ? " and less host_memory_budget, which is of the same memory" : "");
  return target;
}

namespace {

void add_note(PlannedTraining& planned, Precision precision, const std::string& why) {
  const std::string decision = fmt::format("precision: {}", name_of(precision));
  planned.settings.slow_matmul_note = decision + " is " + why;
  planned.settings.reasons.push_back({decision, why});
  planned.plan.reasons.push_back({decision, why});
}

}  // namespace

void note_slow_matmul(PlannedTraining& planned, const StepOfSize& step, const TrainingOptions& options,
                      const PlanTarget& target, const SearchOptions& search) {
  if (options.precision == Precision::automatic || options.precision == Precision::fp32_true) return;
  const bool float16 = options.precision == Precision::fp16_mixed, missing = !float16 && !target.cost.bfloat16;
  const double speed = float16 ? target.cost.float16_matmul_speed : target.cost.bfloat16_matmul_speed;
  if (!missing && (!planned.plan.fits || speed <= 0 || speed > 1)) return;
  // The device converts bfloat16 to float32. Having float16 does not mean that it is fast, so 16-mixed is planned for
  // comparison.
  TrainingOptions other = options;
  other.precision = missing ? Precision::fp16_mixed : Precision::fp32_true;
  std::string times;
  // 32-true is not allowed for weights in float16.
  const bool possible = missing ? !options.dtype : options.dtype != DType::float16;
  if (planned.plan.fits && search.minimize_step_time && possible) {
    const PlannedTraining compared = plan_training(step, other, target, search);
    if (compared.plan.fits && compared.step_seconds < (missing ? 0.99 : 1) * planned.step_seconds)
      times = fmt::format("; predicted step {:.3g} s, with precision: {} {:.3g} s", planned.step_seconds,
                          name_of(other.precision), compared.step_seconds);
  }
  if (missing)
    add_note(
        planned, options.precision,
        fmt::format("set in the job, but {} has no bfloat16: matmul is no faster than in float32{}; precision: auto "
                    "chooses the fastest",
                    target.cost.device, times));
  else if (!times.empty())
    add_note(planned, options.precision,
             fmt::format("set in the job and slow on this machine: {} matmul was measured at {:.2g} times the speed of "
                         "float32{}; precision: auto chooses the faster",
                         float16 ? "float16" : "bfloat16", speed, times));
}

}  // namespace plimsoll
