#include "ops/matmul_throughput.h"

#include <ATen/ATen.h>
#include <ATen/CPUFunctions.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/atomic_file.h"
#include "base/measurement.h"
#include "ops/cpu_capability.h"
#include "ops/libtorch_types.h"
#include "ops/products_cpu.h"
#include "plimsoll/error.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;

constexpr std::array kTypes{DType::float32, DType::bfloat16, DType::float16};

// The sizes of the forward matmul and of the weight's gradient of a linear layer.
constexpr int64_t kRows = 256, kDepth = 256, kColumns = 512;
constexpr double kProductFlops = 2 * 2.0 * kRows * kDepth * kColumns;
constexpr int64_t kSide = 16, kChannels = 16;
constexpr double kConvolutionFlops = 2.0 * 2 * kSide * kSide * kChannels * kChannels * 9;

// Maximum rounds. Each round tries every kind once, so that the tries of one kind are not adjacent, until two of its
// tries agree. A type without instructions takes 50 ms a try. On a busy machine the tries may never agree.
constexpr int kMaxRounds = 60;
constexpr double kMaxSeconds = 1;
// Seconds after which speeds whose tries did not agree are measured again: one day.
constexpr int64_t kSecondsOfUnsure = 24 * 3600;

int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

struct Work {
  std::string name;
  std::function<void()> run;
  double flops;
  double* rate;
  StableTiming tries;
};

void products_into(Tensor& out, Tensor& gradient, const Tensor& x, const Tensor& weight, bool blocks) {
  if (blocks) {
    product_in_blocks(out, {}, x, weight.t(), 0, 1);
    product_in_blocks(gradient, {}, out.t(), x, 0, 1);
  } else {
    at::cpu::mm_out(out, x, weight.t());
    at::cpu::mm_out(gradient, out.t(), x);
  }
}

// Returns true if all tries agreed. No try begins after kMaxSeconds; a kind that never ran gets the rate of the
// slowest.
bool measure(std::vector<Work>& all) {
  MeasuringMachine& machine = measuring_machine();
  const double start = machine.now();
  const auto is_over = [&] { return machine.now() - start > kMaxSeconds; };
  const auto timed = [&](Work& each) { return machine.time({each.name, each.flops}, each.run); };
  std::vector<double> first(all.size(), 0);  // seconds; the first run creates kernels and maps pages
  for (size_t i = 0; i < all.size() && !is_over(); ++i) first[i] = timed(all[i]);
  bool agreed = false;
  for (int round = 0; round < kMaxRounds && !agreed && !is_over(); ++round) {
    agreed = true;
    for (Work& each : all) {
      if (each.tries.converged()) continue;
      if (!is_over()) each.tries.add(timed(each));
      agreed = agreed && each.tries.converged();
    }
  }
  double slowest = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < all.size(); ++i) {
    const double seconds = all[i].tries.count() > 0 ? all[i].tries.shortest() : first[i];
    *all[i].rate = seconds > 0 ? all[i].flops / seconds : 0;
    if (seconds > 0) slowest = std::min(slowest, *all[i].rate);
  }
  for (Work& each : all)
    if (*each.rate == 0) *each.rate = slowest;
  return agreed;
}

struct Measured {
  MatmulThroughputs speeds;
  bool agreed;
};

Measured measured() {
  const at::NoGradGuard no_grad;
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  // One thread: no thread waits for another one that the machine's other work delays.
  struct OneThread {
    int before = at::get_num_threads();
    OneThread() { at::set_num_threads(1); }
    ~OneThread() { at::set_num_threads(before); }
  } const one_thread;
  MatmulThroughputs speeds;
  std::vector<Work> all;
  for (const DType dtype : kTypes) {
    MatmulThroughput& speed = speeds.of(dtype);
    const at::TensorOptions options = at::TensorOptions().dtype(scalar_type_of(dtype)).device(at::kCPU);
    const Tensor x = at::zeros({kRows, kDepth}, options), weight = at::zeros({kColumns, kDepth}, options);
    Tensor out = at::empty({kRows, kColumns}, options), gradient = at::empty({kColumns, kDepth}, options);
    const auto add = [&](const char* kernel, std::function<void()> run, double flops, double& rate) {
      all.push_back({fmt::format("{} {}", kernel, name_of(dtype)), std::move(run), flops, &rate, {}});
    };
    add(
        "libtorch matmul", [=]() mutable { products_into(out, gradient, x, weight, false); }, kProductFlops,
        speed.libtorch);
    if (dtype != DType::float32)
      add(
          "block matmul", [=]() mutable { products_into(out, gradient, x, weight, true); }, kProductFlops,
          speed.blocks);
    const Tensor image = at::zeros({2, kChannels, kSide, kSide}, options),
                 filter = at::zeros({kChannels, kChannels, 3, 3}, options);
    add(
        "libtorch convolution", [=] { at::conv2d(image, filter, {}, 1, 1); }, kConvolutionFlops, speed.convolution);
  }
  const bool agreed = measure(all);
  speeds.of(DType::float32).blocks = speeds.of(DType::float32).libtorch;
  return {speeds, agreed};
}

