#include "run/machine_rates.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/measurement.h"
#include "device/pages.h"
#include "ops/attention/attention.h"
#include "ops/layers/rms_norm.h"
#include "ops/loss/linear_cross_entropy_cpu.h"
#include "ops/optimizer/ops.h"

namespace plimsoll {
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
    // The whole square of scores counts, as in flops_of.
    model.rate(OpKind::attention, dtype).flops = flops_rate(named("attention"), 2.0 * 2 * 8 * 512 * 512 * 64,
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
