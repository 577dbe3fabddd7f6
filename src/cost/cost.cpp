#include "cost/cost.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "cost/operators.h"

namespace plimsoll {

std::string_view name_of(OpKind kind) {
  switch (kind) {
    case OpKind::product:
      return "product";
    case OpKind::convolution:
      return "convolution";
    case OpKind::attention:
      return "attention";
    case OpKind::loss_head:
      return "loss_head";
    case OpKind::streaming:
      return "streaming";
    case OpKind::reduction:
      return "reduction";
    case OpKind::random:
      return "random";
    case OpKind::update:
      return "update";
  }
  return "unknown";
}

int speed_type_of(DType dtype) {
  switch (dtype) {
    case DType::float64:
    case DType::complex128:
      return 0;
    case DType::bfloat16:
      return 2;
    case DType::float16:
      return 3;
    default:
      return 1;
  }
}

DType compute_type_of(const Op& op) {
  DType type = DType::float32;
  bool found = false;
  // A matmul that adds to its first operand computes in the type of its factors.
  bool is_sum = op.name.starts_with("aten::addmm") || op.name.starts_with("aten::baddbmm");
  for_each_view(op, [&](const View& view, bool) {
    if (found || std::exchange(is_sum, false) || view.elements() <= 1) return;
    switch (view.dtype) {
      case DType::float16:
      case DType::bfloat16:
      case DType::float32:
      case DType::float64:
        type = view.dtype;
        found = true;
        break;
      default:
        break;
    }
  });
  return type;
}

namespace {

// Tiles of a matmul's result that a multiprocessor computes (NVIDIA, "Matrix Multiplication Background User's Guide"),
// largest first. A smaller tile reads more operands for its arithmetic: `speed` is rows x columns / (rows + columns),
// relative to the largest.
struct Tile {
  double rows, columns, speed;
};
constexpr Tile kTiles[] = {{128, 128, 1}, {128, 64, 2.0 / 3}, {64, 128, 2.0 / 3}, {64, 64, 0.5}};
// Least depth of a tile whose sum is divided among several multiprocessors.
constexpr double kLeastDepth = 512;

// Returns the seconds of a matmul on a GPU: the tiles are computed in waves of one tile for each multiprocessor.
// `bytes` is the memory's rate, which sums of divided tiles use.
double tiled_seconds(const GpuShape& gpu, const OpRate& rate, const Matmul& matmul) {
  double best = std::numeric_limits<double>::infinity();
  for (const Tile& tile : kTiles) {
    const double tiles = matmul.batch * std::ceil(matmul.rows / tile.rows) * std::ceil(matmul.columns / tile.columns);
    for (double parts = 1; parts == 1 || (parts <= 8 && matmul.depth / parts >= kLeastDepth); parts *= 2) {
      const double waves = std::ceil(tiles * parts / gpu.multiprocessors);
      const double flops = 2 * tile.rows * tile.columns * matmul.depth / parts;
      const double sums = parts == 1 ? 0 : 2 * 4 * parts * matmul.batch * matmul.rows * matmul.columns;
      best = std::min(best, waves * (flops * gpu.multiprocessors / (rate.flops * tile.speed) + gpu.tile_seconds) +
                                sums / rate.bytes);
    }
    if (tiles >= 8 * gpu.multiprocessors) break;  // smaller tiles cannot be faster
  }
  return best;
}

// Operations of a float32 matmul that a CPU computes in the time in which it dequantizes a value: both depend on its
// vectors and its clock. One thread of an AMD EPYC with AVX2 takes 0.16 ns to make a float32 of a value of NF4, and
// 0.28 ns to make a bfloat16; of int8 0.13 and 0.30 ns; next to 66 GFLOP/s, so 11 and 18, and 9 and 20. Whole steps
// are nearest to what stands here (docs/predictions.md).
constexpr double kFlopsForNf4 = 15, kFlopsForInt8 = 10;

// Returns the seconds in which a CPU dequantizes an op's weight; 0 if it has none. Other kernels between matmuls are in
// the rates that were measured.
double dequantize_seconds(const CostModel& model, const Op& op) {
  if (!op.name.starts_with("plimsoll::quantized_linear")) return 0;
  const std::optional<Matmul> matmul = matmul_of(op);
  const double flops = model.rate(OpKind::product, DType::float32).flops;
  if (!matmul || flops <= 0) return 0;
  const bool int8 = op.arguments[1].views[0].dtype == DType::int8;
  return matmul->depth * matmul->columns * (int8 ? kFlopsForInt8 : kFlopsForNf4) / flops;
}

// Returns the seconds of an op's arithmetic.
double arithmetic_seconds(const CostModel& model, const Op& op, OpKind kind, const OpRate& rate) {
  if (rate.flops <= 0) return 0;
  if (model.gpu.multiprocessors > 0 && kind == OpKind::product)
    if (const std::optional<Matmul> matmul = matmul_of(op)) return tiled_seconds(model.gpu, rate, *matmul);
  if (model.gpu.is_gpu && kind == OpKind::attention && op.name.find("backward") != std::string::npos)
    return op.flops / (rate.flops * model.gpu.attention_backward);
  return op.flops / rate.flops;
}

// Returns the bytes that a GPU reads and writes between the op's matmuls.
double bytes_between_matmuls(const GpuShape& gpu, const Op& op, OpKind kind) {
  const double bytes = static_cast<double>(op.staged_bytes);
  return kind == OpKind::attention && !gpu.flash_attention ? std::max(bytes, score_bytes_of(op)) : bytes;
}

}  // namespace

double copy_seconds(const CostModel& model, int64_t bytes) {
  return copy_seconds(model, bytes, Memory::host);
}

double copy_seconds(const CostModel& model, int64_t bytes, Memory offload_memory) {
  const double link = offload_memory == Memory::disk ? model.disk_link : model.host_link;
  return link > 0 ? static_cast<double>(bytes) / link : std::numeric_limits<double>::infinity();
}

double seconds_of(const CostModel& model, const Op& op) {
  if (op.copy == CopyStage::wait) return 0;  // a wait takes no time by itself; its delay depends on the ops before it
  if (op.copy == CopyStage::start)
    return model.overhead_seconds +
           (model.copies_overlap ? 0 : copy_seconds(model, op.bytes_moved / 2, op.offload_memory));
  if (op.on_host && model.copies_overlap)
    return model.host_bytes > 0 ? model.overhead_seconds + static_cast<double>(op.bytes_moved) / model.host_bytes
                                : std::numeric_limits<double>::infinity();
  if (op.exchange == CopyStage::wait) return 0;  // as for copies
  if (op.exchange == CopyStage::start) return model.overhead_seconds;
  if (op.link_bytes > 0) return seconds_of_exchange(model, op);
  if (model.measured_seconds)
    if (const std::optional<double> seconds = model.measured_seconds(op)) return *seconds;
  const OpKind kind = kind_of(op);
  const OpRate& rate = model.rate(kind, compute_type_of(op));
  double seconds = arithmetic_seconds(model, op, kind, rate);
  if (rate.bytes > 0) {
    seconds = std::max(seconds, static_cast<double>(op.bytes_moved) / rate.bytes);
    seconds +=
        model.gpu.is_gpu ? bytes_between_matmuls(model.gpu, op, kind) / rate.bytes : dequantize_seconds(model, op);
  }
  return model.overhead_seconds + seconds;
}

double step_uncertainty(const CostModel& model, const Trace& trace) {
  double total = 0, uncertain = 0;
  const Segment* const micro = trace.segment(SegmentKind::micro);
  const size_t begin = micro ? micro->begin : 0, end = micro ? micro->end : trace.ops.size();
  for (size_t i = begin; i < end; ++i) {
    const Op& op = trace.ops[i];
    if (op.copy != CopyStage::none || op.exchange != CopyStage::none || op.link_bytes > 0 || op.on_host) continue;
    const double seconds = seconds_of(model, op);
    uncertain += model.uncertainty[static_cast<int>(kind_of(op))] * seconds;
    total += seconds;
  }
  return total > 0 ? uncertain / total : 0;
}

double segment_seconds(const CostModel& model, const Trace& trace, SegmentKind kind) {
  const std::vector<double> ends = end_times(model, trace, kind);
  return ends.empty() ? 0 : ends.back();
}

std::vector<double> end_times(const CostModel& model, const Trace& trace, SegmentKind kind) {
  const Segment* segment = trace.segment(kind);
  std::vector<double> ends;
  if (!segment) return ends;
  ends.reserve(segment->end - segment->begin);
  SegmentClock clock(model, trace);
  for (int32_t i = segment->begin; i < segment->end; ++i) {
    clock.run(trace.ops[i]);
    ends.push_back(clock.now());
  }
  return ends;
}

double exchange_seconds(const CostModel& model, int64_t bytes) {
  return model.peer_link > 0 ? model.peer_latency + static_cast<double>(bytes) / model.peer_link : 0;
}

double seconds_of_exchange(const CostModel& model, const Op& op) {
  const OpRate& rate = model.rate(OpKind::streaming, compute_type_of(op));
  const double local = rate.bytes > 0 ? static_cast<double>(op.bytes_moved) / rate.bytes : 0;
  return model.overhead_seconds + std::max(local, exchange_seconds(model, op.link_bytes));
}

StepExchanges exchanges_of_step(const CostModel& model, const Trace& trace, int64_t micro_batches, bool ragged) {
  StepExchanges all;
  const auto add = [&](SegmentKind kind, int64_t times) {
    const Segment* const segment = trace.segment(kind);
    if (!segment) return;
    SegmentClock clock(model, trace);
    for (int32_t i = segment->begin; i < segment->end; ++i) {
      const Op& op = trace.ops[i];
      clock.run(op);
      if (op.link_bytes == 0) continue;
      all.count += times;
      all.bytes += times * op.link_bytes;
      all.seconds += static_cast<double>(times) * seconds_of_exchange(model, op);
    }
    all.waited += static_cast<double>(times) * clock.waited();
  };
  add(SegmentKind::micro, 1);
  if (micro_batches < 2) {
    add(SegmentKind::norms, 1);
    add(SegmentKind::update, 1);
    return all;
  }
  const bool last = trace.segment(SegmentKind::last) != nullptr;
  add(SegmentKind::accumulate, micro_batches - 2);
  add(ragged ? SegmentKind::remainder : last ? SegmentKind::last : SegmentKind::accumulate, 1);
  add(last ? SegmentKind::finish : SegmentKind::update, 1);
  return all;
}

namespace {
// Speed with copies both ways, as a multiple of that one way, above which the difference is rounding.
constexpr double kSameSpeed = 1 - 1e-9;
}  // namespace

void CopyLinks::start(BufferId target, bool into_device, bool on_host, double now, double seconds) {
  const int direction = into_device ? 1 : 0;
  if (both_ways_ > kSameSpeed) {
    ends_[target] = free_[direction] = std::max(free_[direction], now) + seconds;
    return;
  }
  ends_[target] = kNotEnded;
  queues_[direction].push_back({target, on_host, now, seconds});
}

void CopyLinks::run_to_next_event() {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::array<double, 2> begins{};
  for (int i = 0; i < 2; ++i) begins[i] = queues_[i].empty() ? kNever : std::max(now_, queues_[i].front().ready);
  const double begin = std::min(begins[0], begins[1]), later = std::max(begins[0], begins[1]);
  const bool both = begin == later;
  const double speed = both && queues_[0].front().on_host && queues_[1].front().on_host ? both_ways_ : 1;
  const auto runs = [&](int i) { return begins[i] <= begin; };
  double end = both ? kNever : later;  // until then the speeds hold
  for (int i = 0; i < 2; ++i)
    if (runs(i)) end = std::min(end, begin + queues_[i].front().seconds / speed);
  for (int i = 0; i < 2; ++i) {
    if (!runs(i)) continue;
    Copy& copy = queues_[i].front();
    if (end < begin + copy.seconds / speed) {
      copy.seconds -= (end - begin) * speed;
    } else {
      ends_[copy.target] = end;
      queues_[i].pop_front();
    }
  }
  now_ = end;
}

double CopyLinks::end_of(BufferId target) {
  const auto found = ends_.find(target);
  if (found == ends_.end()) return 0;
  while (found->second == kNotEnded) run_to_next_event();
  return found->second;
}

SegmentClock::SegmentClock(const CostModel& model, const Trace& trace)
    : model_(model),
      trace_(trace),
      copies_(model.host_link_duplex > 0 ? model.host_link_duplex / model.host_link : 1) {}

void SegmentClock::run(const Op& op) {
  if (op.link_bytes > 0 || op.exchange != CopyStage::none) return run_exchange(op);
  now_ += seconds_of(model_, op);
  if (op.copy == CopyStage::none) return;
  const BufferId target = target_of(op);
  if (op.copy == CopyStage::wait) now_ = std::max(now_, copies_.end_of(target));
  if (op.copy == CopyStage::start && model_.copies_overlap)
    copies_.start(target, trace_.buffers[target].on_device(), op.offload_memory == Memory::host, now_,
                  copy_seconds(model_, op.bytes_moved / 2, op.offload_memory));
}

void SegmentClock::run_exchange(const Op& op) {
  const double begin = now_;
  switch (op.exchange) {
    case CopyStage::start:
      now_ += seconds_of(model_, op);
      exchanged_[target_of(op)] = exchanges_free_ = std::max(exchanges_free_, now_) + seconds_of_exchange(model_, op);
      return;
    case CopyStage::wait:
      if (const auto found = exchanged_.find(target_of(op)); found != exchanged_.end())
        now_ = std::max(now_, found->second);
      break;
    case CopyStage::none:  // an exchange without overlap runs after those in progress
      now_ = std::max(now_, exchanges_free_) + seconds_of_exchange(model_, op);
      break;
  }
  waited_ += now_ - begin;
}

}  // namespace plimsoll
