#include "run/machine_cost.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/core/grad_mode.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/atomic_file.h"
#include "base/measurement.h"
#include "base/process.h"
#include "device/arena.h"
#include "device/available_memory.h"
#include "ops/attention/attention.h"
#include "ops/cpu_capability.h"
#include "ops/layers/rms_norm.h"
#include "ops/loss/loss_kernel.h"
#include "ops/matmul_throughput.h"
#include "ops/optimizer/ops.h"
#include "plimsoll/error.h"
#include "plimsoll/machine.h"
#include "run/device_rates.h"
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

// Version of the way in which rates are measured, and of the kernels that are; rates of another version are not read.
// 1: in huge pages. 2: masked scores of attention do not count. 3: kernels with masks of bits (ops/lanes.h).
constexpr int kRatesMethod = 3;

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
    model.rate(OpKind::attention, dtype) = {flops * 0.3, bytes};
  model.rate(OpKind::attention, DType::float64) = {flops * 0.15, bytes};
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
  open_devices();  // before the CPU is measured
  MachineReport report;
  report.processor = machine_name();
  report.instructions = at::get_cpu_capability();
  report.cores = usable_cores();
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
  report.devices = inspect_devices(again, report.nvidia_driver);
  return report;
}

namespace {

constexpr double kSecondsEach = 0.15;
constexpr int kMaxRuns = 8;

// Returns the seconds of the shortest of a few runs, after one that does not count.
double best_seconds(const MeasuredWork& work, const std::function<void()>& run) {
  double best = 0, spent = 0;
  for (int i = 0; i <= kMaxRuns && (i < 2 || spent < kSecondsEach); ++i) {
    const double seconds = measuring_machine().time(work, run);
    spent += seconds;
    if (i > 0 && (i == 1 || seconds < best)) best = seconds;
  }
  return best;
}

// Return the operations, or the bytes, a second.
double flops_rate(const std::string& name, double flops, const std::function<void()>& run) {
  return flops / best_seconds({.name = name, .flops = flops}, run);
}
double bytes_rate(const std::string& name, double bytes, const std::function<void()>& run) {
  return bytes / best_seconds({.name = name, .bytes = bytes}, run);
}

// Returns zeros for which huge pages are requested, as for an arena. The kernel can refuse them. With pages of 4 KiB
// the measured loss head was a tenth slower than in a step.
at::Tensor huge_zeros(at::IntArrayRef sizes, const at::TensorOptions& options = {}) {
  at::Tensor tensor = at::empty(sizes, options);
  const auto page = static_cast<uintptr_t>(page_bytes()),
             begin = reinterpret_cast<uintptr_t>(tensor.mutable_data_ptr());
  const uintptr_t first = (begin + page - 1) / page * page, last = (begin + tensor.nbytes()) / page * page;
  if (first < last) ::madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);  // NOLINT: an address
  return tensor.zero_();
}

at::ScalarType scalar_of(DType dtype) {
  return dtype == DType::bfloat16 ? at::kBFloat16 : dtype == DType::float16 ? at::kHalf : at::kFloat;
}

