#include "device/kernel_scratch.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/measurement.h"
#include "base/process.h"
#include "device/available_memory.h"
#include "device/cpu_allocator.h"
#include "ops/libtorch_types.h"
#include "ops/matmul_throughput.h"
#include "ops/products_cpu.h"
#include "ops/workspace/matmul_estimate.h"
#include "ops/workspace/workspace.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"
#include "trace/trace_queries.h"

namespace plimsoll {

WorkspaceModel cpu_workspace_model(int threads, std::shared_ptr<MeasureAllowance> allowance) {
  return [threads, allowance = std::move(allowance)](const Op& op) {
    return ops::cpu_workspace_bytes(op, threads, [&](const ops::LibraryMatmul& product) {
      return matmul_scratch(product, threads, allowance.get()).bytes;
    });
  };
}

EstimatedScratch estimated_scratch(const Trace& trace, int threads, const MeasureAllowance* allowance) {
  EstimatedScratch result;
  std::set<std::vector<int64_t>> counted;  // by dtype, sizes and strides
  for (const Op& op : trace.ops)
    ops::cpu_workspace_bytes(op, threads, [&](const ops::LibraryMatmul& product) {
      const int64_t bytes = estimate_in_use(product, threads, allowance);
      if (bytes == 0) return int64_t{0};
      std::vector<int64_t> key = {static_cast<int64_t>(product.left.dtype), product.adds};
      for (const View* view : {&product.left, &product.right, &product.result}) {
        key.insert(key.end(), view->sizes.begin(), view->sizes.end());
        key.insert(key.end(), view->strides.begin(), view->strides.end());
      }
      result.matmuls += counted.insert(std::move(key)).second;
      result.bytes = std::max(result.bytes, bytes);
      return bytes;
    });
  return result;
}

WorkspaceModel cuda_workspace_model(int multiprocessors, bool flash_attention) {
  return [=](const Op& op) { return ops::cuda_workspace_bytes(op, multiprocessors, flash_attention); };
}

namespace {

int64_t storage_bytes(const View& view) {
  const ByteRange range = byte_range(view);
  return range.end - range.begin;
}

/// A tensor of zeros that uses memory only for pages that are written.
class Zeros {
 public:
  explicit Zeros(const View& view) : bytes_(static_cast<size_t>(storage_bytes(view))) {
    address_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address_ == MAP_FAILED)
      throw MemoryUnavailable(fmt::format("the machine has no address space for an operand of {}: {}",
                                          format_bytes(static_cast<int64_t>(bytes_)), std::strerror(errno)),
                              static_cast<int64_t>(bytes_));
    // Huge pages would also back the gaps between the rows of a part.
    if (static_cast<int64_t>(bytes_) > view.elements() * element_bytes(view.dtype))
      madvise(address_, bytes_, MADV_NOHUGEPAGE);
    tensor = at::from_blob(address_, view.sizes, view.strides, at::dtype(scalar_type_of(view.dtype)));
  }
  ~Zeros() { munmap(address_, bytes_); }
  Zeros(const Zeros&) = delete;
  Zeros& operator=(const Zeros&) = delete;

  at::Tensor tensor;

