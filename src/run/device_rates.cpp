#include "run/device_rates.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/atomic_file.h"
#include "base/measurement.h"
#include "catalogue/catalogue.h"
#include "cost/operators.h"
#include "ops/attention/attention.h"
#include "ops/cpu_capability.h"
#include "ops/layers/rms_norm.h"
#include "ops/libtorch_types.h"
#include "ops/loss/linear_cross_entropy.h"
#include "ops/optimizer/ops.h"
#include "ops/workspace/workspace.h"
#include "plimsoll/devices.h"
#include "plimsoll/error.h"
#include "plimsoll/plan_training.h"
#include "plimsoll/training.h"
#include "run/machine_cost.h"

namespace plimsoll {
namespace {

// Sets the measured rate of copies one way; the rate of copies both ways keeps its share of it.
void set_host_link(CostModel& model, double measured) {
  if (model.host_link > 0) model.host_link_duplex *= measured / model.host_link;
  model.host_link = measured;
}

// Version of the way in which rates are measured; rates of another version are not read.
constexpr int kDeviceRatesMethod = 2;  // 2: matmuls of random numbers
constexpr int kTimedRuns = 5;
constexpr int64_t kMinSide = 256, kMaxSide = 8192;  // sides of measured matmuls
constexpr std::array<DType, 3> kMeasuredTypes = {DType::float32, DType::bfloat16, DType::float16};

class DeviceMeasurement {
 public:
  DeviceMeasurement(Backend& backend, CostModel known, double seconds)
      : backend_(backend),
        model_(std::move(known)),
        seconds_(seconds),
        bytes_(std::max<int64_t>(1 << 20, backend.available_bytes().value_or(int64_t{8} << 30) / 8)) {}

  DeviceRates run() {
    const at::NoGradGuard no_grad;
    measure_launches();  // predictions of the other kernels have it
    for (const DType dtype : kMeasuredTypes) {
      if (dtype == DType::bfloat16 && !model_.bfloat16) continue;
      measure(dtype);
    }
    measure_link();
    model_.source = "measured";
    return {std::move(model_), std::move(refused_), short_of_memory_};
  }

 private:
  at::TensorOptions options(DType dtype) const {
    return at::TensorOptions().dtype(scalar_type_of(dtype)).device(backend_.device());
  }

  // Returns numbers in [-1, 1).
  at::Tensor random(at::IntArrayRef sizes, DType dtype) const {
    return at::empty(sizes, options(dtype)).uniform_(-1, 1);
  }

  // Returns the seconds of the shortest of a few runs, after one that does not count.
  double best_seconds(const MeasuredWork& work, const std::function<void()>& run) {
    double best = 0;
    for (int i = 0; i <= kTimedRuns; ++i) {
      backend_.synchronize_device();
      const double seconds = measuring_machine().time(work, [&] {
        run();
        backend_.synchronize_device();
      });
      if (i > 0 && (i == 1 || seconds < best)) best = seconds;
    }
    return best;
  }