std::filesystem::path products_file() {
  const std::filesystem::path folder = cache_folder();
  if (folder.empty()) return folder;
  const std::string masks = instruction_masks_in_a_name();
  return folder / (masks.empty() ? "products.json" : fmt::format("products-{}.json", masks));
}

MatmulThroughputs known_or_measured() {
  const std::filesystem::path file = products_file();
  if (!file.empty()) {
    std::ifstream stream(file);
    const std::string text{std::istreambuf_iterator<char>(stream), {}};
    if (const auto known = products_of(text, unix_seconds())) return *known;
  }
  const auto [speeds, agreed] = measured();
  if (!file.empty()) {
    std::error_code ignored;
    std::filesystem::create_directories(file.parent_path(), ignored);
    try {
      write_file_atomically(file, products_text(speeds, agreed ? 0 : unix_seconds() + kSecondsOfUnsure));
    } catch (const UserError&) {  // a full disk, or a folder that is not ours: the next process measures again
    }
  }
  return speeds;
}

std::optional<bool>& forced() {
  static std::optional<bool> value = []() -> std::optional<bool> {
    const char* text = std::getenv("PLIMSOLL_16BIT_PRODUCTS");
    if (!text || !*text) return std::nullopt;
    if (std::string_view(text) == "float32") return true;
    if (std::string_view(text) == "libtorch") return false;
    throw UserError(fmt::format(
        "PLIMSOLL_16BIT_PRODUCTS is '{}'; it may be float32 (in float32 blocks) or libtorch (libtorch's own), or not "
        "set: as measured",
        text));
  }();
  return value;
}

double rounded(double ratio) {
  return std::exp2(std::round(4 * std::log2(ratio)) / 4);
}

}  // namespace

const MatmulThroughputs& matmul_throughputs() {
  static const MatmulThroughputs known = known_or_measured();
  return known;
}

std::string products_text(const MatmulThroughputs& speeds, int64_t until) {
  nlohmann::json json = {{"machine", machine_name()}};
  if (until > 0) json["until"] = until;
  for (const DType dtype : kTypes) {
    const MatmulThroughput& speed = speeds.of(dtype);
    json["flops_per_second"][std::string(name_of(dtype))] = {
        {"libtorch", speed.libtorch}, {"blocks", speed.blocks}, {"convolution", speed.convolution}};
  }
  return json.dump(1) + "\n";
}

std::optional<MatmulThroughputs> products_of(const std::string& text, int64_t now) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || json.value("machine", nlohmann::json()) != machine_name()) return {};
  try {
    if (json.contains("until")) {  // a clock that was set back does not extend the file's validity
      const int64_t until = json.at("until").get<int64_t>();
      if (now >= until || now < until - kSecondsOfUnsure) return {};
    }
    MatmulThroughputs speeds;
    for (const DType dtype : kTypes) {
      MatmulThroughput& speed = speeds.of(dtype);
      const nlohmann::json& each = json.at("flops_per_second").at(std::string(name_of(dtype)));
      speed = {each.at("libtorch").get<double>(), each.at("blocks").get<double>(),
               each.at("convolution").get<double>()};
      if (!(speed.libtorch > 0 && speed.blocks > 0 && speed.convolution > 0)) return {};
    }
    return speeds;
  } catch (const nlohmann::json::exception&) {
    return {};
  }
}

bool float32_products(DType dtype) {
  if (dtype != DType::bfloat16 && dtype != DType::float16) return false;
  if (forced()) return *forced();
  static const auto slow = [](DType each) {
    const MatmulThroughput& speed = matmul_throughputs().of(each);
    return speed.libtorch < kSlowMatmul * matmul_throughputs().of(DType::float32).libtorch &&
           speed.libtorch < speed.blocks;
  };
  static const bool bfloat16 = slow(DType::bfloat16), float16 = slow(DType::float16);
  return dtype == DType::bfloat16 ? bfloat16 : float16;
}

double relative_matmul_speed(DType dtype) {
  const MatmulThroughput& speed = matmul_throughputs().of(dtype);
  return rounded((float32_products(dtype) ? speed.blocks : speed.libtorch) /
                 matmul_throughputs().of(DType::float32).libtorch);
}

double relative_convolution_speed(DType dtype) {
  return rounded(matmul_throughputs().of(dtype).convolution / matmul_throughputs().of(DType::float32).convolution);
}

ProductsScope::ProductsScope(bool through_float32) : before_(forced()) {
  forced() = through_float32;
}
ProductsScope::~ProductsScope() {
  forced() = before_;
}

}  // namespace plimsoll::ops