 private:
  size_t bytes_;
  void* address_;
};

/// A scope that sets libtorch's number of threads.
class Threads {
 public:
  explicit Threads(int threads) : before_(at::get_num_threads()) {
    if (threads != before_) at::set_num_threads(threads);
  }
  ~Threads() {
    if (at::get_num_threads() != before_) at::set_num_threads(before_);
  }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

int64_t measure(const ops::LibraryMatmul& product, int threads) {
  const at::NoGradGuard no_grad;
  const Threads as_many(threads);
  Zeros left(product.left), right(product.right), result(product.result);
  cpu_allocator::install();
  AllocationFrame frame;
  frame.begin({}, nullptr, 0);
  cpu_allocator::begin_op(frame);
  try {
    if (product.adds)
      at::addmm_out(result.tensor, result.tensor, left.tensor, right.tensor);
    else
      at::mm_out(result.tensor, left.tensor, right.tensor);
  } catch (...) {
    cpu_allocator::end_op();
    throw;
  }
  cpu_allocator::end_op();
  return frame.end().workspace_bytes;
}

// Returns the key of a matmul. It first determines the kernels of 16-bit matmuls: if that is not known yet, it is
// measured, and the memory of this measurement must not count as the matmul's scratch.
std::string key_of(const ops::LibraryMatmul& product, int threads) {
  std::string key = fmt::format("{}{}{}", threads, product.adds ? "+" : "",
                                ops::float32_products(product.left.dtype) ? "blocks" : "");
  for (const View* view : {&product.left, &product.right, &product.result}) {
    key += fmt::format("|{}", static_cast<int>(view->dtype));
    for (size_t d = 0; d < view->sizes.size(); ++d) key += fmt::format(",{}:{}", view->sizes[d], view->strides[d]);
  }
  return key;
}

/// A store of figures by key_of(), for all threads of this process.
struct Figures {
  std::mutex mutex;
  std::map<std::string, int64_t> measured;
  std::map<std::string, int64_t> estimated;             // estimates without an allowance; an allowance has its own
  std::map<std::pair<DType, int>, MatmulSpeed> speeds;  // by type and threads
};
Figures& figures() {
  static Figures all;
  return all;
}

std::optional<int64_t> find(const std::map<std::string, int64_t>& from, const std::string& key) {
  const auto found = from.find(key);
  return found == from.end() ? std::nullopt : std::optional(found->second);
}

int64_t measured(Figures& all, const ops::LibraryMatmul& product, int threads) {
  const std::string key = key_of(product, threads);
  if (const auto known = find(all.measured, key)) return *known;
  const int64_t bytes = measure(product, threads);
  all.measured.emplace(key, bytes);
  return bytes;
}

void require_matrices(const ops::LibraryMatmul& product) {
  for (const View* view : {&product.left, &product.right, &product.result})
    check(view->sizes.size() == 2, "a product of matrices has an operand that is none");
}

bool is_empty(const ops::LibraryMatmul& product) {
  return product.result.elements() == 0 || product.left.elements() == 0;
}

// Flops per second of a thread, if the type was not measured.
constexpr double kUnmeasuredSpeed = 20e9;
// Factor on the measured speed: large operands and new pages make a matmul slower.
constexpr double kPartOfMeasuredSpeed = 0.5;

double expected_flops_per_second(DType dtype, int threads) {
  const int cores = usable_cores();
  const double one = dtype == DType::float32 || dtype == DType::bfloat16 || dtype == DType::float16
                         ? kPartOfMeasuredSpeed * ops::matmul_throughputs().of(dtype).libtorch
                         : kUnmeasuredSpeed;
  return one * std::min(threads, cores);
}

// The largest part of the remaining time that one matmul may take.
constexpr double kPartOfTime = 1.0 / 2;
// The largest part that the parts of one matmul may take together.
constexpr double kPartOfTimeForParts = 1.0 / 4;
// The largest part of the remaining time that a matmul may take which is run to measure the speed.
constexpr double kPartOfTimeForSpeed = 1.0 / 16;
// A matmul may run if one of at least this part of its flops was measured.
constexpr double kPartOfFlops = 1.0 / 64;
// Otherwise it may take this many expected seconds.
constexpr double kUntriedSeconds = 0.01;
// A shorter run does not measure speed: it is overhead, or its figure was known already.
constexpr double kMinRunSeconds = 50e-6;
// A part of a matmul may take 1 / kPartOfMemory of the memory: its rows may take more pages than they fill, and its
// scratch is less than another quarter.
constexpr int64_t kPartOfMemory = 4;

int64_t measurement_bytes(const ops::LibraryMatmul& product) {
  return product_bytes(product) + matmul_scratch_bound(product);
}

/// A runner of matmuls within an allowance, which measures their speed.
class LimitedMatmuls {
 public:
  LimitedMatmuls(MatmulSpeed& speed, MeasureAllowance& allowance, const ops::MatmulScratch& measure)
      : speed_(speed), allowance_(allowance), measure_(measure) {}

  double left() const { return allowance_.seconds_left(); }
  double seconds(const ops::LibraryMatmul& product) const { return product_flops(product) / speed_.flops_per_second; }

  /// Returns true if a matmul of at least kPartOfFlops of its flops was measured.
  bool is_tried(const ops::LibraryMatmul& product) const {
    return product_flops(product) * kPartOfFlops <= speed_.measured_flops;
  }
  bool has_time(const ops::LibraryMatmul& product, double part) const {
    if (left() <= 0) return false;
    if (std::isinf(left())) return true;
    const double most = is_tried(product) ? left() * part : std::min(kUntriedSeconds, left() * kPartOfTimeForSpeed);
    return seconds(product) <= most;
  }
  bool has_memory(int64_t bytes) const { return allowance_.allows(bytes, 0); }

  int64_t run(const ops::LibraryMatmul& product) {
    const MeasureAllowance::Charge charge(&allowance_);
    const double flops = product_flops(product);
    int64_t bytes = 0;
    const double taken = measuring_machine().time(
        {fmt::format("libtorch matmul {}", name_of(product.left.dtype)), flops}, [&] { bytes = measure_(product); });
    if (taken >= kMinRunSeconds && 2 * flops >= speed_.measured_flops) {
      speed_.flops_per_second = flops / taken;
      speed_.measured_flops = std::max(speed_.measured_flops, flops);
    }
    return bytes;
  }