  // Sets the rate of an op's kind so that its predicted seconds are those of `run`: a prediction also has the tiles of
  // matmuls and the bytes between them.
  void set_flops(OpKind kind, DType dtype, const char* name, Op op, const std::function<void()>& run) {
    constexpr int kIterations = 8;
    op.flops = flops_of(op);
    double seconds = 0;
    if (!try_to_time(seconds, {.name = named(name, dtype), .flops = op.flops}, run)) return;
    double& rate = model_.rate(kind, dtype).flops;
    const double reached = op.flops / seconds;
    rate = reached;
    for (int i = 0; i < kIterations; ++i) rate = std::min(2 * reached, rate * seconds_of(model_, op) / seconds);
  }
  void set_bytes(OpKind kind, DType dtype, const char* name, double bytes, const std::function<void()>& run) {
    double seconds = 0;
    if (try_to_time(seconds, {.name = named(name, dtype), .bytes = bytes}, run))
      model_.rate(kind, dtype).bytes = bytes / seconds;
  }
  bool try_to_time(double& seconds, const MeasuredWork& work, const std::function<void()>& run) {
    return attempt(work.name, [&] { seconds = best_seconds(work, run); });
  }
  // Returns whether a measurement ended without an error. A device may lack a kernel or a dtype, or the memory for
  // operands: the rate then stays. After a fault no kernel runs, and nothing more can be measured.
  bool attempt(const std::string& what, const std::function<void()>& measurement) {
    try {
      measurement();
      return true;
    } catch (const c10::OutOfMemoryError& error) {
      short_of_memory_ = true;
      refuse(what, error.what_without_backtrace());
    } catch (const c10::Error& error) {
      refuse(what, error.what_without_backtrace());
    } catch (const MemoryUnavailable& error) {
      short_of_memory_ = true;
      refuse(what, error.what());
    } catch (const UserError& error) {
      if (faulted_) throw;
      refuse(what, error.what());
    }
    return false;
  }
  void refuse(const std::string& what, std::string reason) {
    reason = reason.substr(0, reason.find('\n'));
    try {
      backend_.synchronize_device();
    } catch (const std::exception&) {
      faulted_ = true;
      throw UserError(fmt::format("measuring {}: {}", what, reason), UserError::Kind::failure);
    }
    refused_.push_back(fmt::format("{}: {}", what, reason));
  }
  static Op op_of(const char* name, std::initializer_list<at::Tensor> operands) {
    Op op;
    op.name = name;
    for (const at::Tensor& each : operands)
      op.arguments.push_back({Argument::Kind::tensor,
                              false,
                              {{0, dtype_of(each.scalar_type()), 0, each.sizes().vec(), each.strides().vec()}}});
    return op;
  }
  static std::string named(const char* name, DType dtype) { return fmt::format("{} {}", name, name_of(dtype)); }

  // Returns the side of a square matmul that takes seconds_ at the known rate.
  int64_t side_of(DType dtype) const {
    const double flops = model_.rate(OpKind::product, dtype).flops;
    const auto side = static_cast<int64_t>(std::cbrt(std::max(1.0, flops) * seconds_ / 2)) / 128 * 128;
    const auto fits = static_cast<int64_t>(
        std::sqrt(static_cast<double>(bytes_) / (3.0 * static_cast<double>(element_bytes(dtype)))));
    return std::clamp<int64_t>(std::min(side, fits / 128 * 128), kMinSide, kMaxSide);
  }

  // Returns the elements of operands, `operands` of them, that take seconds_ to read or write at the known rate.
  int64_t count_of(DType dtype, int64_t operands) const {
    const double bytes =
        std::min(model_.rate(OpKind::streaming, DType::float32).bytes * seconds_, static_cast<double>(bytes_) / 2);
    return std::max<int64_t>(1 << 14, static_cast<int64_t>(bytes) / (operands * element_bytes(dtype)) / 8192 * 8192);
  }