void measure_type(CostModel& model, DType dtype) {
  const at::TensorOptions options = at::TensorOptions().dtype(scalar_of(dtype));
  const double element = static_cast<double>(element_bytes(dtype));
  const auto named = [&](const char* kernel) { return fmt::format("{} {}", kernel, name_of(dtype)); };
  {
    const int64_t m = 1024, k = 768, n = 1024;
    const at::Tensor a = huge_zeros({m, k}, options), b = huge_zeros({k, n}, options);
    at::Tensor out = huge_zeros({m, n}, options);
    model.rate(OpKind::product, dtype).flops =
        flops_rate(named("matmul"), 2.0 * static_cast<double>(m * k * n), [&] { at::mm_out(out, a, b); });
  }
  {
    const at::Tensor x = huge_zeros({4, 16, 32, 32}, options), w = huge_zeros({32, 16, 3, 3}, options);
    model.rate(OpKind::convolution, dtype).flops =
        flops_rate(named("convolution"), 2.0 * 4 * 32 * 32 * 32 * 16 * 9, [&] { at::conv2d(x, w, {}, 1, 1); });
  }
  {
    const at::Tensor q = huge_zeros({1, 8, 512, 64}, options);
    // Half of the scores and those of the diagonal's tiles count, as in recorded traces (ops::computed_share()).
    model.rate(OpKind::attention, dtype).flops =
        flops_rate(named("attention"), 2.0 * 2 * 8 * 512 * (512 + 128) / 2 * 64,
                   [&] { ops::attention(q, q, q, /*causal=*/true, 0); });
  }
  {
    // A language model's step computes both gradients, and its weight is larger than a core's caches.
    const int64_t tokens = 512, width = 448, vocabulary = 8192;
    const at::Tensor x = huge_zeros({tokens, width}, options), w = huge_zeros({vocabulary, width}, options);
    const at::Tensor targets = huge_zeros({tokens}, at::kLong), loss = at::empty({}, at::kFloat);
    at::Tensor grad_x = huge_zeros(x.sizes(), options), grad_weight = huge_zeros(w.sizes(), options);
    model.rate(OpKind::loss_head, dtype).flops = flops_rate(
        named("loss head"), 3 * 2.0 * static_cast<double>(tokens * width * vocabulary),
        [&] { ops::linear_cross_entropy_cpu(x, w, targets, -100, /*softcap=*/0, loss, {}, grad_x, grad_weight); });
  }
  {
    const int64_t count = (32 << 20) / static_cast<int64_t>(element);
    const at::Tensor a = huge_zeros({count}, options), b = huge_zeros({count}, options);
    at::Tensor out = huge_zeros({count}, options);
    model.rate(OpKind::streaming, dtype).bytes =
        bytes_rate(named("add"), 3 * static_cast<double>(count) * element, [&] { at::add_out(out, a, b); });
    // Small enough that the allocator reuses the result's memory. Results in fresh pages would include the time in
    // which the system makes these pages.
    const int64_t few = (64 << 10) / static_cast<int64_t>(element);
    const at::Tensor rows = a.narrow(0, 0, few).view({-1, 512}), weight = at::ones({512}, options);
    model.rate(OpKind::reduction, dtype).bytes =
        bytes_rate(named("norm"), 2 * static_cast<double>(few) * element, [&] { ops::rms_norm(rows, weight, 1e-5); });
    at::Tensor drawn = out.narrow(0, 0, few);
    model.rate(OpKind::random, dtype).bytes =
        bytes_rate(named("random numbers"), static_cast<double>(few) * element, [&] { drawn.uniform_(); });
  }
  {
    const int64_t count = 4 << 20;
    std::vector<at::Tensor> t;
    for (int i = 0; i < 4; ++i) t.push_back(huge_zeros({count}, options));
    const at::Tensor step = at::ones({}, at::kFloat), rate = huge_zeros({}, at::kDouble),
                     no = huge_zeros({}, at::kFloat);
    // Each operand counts once, as in bytes_moved_by.
    model.rate(OpKind::update, dtype).bytes =
        bytes_rate(named("update"), 4 * static_cast<double>(count) * element, [&] {
          ops::adamw_({t[0], {}, {t[1]}}, {t[2]}, {t[3]}, step, {rate, step, no}, 0.9, 0.95, 0.1, 1e-8);
        });
  }
}

}  // namespace

CostModel measure_rates(int threads) {
  const at::NoGradGuard no_grad;
  at::set_num_threads(threads);
  CostModel model;
  model.copies_overlap = false;  // the same cores make them over the same memory bus
  for (DType dtype : {DType::float32, DType::bfloat16, DType::float16}) measure_type(model, dtype);
  for (DType dtype : {DType::float32, DType::bfloat16, DType::float16})
    for (OpKind kind : {OpKind::product, OpKind::convolution, OpKind::attention, OpKind::loss_head})
      model.rate(kind, dtype).bytes = model.rate(OpKind::streaming, dtype).bytes;
  for (int kind = 0; kind < kOpKinds; ++kind) {
    const OpRate single = model.rate(static_cast<OpKind>(kind), DType::float32);
    model.rate(static_cast<OpKind>(kind), DType::float64) = {single.flops / 2, single.bytes};
  }
  at::Tensor small = huge_zeros({8});
  constexpr int kCalls = 2000;
  model.overhead_seconds = best_seconds({"calls"},
                                        [&] {
                                          for (int i = 0; i < kCalls; ++i) small.add_(1);
                                        }) /
                           kCalls;
  // One thread copies bytes that no cache holds, as in the executor.
  const at::Tensor from = huge_zeros({int64_t{256} << 20}, at::kByte);
  at::Tensor to = huge_zeros(from.sizes(), at::kByte);
  const auto bytes = static_cast<size_t>(from.numel());
  model.host_link = bytes_rate("copy", static_cast<double>(bytes),
                               [&] { std::memcpy(to.mutable_data_ptr(), from.const_data_ptr(), bytes); });
  return model;
}

}  // namespace plimsoll
