#include "run/training_parts.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/process.h"
#include "base/text.h"
#include "collectives/exchange.h"
#include "collectives/nccl_memory.h"
#include "collectives/shared_block.h"
#include "device/available_memory.h"
#include "device/backend.h"
#include "device/kernel_scratch.h"
#include "device/nvrtc.h"
#include "ops/fused/fused_source.h"
#include "ops/fused/op_forms.h"
#include "ops/libtorch_types.h"
#include "ops/loss/row_rules.h"
#include "ops/optimizer/update_group.h"
#include "plan/passes/passes.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"
#include "run/op_times.h"
#include "run/record_step.h"
#include "trace/merged_ops.h"

namespace plimsoll {

std::map<std::string, std::string> text_of(const TrainingCounters& counters) {
  return {{"steps", std::to_string(counters.steps)},
          {"steps_skipped", std::to_string(counters.skipped)},
          {"loss_scale", fmt::format("{}", counters.loss_scale)},
          {"loss_scale_growth", std::to_string(counters.loss_scale_growth)}};
}

TrainingCounters counters_of(const std::map<std::string, std::string>& text) {
  const auto refuse = [](const char* name) -> UserError {
    return UserError(fmt::format("the checkpoint's counter '{}' is missing or damaged", name),
                     UserError::Kind::failure);
  };
  const auto number = [&]<typename Number>(const char* name, Number min, Number max) {
    const auto found = text.find(name);
    if (found == text.end()) throw refuse(name);
    Number value{};
    const char* const end = found->second.data() + found->second.size();
    const auto [stop, error] = std::from_chars(found->second.data(), end, value);
    if (error != std::errc() || stop != end || !(value >= min && value <= max)) throw refuse(name);
    return value;
  };
  constexpr int64_t kMaxCount = int64_t{1} << 62;
  TrainingCounters counters;
  counters.steps = number("steps", int64_t{0}, kMaxCount);
  counters.skipped = number("steps_skipped", int64_t{0}, counters.steps);
  counters.loss_scale = number("loss_scale", 1e-30, 1e30);
  counters.loss_scale_growth = number("loss_scale_growth", int64_t{0}, kMaxCount);
  return counters;
}

namespace {

constexpr int64_t kIgnored = -100;  // the target that losses ignore, as in libtorch

}  // namespace

MicroBatchInputs::MicroBatchInputs(const Step& step, const TrainingOptions& options)
    : last_samples_(options.accumulate ? options.last_micro_batch : 0),
      samples_(ragged_steps() ? step.inputs.at(0).sizes.at(0) : 0) {
  for (const InputSpec& spec : step.inputs) {
    types_[spec.name] = spec.dtype;
    if (spec.values > 0) bounds_[spec.name] = spec.values;
  }
}

bool MicroBatchInputs::is_remainder(const MicroBatch& batch) const {
  return ragged_steps() && std::ranges::all_of(batch, [&](const auto& entry) {
           return entry.second.dim() > 0 && entry.second.size(0) == last_samples_;
         });
}

void MicroBatchInputs::require_in_range(const std::string& name, const at::Tensor& values) const {
  const auto bound = bounds_.find(name);
  if (bound == bounds_.end() || values.numel() == 0) return;
  const auto [least, most] = at::aminmax(values);
  const auto low = least.item<int64_t>(), high = most.item<int64_t>();
  if (low >= kIgnored && high < bound->second) return;
  throw UserError(
      fmt::format("input '{}' has values from {} to {}; they must be below {}", name, low, high, bound->second),
      UserError::Kind::failure);
}

void MicroBatchInputs::bind(Executor& executor, const Trace& trace, const MicroBatch& batch, int64_t rows) const {
  for (const NamedView& input : trace.inputs) {
    if (input.name == "loss_factor" || input.name == "loss_scale" || input.name == "learning_rate") continue;
    const auto found = batch.find(input.name);
    if (found == batch.end()) throw UserError(fmt::format("the micro batch has no '{}'", input.name));
    at::Tensor target = executor.tensor(input.view);
    if (rows > 0) target = target.narrow(0, 0, rows);
    const at::Tensor& source = found->second;
    const c10::ScalarType declared = types_.at(input.name);
    if (source.sizes() != target.sizes() ||
        (source.scalar_type() != declared && source.scalar_type() != target.scalar_type()))
      throw UserError(fmt::format(
          "input '{}' is {} [{}]; the step declares {} [{}]{}", input.name, c10::toString(source.scalar_type()),
          fmt::join(source.sizes(), ", "), c10::toString(declared), fmt::join(target.sizes(), ", "),
          rows > 0         ? " of the last micro batch"
          : ragged_steps() ? fmt::format(", and of the last of several micro batches {} samples", last_samples_)
                           : ""));
    if (target.device().is_cpu()) {
      target.copy_(source);
    } else {  // the host casts, so that only the bytes that the step reads are copied over the link
      check(target.is_contiguous(), "an input of the plan is not contiguous");
      require_in_range(input.name, source);
      const at::Tensor cast = source.to(target.scalar_type()).contiguous();
      executor.write(input.view, cast.const_data_ptr(), static_cast<int64_t>(cast.nbytes()));
    }
  }
}

namespace {

// Returns the persistent buffers that have another offset in the new plan. Without other memories they keep their
// offsets, whatever is planned above them; with them, buffers may move between the memories.
std::vector<BufferId> buffers_to_relocate(const Plan& before, const Plan& plan, size_t recorded_buffers) {
  std::vector<BufferId> relocated;
  for (BufferId b = 0; b < static_cast<BufferId>(recorded_buffers); ++b) {
    const Buffer &was = before.trace.buffers[b], &is = plan.trace.buffers[b];
    if (!was.persistent || before.offsets[b] < 0) continue;
    if (was.memory != is.memory || before.offsets[b] != plan.offsets[b]) relocated.push_back(b);
  }
  return relocated;
}

}  // namespace

void TrainingMemory::require(const Plan& plan, int64_t scratch) const {
  const int64_t of_device = plan.arena_bytes - (arena_ ? arena_->bytes() : 0);
  const int64_t of_host = plan.host_bytes - (host_arena_ ? host_arena_->bytes() : 0) + scratch;
  using Owner = MemoryUnavailable::Owner;
  const auto require = [](const std::optional<int64_t>& available, int64_t wanted, const std::string& who,
                          Owner owner) {
    if (available && *available < wanted)
      throw MemoryUnavailable(fmt::format("{} has {} available now, and the arena takes {}", who,
                                          format_bytes(*available), format_bytes(wanted)),
                              wanted, owner);
  };
  if (backend_.shares_host_memory())
    return require(current_host_memory(), of_device + of_host, "the machine", Owner::host);
  require(backend_.available_bytes(), of_device, backend_.name(), Owner::device);
  require(current_host_memory(), of_host, "the machine", Owner::host);
}

void TrainingMemory::allocate(const Plan& plan) {
  arena_ = backend_.allocate_arena(plan.arena_bytes);
  allocate_other_arenas(plan);
}

void TrainingMemory::start_counting() {
  backend_.reset_out_of_arena_peak();
  allocations_at_start_ = backend_.out_of_arena_allocations();
}

// Grows or allocates the arenas of host and disk to the plan's sizes; an arena never shrinks.
void TrainingMemory::allocate_other_arenas(const Plan& plan) {
  if (host_arena_) host_arena_->grow(plan.host_bytes);
  if (!host_arena_ && plan.host_bytes > 0)
    host_arena_ = backend_.allocate_host_arena(plan.host_bytes, options_.budget.host);
  if (disk_arena_) disk_arena_->grow(plan.disk_bytes);
  if (!disk_arena_ && plan.disk_bytes > 0)
    disk_arena_ = std::make_unique<DiskArena>(options_.disk_path, plan.disk_bytes, options_.budget.disk);
}

void TrainingMemory::change_plan(const Plan& before, const Plan& plan, size_t recorded_buffers) {
  backend_.reset_out_of_arena_peak();
  const std::vector<BufferId> relocated = buffers_to_relocate(before, plan, recorded_buffers);
  int64_t relocated_bytes = 0;
  for (const BufferId b : relocated) relocated_bytes += placed_bytes(before.trace, before.trace.buffers[b].bytes);
  require(plan, backend_.relocation_scratch_bytes(relocated_bytes));
  arena_->grow(plan.arena_bytes);
  allocate_other_arenas(plan);
  relocate(before, plan, relocated);
}

std::byte* TrainingMemory::place_of(const Plan& plan, BufferId buffer) const {
  const Memory memory = plan.trace.buffers[buffer].memory;
  std::byte* const begin = memory == Memory::device ? arena_->data()
                           : memory == Memory::host ? host_arena_->data()
                                                    : disk_arena_->data();
  return begin + plan.offsets[buffer];
}

void TrainingMemory::relocate(const Plan& before, const Plan& plan, const std::vector<BufferId>& relocated) {
  if (relocated.empty()) return;
  std::vector<Relocation> relocations;
  relocations.reserve(relocated.size());
  for (const BufferId b : relocated)
    relocations.push_back(
        {place_of(before, b), place_of(plan, b), placed_bytes(before.trace, before.trace.buffers[b].bytes)});
  backend_.relocate(std::move(relocations));
  if (disk_arena_) disk_arena_->evict(0, disk_arena_->bytes(), /*written=*/true);
}

void TrainingMemory::note_use(const Executor& executor, bool look_through) {
  const Exchange* const exchange = options_.exchange.get();
  use_.out_of_arena_allocations = backend_.out_of_arena_allocations() - allocations_at_start_;
  use_.arena = std::max(use_.arena, executor.arena_bytes_used());
  if (look_through) use_.touched = std::max(use_.touched, arena_->touched_bytes());
  // On the CPU, the bytes that the exchange holds are memory of the device.
  const int64_t held = exchange && backend_.shares_host_memory() ? exchange->held_bytes() : 0;
  use_.workspace = std::max(use_.workspace, backend_.out_of_arena_peak() + held);
  use_.host = std::max(use_.host, executor.host_bytes_used());
  use_.disk = std::max(use_.disk, executor.disk_bytes_used());
  use_.peak = std::max(use_.peak, executor.arena_bytes_used() + backend_.out_of_arena_peak() + held);
}

Breakdown measured_breakdown(const Breakdown& planned, const MemoryUse& use) {
  Breakdown measured = planned;
  measured.context = 0;  // only bytes of the arena and the heap are counted
  int64_t unused = measured.total() - use.measured_peak();
  for (int64_t* part : {&measured.fragmentation, &measured.workspace, &measured.activations, &measured.gradients,
                        &measured.inputs, &measured.optimizer_state, &measured.parameters}) {
    const int64_t taken = std::clamp<int64_t>(unused, 0, *part);
    *part -= taken;
    unused -= taken;
  }
  measured.workspace -= unused;  // `unused` negative: scratch that was not planned
  return measured;
}

int64_t peak_resident_bytes() {
  return resident_memory().peak;
}

namespace {

// Planning takes these bytes in addition until the next schedule, and until it is likely to end.
constexpr int64_t kBetweenSchedules = 4 * MiB, kPlanningStep = 16 * MiB;

}  // namespace

void require_room_for_planning(const Budget& budget) {
  if (budget.process.value_or(0) <= 0) return;
  const int64_t most = *budget.process - kBetweenSchedules;
  if (resident_memory().now <= most) return;
  release_free_memory();
  const int64_t taken = resident_memory().now;
  if (taken <= most) return;
  throw UserError(
      fmt::format("process_budget is {}, and planning alone has {} resident; set process_budget to at least "
                  "{} for planning; a run without process_budget shows what its steps take",
                  format_bytes(*budget.process), format_bytes_up(taken), format_bytes_up(taken + kPlanningStep)),
      UserError::Kind::does_not_fit);
}

int64_t room_to_try(const Budget& budget, int64_t most) {
  if (budget.process.value_or(0) <= 0) return most;
  // Libraries allocate memory by themselves, such as weights in another order. It grows with the ops.
  const int64_t beside_ops = *budget.process / 24;
  return std::clamp<int64_t>(*budget.process - resident_memory().now - beside_ops, 0, most);
}

int threads_of(const TrainingOptions& options) {
  if (options.threads > 0) return static_cast<int>(options.threads);
  // Read as libtorch does. "4,2" is for nested teams; the first number is ours.
  if (const char* text = std::getenv("OMP_NUM_THREADS")) {
    int stated = 0;
    if (std::from_chars(text, text + std::strlen(text), stated).ec == std::errc() && stated > 0)
      return std::min(stated, 1024);
  }
  // More threads than a quota of processor time allows wait for each other, at every op.
  return usable_cores();
}

namespace {

// Returns the rules for devices that have kernels for fused ops and for updates in groups; nullptr for others.
std::shared_ptr<const FusionRules> fusion_rules_of(const TrainingOptions& options, const Backend* here) {
  const auto device = options.device == "cuda" ? PointwiseDevice::cuda : PointwiseDevice::cpu;
  if (options.device != "cpu" && options.device != "cuda") return nullptr;
  FusionRules fusion_rules{options.compile == Choice::on, [device](const Op& op) { return pointwise_op(op, device); },
                           fused_op_call};
  // CUDA kernels of chains are compiled here if the device is here.
  const bool cuda_here = device == PointwiseDevice::cuda && here;
  if (cuda_here && options.compile == Choice::automatic && !has_nvrtc())
    fusion_rules.translate = [](const Op&) { return std::nullopt; };
  fusion_rules.pair = [device](const Op& first, const Op& second) { return fused_norm(first, second, device); };
  if (!cuda_here || has_update_groups(c10::DispatchKey::CUDA)) fusion_rules.updates = update_grouping();
  return std::make_shared<const FusionRules>(std::move(fusion_rules));
}

// Returns the bytes of the device's memory that exchanges between ranks hold. Until CPU ranks have connected, they
// count as ranks of one host.
int64_t exchange_bytes(const TrainingOptions& options) {
  const int64_t ranks = options.ranks.count;
  if (options.device == "cuda") return nccl_bytes(ranks);
  if (options.device != "cpu" || ranks < 2) return 0;
  return options.exchange ? options.exchange->held_bytes() : SharedBlock::bytes(static_cast<int>(ranks)) / ranks;
}

}  // namespace

PlanOptions plan_options_of(const TrainingOptions& options, const Backend* here,
                            std::shared_ptr<MeasureAllowance> allowance) {
  PlanOptions result;
  result.budget = options.budget;
  result.budget.library += exchange_bytes(options);
  result.micro_batches = options.micro_batches;
  result.gradient_checkpointing = options.gradient_checkpointing;
  result.checkpointed_module = options.checkpointed_module;
  result.update_in_backward = options.update_in_backward;
  result.cost = options.cost;
  if (options.device == "cpu") result.workspace = cpu_workspace_model(threads_of(options), std::move(allowance));
  if (options.device == "cuda") {
    result.workspace = here ? here->workspace_model(threads_of(options))
                            : cuda_workspace_model(/*multiprocessors=*/0, options.cost.gpu.flash_attention);
    result.forms = larger_chunks_cuda;
    result.product_sum = product_sum_cuda;
  }
  result.row_slicing = std::make_shared<const RowSlicing>(row_slicing());
  if (options.compile != Choice::off) result.fusion_rules = fusion_rules_of(options, here);
  if (options.compile == Choice::on && !result.fusion_rules)
    throw UserError(fmt::format("compile: true is for the devices cpu and cuda; the device is {}: set compile: auto",
                                options.device));
  return result;
}

Trace with_loss_rows(const Trace& recorded, const RowSlicing& slicing) {
  Trace trace = slice_rows(recorded, slicing);
  trace.ops.insert(trace.ops.begin(), recorded.ops.begin(), recorded.ops.end());
  return trace;
}

PlanOptions with_measured(PlanOptions options, const MeasuredWorkspace& workspace) {
  options.workspace = workspace.model();
  options.budget.library += workspace.other_thread_bytes();
  return options;
}

namespace {

constexpr std::string_view kNorm = "plimsoll::gradient_norm_";  // (norms, skipped, gradient, index)

/// Returns the index of the first op of the first micro batch that touches each buffer.
std::map<BufferId, int32_t> first_uses(const Trace& trace) {
  std::map<BufferId, int32_t> first;
  const Segment* micro = trace.segment(SegmentKind::micro);
  for (int32_t i = micro ? micro->begin : 0; micro && i < micro->end; ++i)
    for_each_view(trace.ops[static_cast<size_t>(i)], [&](const View& view, bool) { first.emplace(view.buffer, i); });
  return first;
}

}  // namespace

GradientNorms gradient_norms_of(const Trace& recorded) {
  GradientNorms found;
  const std::map<BufferId, int32_t> first = first_uses(recorded);
  std::vector<std::pair<int32_t, GradientNormEntry>> entries;
  for (const UpdatePiece& piece : recorded.update_pieces) {
    if (piece.kind != UpdatePiece::Kind::norm) continue;
    const auto begin = recorded.ops.begin() + piece.begin, end = recorded.ops.begin() + piece.end;
    const auto norm = std::find_if(begin, end, [](const Op& op) { return op.name == kNorm; });
    if (norm == end) return {};
    check(norm->call && norm->arguments.size() == 4, "an op of another schema");
    found.norms = norm->arguments[0].views.at(0);
    const auto written = first.find(piece.gradient);
    entries.emplace_back(written == first.end() ? std::numeric_limits<int32_t>::max() : written->second,
                         GradientNormEntry{recorded.buffers[static_cast<size_t>(piece.parameter)].label,
                                           norm->call->constants.at(3).toInt()});
  }
  std::ranges::stable_sort(entries, {}, [](const auto& entry) { return entry.first; });
  for (auto& [op, entry] : entries) found.entries.push_back(std::move(entry));
  return found;
}

}  // namespace plimsoll
