#include "train/machine_cost.h"

#include <fmt/format.h>

#include <cstdlib>
#include <memory>

#include "device/host_memory.h"
#include "plimsoll/bytes.h"
#include "plimsoll/train_job.h"
#include "run/op_times.h"
#include "train/plan_options.h"

namespace plimsoll {
namespace {

std::filesystem::path times_file(int threads) {
  const std::filesystem::path folder = measurements_folder();
  return folder.empty() ? folder : folder / fmt::format("op-times-{}-threads.json", threads);
}

// A server core of about 2020 with AVX-512: what a plan is weighed by where nothing was measured.
CostModel typical(int threads) {
  CostModel model;
  model.device = fmt::format("this machine, {} threads", threads);
  model.source = "typical";
  const double cores = threads;
  const double bytes = 12e9 * std::min(cores, 16.0);
  for (auto& kind : model.rates) kind.fill({0, bytes});
  for (OpKind kind : {OpKind::product, OpKind::convolution, OpKind::loss_head}) {
    model.rate(kind, DType::float32) = {60e9 * cores, bytes};
    model.rate(kind, DType::float64) = {30e9 * cores, bytes};
    model.rate(kind, DType::bfloat16) = model.rate(kind, DType::float16) = {150e9 * cores, bytes};
  }
  for (DType dtype : {DType::float32, DType::bfloat16, DType::float16})
    model.rate(OpKind::attention, dtype) = {30e9 * cores, bytes};
  model.rate(OpKind::attention, DType::float64) = {15e9 * cores, bytes};
  model.overhead_seconds = 3e-6;
  model.host_link = 8e9;
  return model;
}

}  // namespace

std::filesystem::path measurements_folder() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache == '/')
    return std::filesystem::path(cache) / "plimsoll";
  if (const char* home = std::getenv("HOME"); home && *home == '/')
    return std::filesystem::path(home) / ".cache/plimsoll";
  return {};
}

CostModel machine_cost_model(int threads) {
  CostModel model = typical(threads);
  const std::filesystem::path file = times_file(threads);
  if (file.empty()) return model;
  const auto times = std::make_shared<OpTimes>(threads);
  times->load(file);
  if (times->size() == 0) return model;
  model.source = "measured";
  model.timed = [times](const Op& op) { return times->find(op); };
  return model;
}

int measure_machine(const Job& job, double seconds) {
  const TrainingOptions options = options_of(job);
  const int threads = threads_of(options);
  const PlannedJob planned = plan_job(job);
  OpTimes times(threads);
  times.load(times_file(threads));
  // Scratch is part of an op's time: the planned trace has it, and the ops that run again are the same.
  const int64_t bytes = planned.settings.memory_budget.value_or(available_host_memory().value_or(GiB) / 2);
  const int count = times.measure(planned.plan.trace, typical(threads), seconds, bytes);
  if (const std::filesystem::path file = times_file(threads); count > 0 && !file.empty()) times.save(file);
  return count;
}

}  // namespace plimsoll