  /// Runs parts of `product`, small ones first, until its speed is known.
  void try_parts(const ops::LibraryMatmul& product) {
    for (auto size = kEstimateSizes.rbegin(); size != kEstimateSizes.rend() && !is_tried(product); ++size) {
      const ops::LibraryMatmul part = product_part(product, *size);
      if (product_flops(part) <= speed_.measured_flops) continue;
      if (!has_time(part, kPartOfTimeForSpeed) || !has_memory(kPartOfMemory * product_bytes(part))) return;
      run(part);
    }
  }

 private:
  MatmulSpeed& speed_;
  MeasureAllowance& allowance_;
  const ops::MatmulScratch& measure_;
};

}  // namespace

int64_t measured_matmul_scratch(const ops::LibraryMatmul& product, int threads) {
  require_matrices(product);
  if (is_empty(product)) return 0;
  Figures& all = figures();
  const std::lock_guard lock(all.mutex);
  return measured(all, product, threads);
}

MatmulScratchFigure matmul_scratch_within(const ops::LibraryMatmul& product, MatmulSpeed& speed,
                                          MeasureAllowance& allowance, const ops::MatmulScratch& measure) {
  LimitedMatmuls matmuls(speed, allowance, measure);
  const bool has_memory = matmuls.has_memory(measurement_bytes(product));
  if (has_memory && matmuls.has_time(product, kPartOfTime)) return {matmuls.run(product), false};
  if (!matmuls.is_tried(product)) {
    matmuls.try_parts(product);
    if (has_memory && matmuls.has_time(product, kPartOfTime)) return {matmuls.run(product), false};
  }
  for (const int64_t size : kEstimateSizes) {
    const double most = matmuls.left() * (size == kMinEstimateSize ? kPartOfTime : kPartOfTimeForParts);
    double expected = 0;
    const auto part = [&](const ops::LibraryMatmul& each) -> std::optional<int64_t> {
      expected += matmuls.seconds(each);
      if (expected > most || !matmuls.has_time(each, kPartOfTime) ||
          !matmuls.has_memory(kPartOfMemory * product_bytes(each)))
        return std::nullopt;
      return matmuls.run(each);
    };
    if (const auto bytes = estimated_matmul_scratch(product, size, part)) return {*bytes, true};
  }
  return {matmul_scratch_bound(product), true};
}

MatmulScratchFigure matmul_scratch(const ops::LibraryMatmul& product, int threads, MeasureAllowance* allowance) {
  require_matrices(product);
  if (is_empty(product)) return {};
  const View &left = product.left, &right = product.right;
  if (ops::float32_products(left.dtype) && right.dtype == left.dtype && product.result.dtype == left.dtype) {
    const int64_t bytes = ops::matmul_scratch(left.sizes[0], left.sizes[1], right.sizes[1]);
    return {(bytes + 63) / 64 * 64, false};
  }
  const std::string key = key_of(product, threads);
  Figures& all = figures();
  const std::lock_guard lock(all.mutex);
  if (const auto known = find(all.measured, key)) return {*known, false};
  std::optional<MeasureAllowance> unlimited;
  MeasureAllowance* const given = allowance;
  if (given) {
    if (const auto known = given->estimate(key)) return {*known, true};
  } else {
    // The system does not refuse pages of a result for lack of memory; it ends the program. So the available memory is
    // the limit.
    const int64_t bytes = current_host_memory().value_or(std::numeric_limits<int64_t>::max());
    allowance = &unlimited.emplace(MeasureLimits{bytes, std::numeric_limits<double>::infinity()});
  }
  MatmulSpeed& speed = all.speeds[{left.dtype, threads}];
  if (speed.flops_per_second == 0) speed.flops_per_second = expected_flops_per_second(left.dtype, threads);
  const MatmulScratchFigure figure = matmul_scratch_within(
      product, speed, *allowance, [&](const ops::LibraryMatmul& each) { return measured(all, each, threads); });
  if (figure.is_estimate && given) given->keep_estimate(key, figure.bytes);
  if (figure.is_estimate && !given) all.estimated.insert_or_assign(key, figure.bytes);
  return figure;
}

int64_t estimate_in_use(const ops::LibraryMatmul& product, int threads, const MeasureAllowance* allowance) {
  if (is_empty(product)) return 0;
  const std::string key = key_of(product, threads);
  Figures& all = figures();
  const std::lock_guard lock(all.mutex);
  if (find(all.measured, key)) return 0;
  return (allowance ? allowance->estimate(key) : find(all.estimated, key)).value_or(0);
}

}  // namespace plimsoll
