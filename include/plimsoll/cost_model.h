// Declares the cost model: rates of a device and its links, and the times that are predicted from them.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/trace.h"

namespace plimsoll {

struct Op;
struct Trace;
enum class Memory : uint8_t;

/// A class of ops that are limited by the same resource.
enum class OpKind : uint8_t {
  product,      ///< matrix multiplications
  convolution,  ///< convolutions and their backward
  attention,    ///< fused attention, forward and backward
  loss_head,    ///< chunked linear cross entropy
  streaming,    ///< ops that read and write each element about once
  reduction,    ///< norms and sums
  random,       ///< dropout and other draws
  update,       ///< fused optimizer steps
};
constexpr int kOpKinds = 8;
/// Returns the name of a kind of op.
std::string_view name_of(OpKind kind);

/// A pair of rates that ops of one kind and type reach. 0: this resource never limits.
struct OpRate {
  double flops = 0;  ///< arithmetic operations a second
  double bytes = 0;  ///< bytes a second, read and written
};

/// Number of types that differ in speed: 64-bit, 32-bit, bfloat16, float16.
constexpr int kSpeedTypes = 4;
/// Returns the index of `dtype` in CostModel::rates, from 0 to kSpeedTypes - 1.
int speed_type_of(DType dtype);

/// A GPU's division of work: ops that are several kernels, and matmuls that do not fill it.
struct GpuShape {
  bool is_gpu = false;            ///< false: a CPU; ops are one kernel, and the other fields do not count
  bool flash_attention = true;    ///< false: the scores of every attention go through memory
  int multiprocessors = 0;        ///< 0: not known, matmuls of every shape run at their rate
  double tile_seconds = 0;        ///< seconds from a tile's first load to its last store, without its arithmetic
  double attention_backward = 1;  ///< speed of attention's backward as a multiple of its forward's
};

/// A device's rates, and those of its links to host memory and disk. Times of ops and copies are predicted from them.
struct CostModel {
  std::string device;                                             ///< "this machine, 2 threads"; "NVIDIA RTX A6000"
  std::string source;                                             ///< "measured" | "catalogue" | "typical"
  std::array<std::array<OpRate, kSpeedTypes>, kOpKinds> rates{};  ///< [kind][speed_type_of(dtype)]
  GpuShape gpu;                                                   ///< not set for rates that were measured
  /// Relative uncertainty of the seconds of ops by kind: 0.1 means that two of three are within 10 %. 0: not known.
  std::array<double, kOpKinds> uncertainty{};
  double overhead_seconds = 0;  ///< fixed seconds of each op: launch, dispatch
  double host_link = 0;         ///< bytes a second between device and host, each way; 0: nothing can be offloaded there
  double host_link_duplex = 0;  ///< bytes a second each way while copies between device and host run both ways; 0: as
                                ///< host_link
  double disk_link = 0;         ///< bytes a second between device and disk, each way; 0: nothing can be offloaded there
  double peer_link = 0;         ///< bytes a second that a rank sends to the other ranks while it receives as many
  double peer_latency = 0;      ///< seconds of an exchange between ranks that moves nothing
  double host_bytes = 0;        ///< bytes a second that an op on the host reads and writes; 0: no op runs on the host
  /// true: copies cost the device's ops no time. false: the device's cores do both, so the op that starts a copy takes
  /// the copy's time too, and ops on the host take time of the device's cores.
  bool copies_overlap = true;
  bool exchanges_overlap = false;  ///< true: exchanges between ranks may overlap ops. false: the cores that run the ops
                                   ///< make them, or nothing is known of the link
  bool bfloat16 = true;            ///< true: the device computes in bfloat16; otherwise mixed precision is float16
  /// Measured speed of 16-bit matmuls as a multiple of float32's; 0: not measured.
  double bfloat16_matmul_speed = 0, float16_matmul_speed = 0;
  /// Measured seconds of an op; nullopt: predicted by the rates. Empty: no op was timed.
  std::function<std::optional<double>(const Op&)> measured_seconds;

  /// Returns the rates of ops of `kind` that compute in `dtype`.
  OpRate& rate(OpKind kind, DType dtype) { return rates[static_cast<int>(kind)][speed_type_of(dtype)]; }
  /// Returns the rates of ops of `kind` that compute in `dtype`.
  const OpRate& rate(OpKind kind, DType dtype) const { return rates[static_cast<int>(kind)][speed_type_of(dtype)]; }
};

/// Sustained bytes a second of a solid-state disk on four lanes of PCI Express 3. Used if the device's host is not
/// known.
constexpr double kTypicalDiskLink = 2e9;

/// Bytes a second that a host's processors read and write in a fused update. About half of what eight channels of
/// DDR4-3200 reach, most of what two channels of DDR5 reach. Used if the device's host is not known.
constexpr double kTypicalHostBytes = 60e9;

/// Returns the predicted seconds of one run of `op`: its measured time if there is one. Otherwise it is the overhead
/// plus the larger of its arithmetic and its traffic at the rates of its kind (Williams, Waterman and Patterson,
/// "Roofline", CACM 2009). On a GPU Op::staged_bytes are added, and matmuls are cut into tiles if its multiprocessors
/// are known (docs/predictions.md). An exchange between ranks (Op::link_bytes > 0) takes the overhead plus the larger
/// of exchange_seconds() and its traffic in the rank's memory.
double seconds_of(const CostModel& model, const Op& op);

/// Returns the relative uncertainty of the predicted seconds of a micro batch: 0.15 means that two of three predictions
/// are within 15 %. It is the mean over ops: a clock or a power limit makes errors of all kinds at once. 0: not known.
double step_uncertainty(const CostModel& model, const Trace& trace);

/// Returns the seconds of one copy of `bytes` bytes between device and host.
double copy_seconds(const CostModel& model, int64_t bytes);
/// Returns the seconds of one copy of `bytes` bytes between the device and `offload_memory`.
double copy_seconds(const CostModel& model, int64_t bytes, Memory offload_memory);

/// Returns the seconds of one exchange between ranks in which each rank sends `bytes` bytes to the others, without the
/// work of the ranks on their own memory. Returns 0 without a link (`peer_link` is 0).
double exchange_seconds(const CostModel& model, int64_t bytes);

/// Returns for each op of a segment the seconds from the segment's begin to the op's end, waits for copies included.
/// Empty if the trace does not have the segment.
std::vector<double> end_times(const CostModel& model, const Trace& trace, SegmentKind segment);

/// Returns the predicted seconds of a segment: its ops one after the other, and waits for copies that overlap them. 0
/// if the trace does not have the segment.
double segment_seconds(const CostModel& model, const Trace& trace, SegmentKind segment);

/// A summary of the exchanges between ranks in one training step, on one rank.
struct StepExchanges {
  int64_t count = 0;   ///< number of exchanges
  int64_t bytes = 0;   ///< bytes that this rank sends to the others
  double seconds = 0;  ///< predicted seconds of the exchanges
  double waited = 0;   ///< predicted seconds of these for which ops wait
};

/// Returns the exchanges of a step of `micro_batches` micro batches, at least 1. `ragged`: the last micro batch, one of
/// at least two, is smaller than the others. Segments count as in StepTime::step().
StepExchanges exchanges_of_step(const CostModel& model, const Trace& trace, int64_t micro_batches, bool ragged = false);

/// Returns round figures of a data center's GPU. Plans that compare choices use them if no device is known.
CostModel generic_cost_model();

}  // namespace plimsoll
