#include "run/plan_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include "collectives/exchange.h"
#include "collectives/nccl_memory.h"
#include "collectives/shared_block.h"
#include "device/backend.h"
#include "device/kernel_scratch.h"
#include "device/nvrtc.h"
#include "ops/fused/pointwise_ops.h"
#include "ops/optimizer/update_group.h"
#include "plimsoll/error.h"
#include "run/measured_workspace.h"
#include "trace/merged_ops.h"

namespace plimsoll {

int threads_of(const TrainingOptions& options) {
  if (options.threads > 0) return static_cast<int>(options.threads);
  // Read as libtorch does. "4,2" is for nested teams; the first number is ours.
  if (const char* text = std::getenv("OMP_NUM_THREADS")) {
    int stated = 0;
    if (std::from_chars(text, text + std::strlen(text), stated).ec == std::errc() && stated > 0)
      return std::min(stated, 1024);
  }
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
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
  if (options.device == "cuda")
    result.workspace = here ? here->workspace_model(threads_of(options)) : cuda_workspace_model();
  if (options.compile != Choice::off) result.fusion_rules = fusion_rules_of(options, here);
  if (options.compile == Choice::on && !result.fusion_rules)
    throw UserError(fmt::format("compile: true is for the devices cpu and cuda; the device is {}: set compile: auto",
                                options.device));
  return result;
}

PlanOptions with_measured(PlanOptions options, const MeasuredWorkspace& workspace) {
  options.workspace = workspace.model();
  options.budget.library += workspace.other_thread_bytes();
  return options;
}

}  // namespace plimsoll
