#include "train/prepared_run.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <set>
#include <utility>

#include "base/process.h"
#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "device/available_memory.h"
#include "device/backend.h"
#include "job/shared_keys.h"
#include "plimsoll/bytes.h"
#include "plimsoll/train_job.h"
#include "run/search/open_choices.h"
#include "run/search/process_budget.h"
#include "run/training_parts.h"
#include "train/job_data.h"
#include "weights/model_weights.h"
#include "weights/weight_slots.h"

namespace plimsoll {

// Stops all ranks if any of them was stopped during `work`, so that none waits for one that has ended.
template <typename Work>
void PreparedRun::stop_together(const Work& work) const {
  bool stopped = false;
  try {
    work();
  } catch (const StoppedEarly&) {
    stopped = true;
  }
  if (agreement_.any(stopped)) throw StoppedEarly();
}

void PreparedRun::plan(PlanTarget target) {
  target.measuring = nullptr;  // the run allocates the memory next
  target.later_bytes = later_bytes();
  target.ranks.rank = agreement_.rank();
  target.ranks.exchange = exchange_;
  if (exchange_ && exchange_->runs_beside_operators()) {
    // CPU ranks of several hosts; devices have the link of the catalogue.
    if (requested_.device == "cpu")
      target.ranks.link =
          set_peer_link(target.cost, nullptr, {.ranks = agreement_.ranks(), .link = "ethernet-10"}, true);
    target.cost.exchanges_overlap = true;
  }
  agreement_.agree_on_min_budget(target, requested_.budget.device.has_value());
  const SearchOptions search{.on_schedule = [] {
    if (is_stop_requested()) throw StoppedEarly();
  }};
  stop_together([&] { report_.job = plan_job(requested_, target, search); });
  // Measurements may differ from rank to rank, and choices with them: those of the first rank are used.
  if (!agreement_.same_choices(report_.job)) {
    const Job chosen = agreement_.first_rank_choices(requested_, report_.job);
    stop_together([&] { report_.job = plan_job(chosen, target, search); });
  }
  job_ = resolved_job(requested_, report_.job);
  report_.fits = report_.job.plan.fits;
  report_.planned_peak_bytes = report_.job.plan.peak_bytes;
  report_.planned = report_.job.plan.breakdown;
}

// Bytes that are allocated after planning, apart from batches and arenas, as far as they are known.
int64_t PreparedRun::later_bytes() const {
  return conversion_bytes_ + (data_ ? data_->source().bytes_later() : 0);
}

namespace {

// Returns the bytes that the largest weight takes while it is read from model.weights, beside the arena. They are for
// each number: of codes, the file's float32 and what the kernel makes; of a 16-bit weight with a companion, the file's
// and float32 values between them; of a slice, the whole tensor. Other weights are cast in pieces.
int64_t reading_bytes(const std::vector<NamedView>& state) {
  constexpr int64_t kOfCodes = 6, kOfSlices = 4;
  constexpr std::pair<const char*, int64_t> kOfCompanions[] = {{"remainder", 20}, {"compensation", 16}, {"master", 8}};
  std::set<std::string> names;
  for (const NamedView& each : state) names.insert(each.name);
  int64_t largest = 0;
  for (const NamedView& each : state) {
    if (each.name.starts_with(kState)) continue;
    int64_t numbers = each.view.elements(), bytes = 0;
    if (owner_of(each.name, kCodes)) {
      numbers *= each.view.dtype == DType::uint8 ? 2 : 1;  // two 4-bit codes a byte
      bytes = kOfCodes;
    } else if (!each.whole_sizes.empty()) {
      numbers = 1;
      for (const int64_t size : each.whole_sizes) numbers *= size;
      bytes = kOfSlices;
    }
    for (const auto& [kind, of_kind] : kOfCompanions)
      if (names.contains(companion_name(kind, each.name))) bytes = std::max(bytes, of_kind);
    largest = std::max(largest, numbers * bytes);
  }
  return largest;
}

// Returns the bytes that the largest tensor takes while a checkpoint's state is converted to the job's.
int64_t resuming_bytes(const std::vector<NamedView>& state, bool other_update, bool other_state) {
  constexpr int64_t kOfState = 6, kOfWeights = 16;
  std::set<std::string> held;  // parameters with a companion
  for (const NamedView& each : state)
    for (const char* kind : kCompanionKinds)
      if (each.name.starts_with(companion_name(kind, "")))
        held.insert(each.name.substr(companion_name(kind, "").size()));
  int64_t largest = 0;
  for (const NamedView& each : state) {
    if (other_update && held.contains(each.name)) largest = std::max(largest, kOfWeights * each.view.elements());
    if (other_state && each.name.starts_with(kState)) largest = std::max(largest, kOfState * each.view.elements());
  }
  return largest;
}

}  // namespace

void PreparedRun::note_conversions(const std::optional<std::filesystem::path>& checkpoint) {
  const auto differs = [&](const char* key, std::string_view value) {
    const std::optional<std::string> before = checkpoint_origin(*checkpoint, key);
    return before && *before != value;
  };
  const std::vector<NamedView>& state = report_.job.recorded.state;
  const OptimizerConfig& optimizer = settings().optimizer;
  conversion_bytes_ = 0;
  try {
    if (checkpoint)
      conversion_bytes_ = resuming_bytes(state, differs("optimizer.weight_update", name_of(optimizer.weight_update)),
                                         differs("optimizer.state_dtype", name_of(optimizer.state_dtype)));
    else if (starts_from_weights(job_.model))
      conversion_bytes_ = reading_bytes(state);
  } catch (const UserError&) {  // reported with its remedy when the whole checkpoint is read
  }
  ProcessMemory& process = report_.job.process;
  if (process.budget <= 0) return;
  process.later += conversion_bytes_;
  process.minimum += conversion_bytes_;
}

// Counts what the process holds now, and the planned arenas, of which nothing is allocated yet.
void PreparedRun::count_process() {
  release_free_memory();
  ProcessMemory& process = report_.job.process;
  const Plan& plan = report_.job.plan;
  process.present = resident_memory().now;
  process.later = later_bytes_of(report_.job.settings) + later_bytes();
  process.arenas = plan.host_bytes + (job_.device == "cpu" ? plan.arena_bytes : 0);
  process.minimum = process.total() - (job_.device == "cpu" ? plan.arena_bytes - report_.job.minimum_budget_bytes : 0);
}

void PreparedRun::keep_process_budget() {
  constexpr int kPlans = 3;
  for (int plans = 0;; ++plans) {
    count_process();
    const ProcessMemory process = report_.job.process;
    const bool exceeded = process.budget > 0 && process.total() > process.budget;
    if (!agreement_.any(exceeded)) return;
    if (plans == kPlans) {
      report_.fits = report_.job.plan.fits = false;
      report_.job.process.binds = true;  // the message names the process budget
      return;
    }
    const std::string why = fmt::format("with its data, the process takes {} beside the plan's {}",
                                        format_bytes(process.present), format_bytes(process.arenas));
    const std::optional<int64_t> micro_batch = job_.micro_batch_size;
    plan(target_of(requested_));
    observer_.replanned(why, report_.job);
    if (!report_.fits) return;
    if (job_.micro_batch_size != micro_batch) open_data();
  }
}

void PreparedRun::take_memory() {
  while (true) {
    TrainingOptions options = settings();
    options.exchange = exchange_;
    const Step step = step_of(job_, settings().micro_batch());
    metrics_of_ = step.metrics;
    training_.emplace(step, options, report_.job);
    plan_change_.clear();
    try {
      training_->start();
      report_plan_change();
      return;
    } catch (const MemoryUnavailable& error) {
      if (exchange_) throw UserError(error.what(), UserError::Kind::failure);  // other ranks have continued
      if (is_stop_requested()) throw StoppedEarly();
      training_.reset();
      replan(error);
    }
    if (!report_.fits) return;
    open_data();  // the size of micro batches may have changed
    keep_process_budget();
    if (!report_.fits) return;
  }
}

void PreparedRun::report_plan_change() {
  if (training_->plan_change() == plan_change_) return;
  take_plan();
  observer_.replanned(plan_change_, report_.job);
}

void PreparedRun::take_plan() {
  plan_change_ = training_->plan_change();
  if (plan_change_.empty()) return;
  Plan plan = training_->plan();
  plan.reasons.insert(plan.reasons.end(), settings().reasons.begin(), settings().reasons.end());
  report_.job.plan = std::move(plan);
}

void PreparedRun::replan(const MemoryUnavailable& error) {
  plan(replan_target(requested_, report_.job, error));
  observer_.replanned(error.reason(), report_.job);
}

void PreparedRun::open_data() {
  stop_together([&] {
    if (agreement_.leads()) open_own_data();
  });
  stop_together([&] {
    if (!agreement_.leads()) open_own_data();
  });
}

void PreparedRun::identify_data() {
  std::string text;
  stop_together([&] {
    if (!agreement_.leads()) return;
    text = json_of(data_facts_of(job_, tokenizer_text_, [](double) {
             if (is_stop_requested()) throw StoppedEarly();
           })).dump();
  });
  data_facts_ = parse_data_facts(nlohmann::json::parse(agreement_.of_first_rank(text)));
}

void PreparedRun::open_own_data() {
  const Step step = step_of(job_, *job_.micro_batch_size);
  Job bounded = job_;
  if (const ProcessMemory& process = report_.job.process; process.budget > 0) {
    const int64_t least = process.minimum - process.present;  // arenas and batches in the smallest plan
    const int64_t left = std::max<int64_t>(1, process.budget - resident_memory().now - std::max<int64_t>(0, least));
    if (!bounded.data.memory_budget || *bounded.data.memory_budget > left) {
      bounded.data.memory_budget = left;
      bounded.data.memory_of_process = true;
    }
  }
  OpenedSamples opened = open_samples(bounded, step, [&](const std::string& what, double fraction) {
    observer_.preparing(what, fraction);
    if (is_stop_requested()) throw StoppedEarly();
  });
  origin_ = job::origin_of(job_, opened.tokenizer.get());
  tokenizer_text_ = opened.tokenizer_text;
  data_.emplace(job_, std::move(opened.source), uses_sample_mask(step.inputs));
  report_.file_notes = std::move(opened.notes);
  for (const std::string& each : report_.file_notes) observer_.noted(each);
  report_.left_out = data_->source().skipped();
  for (const std::string& each : report_.left_out) observer_.sample_skipped(each);
}

namespace {

// Returns "12MiB"; small amounts in KiB, so that they can be written in a job file.
std::string as_a_key_has_it(int64_t bytes) {
  const bool large = bytes >= 64 * MiB;
  return fmt::format("{}{}", bytes / (large ? MiB : KiB), large ? "MiB" : "KiB");
}

}  // namespace

PlanTarget replan_target(const Job& job, const PlannedStep& planned, const MemoryUnavailable& error) {
  const Plan& refused = planned.plan;
  const Backend& backend = backend_for(job.device);
  const bool one_memory = backend.shares_host_memory();
  const bool of_host = one_memory || error.owner() == MemoryUnavailable::Owner::host;
  const std::optional<int64_t> available = of_host ? current_host_memory() : backend.available_bytes();
  const int64_t most =
      std::min(less_margin(error.requested_bytes()), less_margin(available.value_or(error.requested_bytes())));
  if (!one_memory && of_host)
    throw MemoryUnavailable(error.reason(), error.requested_bytes(),
                            fmt::format("lower host_memory_budget to {}", as_a_key_has_it(most)));
  if (job.budget.device && one_memory && refused.host_bytes > 0)
    throw MemoryUnavailable(error.reason(), error.requested_bytes(),
                            fmt::format("lower memory_budget or host_memory_budget: here both are of the machine's "
                                        "memory, and together they may be {}",
                                        format_bytes(most)));
  // The budget includes the context and the libraries, which were not refused.
  const int64_t beside_arena = one_memory ? 0 : refused.peak_bytes - refused.arena_bytes;
  if (job.budget.device) {
    const std::string lower = as_a_key_has_it(most + beside_arena);
    if (parse_bytes(lower) < planned.minimum_budget_bytes)
      throw BudgetUnavailable(
          error, fmt::format("the job needs at least {}: free memory", format_bytes_up(planned.minimum_budget_bytes)),
          lower);
    throw MemoryUnavailable(error.reason(), error.requested_bytes(),
                            fmt::format("lower memory_budget to {}, or set it to auto", lower));
  }
  PlanTarget target = target_of(job);
  int64_t budget = std::max<int64_t>(1, most + beside_arena - (one_memory ? refused.host_bytes : 0));
  if (refused.budget.device_bytes() > 0)
    budget = std::min(budget, std::max<int64_t>(1, less_margin(refused.budget.device_bytes())));
  if (!target.budget.device || *target.budget.device > budget) {
    target.budget.device = budget;
    target.budget_reason = fmt::format("{}; a tenth of the available memory stays free", error.reason());
  }
  return target;
}

namespace {

std::atomic<bool> stop_requested = false;
static_assert(std::atomic<bool>::is_always_lock_free, "set from a signal handler");

}  // namespace

void request_stop() noexcept {
  stop_requested = true;
}

bool is_stop_requested() noexcept {
  return stop_requested;
}

StopRequest::~StopRequest() {
  stop_requested = false;
}

}  // namespace plimsoll
