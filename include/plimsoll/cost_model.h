// How fast a device is, as far as the planner wants to know.
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

/// Ops that are alike in what limits them.
enum class OpKind : uint8_t {
  product,      ///< matrix products
  convolution,  ///< and its backward
  attention,    ///< fused attention, forward and backward
  loss_head,    ///< chunked linear cross entropy
  streaming,    ///< everything that reads and writes each element about once
  reduction,    ///< norms and sums
  random,       ///< dropout and other draws
  update,       ///< fused optimizer steps
};
constexpr int kOpKinds = 8;
/// Returns the name of a kind of op.
std::string_view name_of(OpKind kind);

/// What ops of one kind and type reach. 0: never limits.
struct OpRate {
  double flops = 0;  ///< arithmetic operations a second
  double bytes = 0;  ///< bytes a second, read and written
};

/// Types that differ in speed: 64-bit, 32-bit, bfloat16, float16.
constexpr int kSpeedTypes = 4;
/// Returns the index of `dtype` in CostModel::rates, from 0 to kSpeedTypes - 1.
int speed_type_of(DType dtype);

/// Rates of a device and of its links to host memory and disk, from which times of ops and copies are predicted.
struct CostModel {
  std::string device;                                             ///< "this machine, 2 threads"; "NVIDIA RTX A6000"
  std::string source;                                             ///< "measured" | "catalogue" | "typical"
  std::array<std::array<OpRate, kSpeedTypes>, kOpKinds> rates{};  ///< [kind][speed_type_of(dtype)]
  double overhead_seconds = 0;                                    ///< of each op, whatever it does: launch, dispatch
  double host_link = 0;        ///< bytes a second between device and host, each way; 0: nothing can be moved
  double disk_link = 0;        ///< likewise between device and disk; 0: nothing can be moved there
  double peer_link = 0;        ///< bytes a second that a rank sends to the other ranks while it receives as many
  double peer_latency = 0;     ///< seconds of an exchange between ranks that moves nothing
  double host_bytes = 0;       ///< bytes a second that an op on the host reads and writes; 0: none runs there
  bool copies_overlap = true;  ///< they cost the device's ops nothing; false: an op that starts one takes its time, and
                               ///< ops on the host theirs, because the device's cores do both
  bool exchanges_overlap = false;  ///< exchanges between ranks may run beside ops; false: the cores that run the ops
                                   ///< make them, or nothing is known of the link
  /// Seconds of ops that were timed; the others go by the rates. Empty: none were.
  std::function<std::optional<double>(const Op&)> timed;

  /// Returns the rates of ops of this kind and dtype.
  OpRate& rate(OpKind kind, DType dtype) { return rates[static_cast<int>(kind)][speed_type_of(dtype)]; }
  /// Returns the rates of ops of this kind and dtype.
  const OpRate& rate(OpKind kind, DType dtype) const { return rates[static_cast<int>(kind)][speed_type_of(dtype)]; }
};

/// What a solid-state disk on four lanes of PCI Express 3 reads and writes for long, in bytes a second: for devices
/// whose host is not known.
constexpr double kTypicalDiskLink = 2e9;

/// What the processors of a host read and write in a fused update, in bytes a second: about half of what eight channels
/// of DDR4-3200 reach, most of what two of DDR5 do. For devices whose host is not known.
constexpr double kTypicalHostBytes = 60e9;

/// Predicted seconds of one run of `op`: as it was timed, or the larger of its arithmetic and its traffic at the rates
/// of its kind, and the overhead (Williams, Waterman and Patterson, "Roofline", CACM 2009). An exchange between ranks
/// (Op::link_bytes > 0) takes the overhead and the larger of exchange_seconds() and its traffic in the rank's memory.
double seconds_of(const CostModel& model, const Op& op);

/// Seconds of one copy of so many bytes between device and host.
double copy_seconds(const CostModel& model, int64_t bytes);
/// The same between the device and `far`.
double copy_seconds(const CostModel& model, int64_t bytes, Memory far);

/// Returns the seconds of one exchange between ranks in which each rank sends `bytes` bytes to the others, without the
/// work of the ranks on their own memory. 0 without a link (`peer_link` is 0).
double exchange_seconds(const CostModel& model, int64_t bytes);

/// By op of a segment: seconds from the segment's begin to the op's end, waits for copies included. Empty without it.
std::vector<double> end_times(const CostModel& model, const Trace& trace, std::string_view segment);

/// Predicted seconds of a segment's ops, one after the other, and of waits for copies that run beside them. 0 without
/// the segment.
double segment_seconds(const CostModel& model, const Trace& trace, std::string_view segment);

/// The exchanges between ranks in one training step, on one rank.
struct StepExchanges {
  int64_t count = 0;   ///< exchanges
  int64_t bytes = 0;   ///< that this rank sends to the others
  double seconds = 0;  ///< predicted, of the exchanges
  double waited = 0;   ///< predicted, of these: for which ops wait
};

/// Returns the exchanges of a step of `micro_batches` micro batches, at least 1. `ragged`: the last micro batch, one of
/// at least two, is smaller than the others. Segments count as in StepTime::step().
StepExchanges exchanges_of_step(const CostModel& model, const Trace& trace, int64_t micro_batches, bool ragged = false);

/// Round figures of a data centre's GPU, for plans that compare choices where no device is known.
CostModel generic_cost_model();

}  // namespace plimsoll