  void measure(DType dtype) {
    const double element = static_cast<double>(element_bytes(dtype));
    attempt(named("pointwise ops", dtype), [&] {
      const int64_t count = count_of(dtype, 3);
      const at::Tensor a = at::ones({count}, options(dtype)), b = at::ones({count}, options(dtype));
      at::Tensor out = at::empty_like(a);
      set_bytes(OpKind::streaming, dtype, "add", 3 * static_cast<double>(count) * element,
                [&] { at::add_out(out, a, b); });
      const at::Tensor rows = a.view({-1, 2048}), weight = at::ones({2048}, options(dtype));
      set_bytes(OpKind::reduction, dtype, "norm", 2 * static_cast<double>(count) * element,
                [&] { ops::rms_norm(rows, weight, 1e-5); });
      set_bytes(OpKind::random, dtype, "random numbers", static_cast<double>(count) * element, [&] { out.uniform_(); });
    });
    for (const OpKind kind : {OpKind::product, OpKind::convolution, OpKind::attention, OpKind::loss_head})
      model_.rate(kind, dtype).bytes = model_.rate(OpKind::streaming, dtype).bytes;
    attempt(named("update", dtype), [&] {
      const int64_t count = count_of(dtype, 4);
      std::vector<at::Tensor> t;
      for (int i = 0; i < 4; ++i) t.push_back(at::zeros({count}, options(dtype)));
      const at::Tensor step = at::ones({}, options(DType::float32)),
                       rate = at::zeros({}, options(DType::float32).dtype(at::kDouble)),
                       no = at::zeros({}, options(DType::float32));
      // Each operand counts once, as in bytes_moved_by.
      set_bytes(OpKind::update, dtype, "update", 4 * static_cast<double>(count) * element, [&] {
        ops::adamw_({t[0], {}, {t[1]}}, {t[2]}, {t[3]}, step, {rate, step, no}, 0.9, 0.95, 0.1, 1e-8);
      });
    });
    const int64_t side = side_of(dtype);
    attempt(named("matmul", dtype), [&] {
      const at::Tensor a = random({side, side}, dtype), b = random({side, side}, dtype);
      at::Tensor out = at::empty_like(a);
      set_flops(OpKind::product, dtype, "matmul", op_of("aten::mm.out", {a, b, out}), [&] { at::mm_out(out, a, b); });
    });
    attempt(named("attention", dtype), [&] {
      // Not causal: each score that is counted is computed.
      const at::Tensor q = random({4, 16, std::max<int64_t>(128, side / 4), 64}, dtype);
      set_flops(OpKind::attention, dtype, "attention", op_of("plimsoll::attention", {q, q, q}),
                [&] { ops::attention(q, q, q, /*causal=*/false, 0); });
    });
    attempt(named("loss head", dtype), [&] {
      const int64_t width = std::max<int64_t>(64, side / 4);
      const at::Tensor x = random({side, width}, dtype).requires_grad_(true);
      const at::Tensor weight = random({4 * side, width}, dtype).requires_grad_(true);
      const at::Tensor targets = at::zeros({side}, options(dtype).dtype(at::kLong));
      const at::AutoGradMode with_gradients(true);
      constexpr const char* kHead = "plimsoll::linear_cross_entropy";
      Op op = op_of(kHead, {x, weight, targets});
      op.arguments.resize(7);
      op.call = std::make_shared<OpCall>(OpCall{c10::Dispatcher::singleton().findSchemaOrThrow(kHead, ""),
                                                {{}, {}, {}, int64_t{-100}, true, true, 0.0}});
      op.staged_bytes = ops::staged_bytes(op);
      set_flops(OpKind::loss_head, dtype, "loss head", std::move(op),
                [&] { ops::linear_cross_entropy(x, weight, targets); });
    });
  }

  void measure_launches() {
    constexpr int kCalls = 2000;
    attempt("calls", [&] {
      at::Tensor small = at::zeros({8}, options(DType::float32));
      const double seconds = best_seconds({"calls"}, [&] {
        for (int i = 0; i < kCalls; ++i) small.add_(1);
      });
      model_.overhead_seconds = seconds / kCalls;
    });
  }

  void measure_link() {
    if (backend_.shares_host_memory()) return;
    const int64_t bytes = std::min<int64_t>(int64_t{256} << 20, bytes_ / 2);
    double seconds = 0;
    const bool timed = try_to_time(seconds, {.name = "copy", .bytes = static_cast<double>(bytes)}, [&] {
      const auto engine = backend_.copy_engine();
      if (!device_) device_ = backend_.allocate_arena(bytes);
      if (!host_) host_ = backend_.allocate_host_arena(bytes);
      engine->wait_on_host(engine->start(device_->data(), host_->data(), static_cast<size_t>(bytes), {}, {}));
    });
    if (timed) set_host_link(model_, static_cast<double>(bytes) / seconds);
    device_.reset();
    host_.reset();
  }

