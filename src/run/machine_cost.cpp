#include "run/machine_cost.h"

#include <ATen/Version.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/atomic_file.h"
#include "base/cache_folder.h"
#include "base/measurement.h"
#include "device/host_memory.h"
#include "ops/arithmetic/matmul_throughput.h"
#include "ops/processor.h"
#include "plimsoll/error.h"
#include "plimsoll/machine.h"
#include "run/machine_rates.h"
#include "run/op_times.h"

namespace plimsoll {
namespace {

// Returns another file if the processor is restricted in its instructions, so that measurements of both kinds are kept.
std::filesystem::path file_of(const char* what, int threads) {
  const std::filesystem::path folder = measurements_folder();
  if (folder.empty()) return folder;
  const std::string masks = instruction_masks_in_a_name();
  return folder / fmt::format("{}-{}-threads{}{}.json", what, threads, masks.empty() ? "" : "-", masks);
}

std::filesystem::path rates_file(int threads) {
  return file_of("rates", threads);
}

// Version of the way in which rates are measured; rates of another version are not read. 1: in huge pages.
constexpr int kRatesMethod = 1;

// Returns "measured", and next to how much other work.
std::string source_of(double shared_processors) {
  if (shared_processors <= kMaxSharedProcessors) return "measured";
  return fmt::format("measured next to other programs, {:.1f} processors busy", shared_processors);
}

// Returns whether the file was written.
bool save_rates(const std::filesystem::path& file, const CostModel& model, double shared_processors) {
  nlohmann::json rates;
  for (int kind = 0; kind < kOpKinds; ++kind)
    for (int type = 0; type < kSpeedTypes; ++type)
      rates[kind][type] = {model.rates[kind][type].flops, model.rates[kind][type].bytes};
  const nlohmann::json json = {{"machine", machine_name()},
                               {"method", kRatesMethod},
                               {"shared_processors", shared_processors},
                               {"overhead_seconds", model.overhead_seconds},
                               {"host_link", model.host_link},
                               {"rates", rates}};
  std::error_code ignored;
  std::filesystem::create_directories(file.parent_path(), ignored);
  try {
    write_file_atomically(file, json.dump(1) + "\n");
    return true;
  } catch (const UserError&) {  // a full disk: the next run measures again
    return false;
  }
}

// Returns nullopt if the file is missing, damaged, or of another machine or method.
std::optional<CostModel> load_rates(const std::filesystem::path& file) {
  std::ifstream stream(file);
  const nlohmann::json json = nlohmann::json::parse(stream, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || json.value("machine", nlohmann::json()) != machine_name() ||
      json.value("method", nlohmann::json()) != kRatesMethod)
    return {};
  try {
    CostModel model;
    model.source = source_of(json.value("shared_processors", 0.0));
    model.copies_overlap = false;  // measured rates: the cores that run the ops make the copies
    model.overhead_seconds = json.at("overhead_seconds").get<double>();
    model.host_link = json.at("host_link").get<double>();
    model.disk_link = kTypicalDiskLink;
    bool good = model.overhead_seconds > 0 && model.host_link > 0;
    for (int kind = 0; kind < kOpKinds; ++kind) {
      for (int type = 0; type < kSpeedTypes; ++type) {
        const nlohmann::json& rate = json.at("rates").at(kind).at(type);
        model.rates[kind][type] = {rate.at(0).get<double>(), rate.at(1).get<double>()};
        good = good && model.rates[kind][type].flops >= 0 && model.rates[kind][type].bytes > 0;
      }
    }
    model.host_bytes = model.rate(OpKind::update, DType::float32).bytes;
    return good ? std::optional(model) : std::nullopt;
  } catch (const nlohmann::json::exception&) {
    return {};
  }
}

bool can_load(const char* library) {
  void* handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
  if (handle) dlclose(handle);
  return handle != nullptr;
}

}  // namespace

std::filesystem::path measurements_folder() {
  return cache_folder();
}

std::filesystem::path op_times_file(int threads) {
  return file_of("op-times", threads);
}

namespace {

// Returns a model in which a thread computes `matmul_flops` a second in float32 matmuls.
CostModel model_of(int threads, double matmul_flops) {
  CostModel model;
  model.device = fmt::format("this machine, {} thread{}", threads, threads == 1 ? "" : "s");
  model.source = "typical";
  const double cores = threads, flops = matmul_flops * cores;
  const double bytes = 12e9 * std::min(cores, 16.0);
  for (auto& kind : model.rates) kind.fill({0, bytes});
  for (OpKind kind : {OpKind::product, OpKind::convolution, OpKind::loss_head}) {
    model.rate(kind, DType::float32) = {flops, bytes};
    model.rate(kind, DType::float64) = {flops / 2, bytes};
    // No name or feature of the processor determines the speed of 16-bit matmuls: it was measured.
    for (DType dtype : {DType::bfloat16, DType::float16})
      model.rate(kind, dtype) = {flops * (kind == OpKind::convolution ? ops::relative_convolution_speed(dtype)
                                                                      : ops::relative_matmul_speed(dtype)),
                                 bytes};
  }
  for (DType dtype : {DType::float32, DType::bfloat16, DType::float16})
    model.rate(OpKind::attention, dtype) = {flops / 2, bytes};
  model.rate(OpKind::attention, DType::float64) = {flops / 4, bytes};
  model.overhead_seconds = 3e-6;
  model.host_link = 8e9;
  model.disk_link = kTypicalDiskLink;
  model.host_bytes = bytes;
  model.copies_overlap = false;
  return model;
}

}  // namespace

CostModel typical_cost_model(int threads) {
  return model_of(threads, 60e9);
}

CostModel machine_cost_model(int threads) {
  // The speed is not rounded as the relative ones are: 19 % would be too coarse for a prediction. `products.json` keeps
  // it, so that plans of one machine agree.
  CostModel model = model_of(threads, ops::matmul_throughputs().of(DType::float32).libtorch);
  const std::filesystem::path file = op_times_file(threads);
  if (file.empty()) return model;
  if (std::optional<CostModel> rates = load_rates(rates_file(threads))) {
    rates->device = model.device;
    model = std::move(*rates);
  }
  model.bfloat16_matmul_speed = ops::relative_matmul_speed(DType::bfloat16);
  model.float16_matmul_speed = ops::relative_matmul_speed(DType::float16);
  const auto times = std::make_shared<OpTimes>(threads);
  times->load(file);
  if (times->size() == 0) return model;
  model.source += ", ops timed";
  model.measured_seconds = [times](const Op& op) { return times->find(op); };
  return model;
}

MachineReport inspect_machine(int threads, bool again, bool store_in_any_case) {
  MachineReport report;
  report.processor = machine_name();
  report.instructions = at::get_cpu_capability();
  report.cores = static_cast<int>(std::thread::hardware_concurrency());
  report.threads = threads > 0 ? threads : std::max(report.cores, 1);
  report.available_memory = current_host_memory();
  report.folder = measurements_folder();
  report.nvidia_driver = can_load("libcuda.so.1");
  report.amd_driver = can_load("libamdhip64.so");
  std::optional<CostModel> rates;
  if (!again && !report.folder.empty()) rates = load_rates(rates_file(report.threads));
  report.stored = rates.has_value();
  if (!rates) {
    const double begin = measuring_machine().now();
    const std::optional<OtherWork> before = measuring_machine().other_work();
    rates = measure_rates(report.threads);
    if (const std::optional<OtherWork> after = measuring_machine().other_work(); before && after)
      report.shared_processors = shared_processors(*before, *after, measuring_machine().now() - begin, report.threads);
    rates->source = source_of(report.shared_processors);
    report.measured_now = true;
    // Rates of a busy machine would make every later prediction wrong.
    if (!report.folder.empty() && (store_in_any_case || report.shared_processors <= kMaxSharedProcessors))
      report.stored = save_rates(rates_file(report.threads), *rates, report.shared_processors);
  }
  report.cost = std::move(*rates);
  report.cost.device = fmt::format("this machine, {} thread{}", report.threads, report.threads == 1 ? "" : "s");
  if (!report.folder.empty()) {
    OpTimes times(report.threads);
    times.load(op_times_file(report.threads));
    report.ops_timed = times.size();
  }
  return report;
}

}  // namespace plimsoll