  Backend& backend_;
  CostModel model_;
  std::vector<std::string> refused_;
  bool faulted_ = false, short_of_memory_ = false;
  const double seconds_;
  const int64_t bytes_;  // memory that the measurement may take
  std::unique_ptr<Arena> device_, host_;
};

}  // namespace

DeviceRates measure_device_rates(Backend& backend, CostModel known, double kernel_seconds) {
  return DeviceMeasurement(backend, std::move(known), kernel_seconds).run();
}

std::filesystem::path device_rates_file(const std::string& device_name) {
  const std::filesystem::path folder = measurements_folder();
  if (folder.empty()) return folder;
  std::string name;
  for (const char c : device_name) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '-';
  return folder / fmt::format("device-rates-{}.json", name);
}

bool store_device_rates(const std::string& device_name, const DeviceRates& measured) {
  const CostModel& model = measured.model;
  const std::filesystem::path file = device_rates_file(device_name);
  if (file.empty()) return false;
  nlohmann::json rates;
  for (int kind = 0; kind < kOpKinds; ++kind)
    for (int type = 0; type < kSpeedTypes; ++type)
      rates[kind][type] = {model.rates[kind][type].flops, model.rates[kind][type].bytes};
  const nlohmann::json json = {{"device", device_name},
                               {"machine", machine_name()},
                               {"method", kDeviceRatesMethod},
                               {"overhead_seconds", model.overhead_seconds},
                               {"host_link", model.host_link},
                               {"refused", measured.refused},
                               {"rates", rates}};
  std::error_code ignored;
  std::filesystem::create_directories(file.parent_path(), ignored);
  try {
    // Reasons are texts of drivers.
    write_file_atomically(file, json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
    return true;
  } catch (const UserError&) {  // a full disk: the next doctor measures again
    return false;
  }
}

std::optional<DeviceRates> stored_device_rates(const std::string& device_name, CostModel known) {
  std::ifstream stream(device_rates_file(device_name));
  const nlohmann::json json = nlohmann::json::parse(stream, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || json.value("device", nlohmann::json()) != device_name ||
      json.value("method", nlohmann::json()) != kDeviceRatesMethod ||
      json.value("machine", nlohmann::json()) != machine_name())
    return {};
  try {
    known.source = "measured";
    known.overhead_seconds = json.at("overhead_seconds").get<double>();
    set_host_link(known, json.at("host_link").get<double>());
    bool good = known.overhead_seconds > 0 && known.host_link >= 0;
    for (int kind = 0; kind < kOpKinds; ++kind)
      for (int type = 0; type < kSpeedTypes; ++type) {
        const nlohmann::json& rate = json.at("rates").at(kind).at(type);
        known.rates[kind][type] = {rate.at(0).get<double>(), rate.at(1).get<double>()};
        good = good && known.rates[kind][type].flops >= 0 && known.rates[kind][type].bytes >= 0;
      }
    if (!good) return {};
    return DeviceRates{std::move(known), json.at("refused").get<std::vector<std::string>>()};
  } catch (const nlohmann::json::exception&) {
    return {};
  }
}

namespace {

struct TwoLayers : torch::nn::Module {
  TwoLayers() {
    first = register_module("first", torch::nn::Linear(256, 1024));
    second = register_module("second", torch::nn::Linear(1024, 256));
  }
  torch::nn::Linear first{nullptr}, second{nullptr};
};

}  // namespace

DeviceWork try_device(const std::string& device) {
  constexpr int kSteps = 5;  // sequences of ops are captured from the third on
  Step step;
  step.model = [] { return std::make_shared<TwoLayers>(); };
  step.inputs = {{"x", {64, 256}, at::kFloat}};
  step.loss = [](torch::nn::Module& module, const StepInputs& in) {
    auto& layers = dynamic_cast<TwoLayers&>(module);
    return layers.second(at::gelu(layers.first(in["x"]))).sub(in["x"]).square().mean();
  };
  Training training(step, {.precision = Precision::bf16_mixed, .device = device});
  training.start();
  for (int i = 0; i < kSteps; ++i) training.step({{{"x", at::ones({64, 256})}}}, 1e-3);
  return training.device_work();
}

namespace {
constexpr const char* kDevices[] = {"cuda", "rocm", "mps"};
}  // namespace

void open_devices() {
  for (const char* device : kDevices) find_backend(device);
}

std::vector<DeviceReport> inspect_devices(bool again, bool nvidia_driver) {
  std::vector<DeviceReport> reports;
  for (const std::string device : kDevices) {
    DeviceReport report;
    report.device = device;
    Backend* const backend = find_backend(device);
    if (!backend) {
      if (device != "cuda" || !nvidia_driver) continue;
      try {
        backend_for(device);
      } catch (const UserError& error) {
        report.failure = error.what();
      }
      reports.push_back(std::move(report));
      continue;
    }
    report.name = backend->name();
    const DeviceSpec* const spec = find_device(report.name);
    report.catalogue = spec ? cost_model_of(*spec) : generic_cost_model();
    try {
      std::optional<DeviceRates> rates;
      if (!again) rates = stored_device_rates(report.name, report.catalogue);
      report.stored = rates.has_value();
      if (!rates) {
        rates = measure_device_rates(*backend, report.catalogue);
        report.measured_now = true;
        report.stored = !rates->short_of_memory && store_device_rates(report.name, *rates);
      }
      report.cost = std::move(rates->model);
      report.refused = std::move(rates->refused);
      report.work = try_device(device);
    } catch (const std::exception& error) {
      report.failure = error.what();
    }
    reports.push_back(std::move(report));
  }
  return reports;
}

}  // namespace plimsoll
