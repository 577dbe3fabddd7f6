// Declares the trace: the record of one training step, its element types, and the lifetimes of its buffers.
//
// It depends on no device and not on libtorch.
//
// One trace holds everything that ever runs in the arena: one sequence of ops, cut into segments.
//
//     initialize | [norms] | micro | accumulate | remainder | [last] | update | [finish] | evaluate
//
// A training step of k micro batches runs `micro` once, `accumulate` k - 1 times and `update` once. If its last micro
// batch is smaller than the others, `remainder` runs instead of the last `accumulate`. The pass update_in_backward
// makes the segments in brackets: `norms` runs before `micro`. With several micro batches `last` replaces the last
// `accumulate`, and `finish` replaces `update`. All segments are in one sequence, so one liveness analysis and one
// placement serve them all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

/// Type of a tensor's elements.
enum class DType : uint8_t {
  float32,
  float64,
  float16,
  bfloat16,
  int64,
  int32,
  int16,
  int8,
  uint8,
  boolean,
  complex64,
  complex128,
};

/// Returns the bytes of one element.
int64_t element_bytes(DType dtype);

/// Returns the name of a dtype: "float32", "bfloat16", "int64", "bool", …
std::string_view name_of(DType dtype);

/// Index of a buffer in Trace::buffers.
using BufferId = int32_t;
constexpr BufferId kNoBuffer = -1;

/// Role of a buffer in the training step.
enum class Role : uint8_t { parameter, gradient, optimizer_state, activation, input, temporary, workspace };
/// Returns the name of a role.
std::string_view name_of(Role role);

/// A memory that can hold a buffer, the device's first. Each memory has its own arena.
enum class Memory : uint8_t { device, host, disk };
constexpr int kMemories = 3;
/// Returns the name of a memory.
std::string_view name_of(Memory memory);

/// A range of memory that operators write and read. A view of a buffer is not a buffer.
struct Buffer {
  int64_t bytes = 0;
  Role role = Role::temporary;
  bool persistent = false;  ///< keeps its bytes from one segment to the next: parameters, state, inputs
  bool output = false;      ///< read by the host after its segment has run: live until the end of the trace
  /// Name of the contents: "layers.3.attention.query.weight", "gradient of …", or the op that made it.
  std::string label;
  Memory memory = Memory::device;  ///< not `device`: only copies use it and, in host memory, ops that run on the host

  /// Returns whether the buffer is in the device's memory.
  bool on_device() const { return memory == Memory::device; }
};

/// An operand's position in its buffer: `sizes` and `strides` in elements, `offset` in elements from the buffer's
/// start.
struct View {
  BufferId buffer = kNoBuffer;  ///< kNoBuffer: an undefined (optional, absent) tensor
  DType dtype = DType::float32;
  int64_t offset = 0;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;

  /// Returns the number of elements: the product of the sizes.
  int64_t elements() const;
  /// Compares all fields.
  bool operator==(const View&) const = default;
};

/// Part of the training step that an op belongs to.
enum class Phase : uint8_t { initialize, forward, backward, update, evaluate };
/// Returns the name of a phase.
std::string_view name_of(Phase phase);

/// An argument of a recorded call, in schema order. Constants are kept in OpCall.
struct Argument {
  /// Kind of an argument.
  enum class Kind : uint8_t { constant, tensor, tensor_list };
  Kind kind = Kind::constant;
  bool written = false;     ///< true: the op writes into these views, in place or as `out`
  std::vector<View> views;  ///< one for a tensor, any number for a list, none for a constant
};

/// Stage of a copy between the device and another memory, which overlaps other ops. One op starts a copy, another waits
/// until it is done. Both have two arguments: the target (written by the start, read by the wait) and the source.
/// Between them no other op touches the target or writes to the source. Copies in one direction are done in the order
/// in which they were started.
enum class CopyStage : uint8_t { none, start, wait };

/// Opaque: the parts of a call that only libtorch needs for replay: operator handle and constant arguments
/// (src/ops/libtorch_types.h).
struct OpCall;

/// A recorded call of an operator, or a copy between two memories.
struct Op {
  std::string name;  ///< "aten::mm.out"
  std::vector<Argument> arguments;
  std::vector<View> results;  ///< outputs that the kernel makes itself, each a whole new buffer, in schema order; an
                              ///< output that is an argument written in place has no entry here
  Phase phase = Phase::forward;
  int32_t module = 0;       ///< index in Trace::modules of the module that made the call
  int64_t random_id = -1;   ///< >= 0: the op draws random numbers; the same id draws the same numbers within a step
  double flops = 0;         ///< arithmetic operations; a multiply-add counts as two
  int64_t bytes_moved = 0;  ///< bytes read and written, each operand once
  /// Bytes that a GPU reads and writes between the op's matmuls, in kernels of their own: dequantized weights, logits,
  /// scores of attention. 0: the op is one kernel.
  int64_t staged_bytes = 0;
  int64_t link_bytes = 0;            ///< bytes that this rank sends to other ranks; 0: the op is no exchange
  int64_t workspace_bytes = 0;       ///< scratch bytes of the kernel on the device planned for
  bool recomputed = false;           ///< second run of a forward op, inserted by a pass
  bool on_host = false;              ///< runs on the host, with operands and scratch in host memory; set by a pass
  CopyStage copy = CopyStage::none;  ///< not `none`: inserted by a pass, without `call`
  /// Stage of an exchange between ranks that overlaps the ops after it; set by a pass. The op with `start` is the
  /// exchange. The op with `wait` has no `call`; its arguments are the exchange's target and its source. Between them
  /// no op touches the target or writes to the source. Exchanges are done in the order in which they were started.
  CopyStage exchange = CopyStage::none;
  Memory offload_memory = Memory::host;  ///< for a copy: the memory on the other side, host or disk
  std::shared_ptr<const OpCall> call;
};

/// Returns the constant arguments of `op` that differ from the operator's defaults, as text: "dim=1, keepdim=True".
std::string describe_constants(const Op& op);

/// Kind of a segment, in the order above. A trace has at most one segment of each kind.
enum class SegmentKind : uint8_t { initialize, norms, micro, accumulate, remainder, last, update, finish, evaluate };
/// Returns the name of a segment in messages, files and listings: "initialize", "norms", …
std::string_view name_of(SegmentKind kind);

/// A range of ops, [begin, end), that run as one.
struct Segment {
  SegmentKind kind = SegmentKind::micro;
  int32_t begin = 0;
  int32_t end = 0;
};

/// A range of ops in segment `update` that passes/update_in_backward may move: the work for one parameter, or for all.
struct UpdatePiece {
  /// Kind of a piece.
  enum class Kind : uint8_t {
    begin,   ///< sets the step's scalars
    norm,    ///< computes the norm of one parameter's gradient, and whether it is finite
    total,   ///< computes the norm of all gradients from those of each
    clip,    ///< computes the divisor of the gradients from the norm of all; absent if updates do not depend on it
    update,  ///< updates one parameter
    finish,  ///< counts the step
  };
  Kind kind = Kind::begin;
  BufferId parameter = kNoBuffer;  ///< parameter of a norm or an update
  BufferId gradient = kNoBuffer;   ///< gradient of a norm or an update
  int32_t begin = 0, end = 0;      ///< ops [begin, end)
};

/// A tensor with a name for callers.
struct NamedView {
  std::string name;
  View view;
  /// For a flat view of this rank's slice: sizes of the whole, contiguous tensor that the slices of all ranks make, one
  /// after the other, without the padding at its end. Empty: the view is the whole tensor.
  std::vector<int64_t> whole_sizes = {};
};

/// A buffer's contents from the start: those of a tensor that the step used directly.
struct ConstantData {
  BufferId buffer = kNoBuffer;
  std::vector<std::byte> bytes;
};

/// Smallest alignment of offsets in an arena, in bytes: a cache line.
constexpr int64_t kArenaAlignment = 64;

/// A recorded training step: buffers, ops in order, and the segments of the ops.
struct Trace {
  std::vector<Buffer> buffers;
  std::vector<Op> ops;
  std::vector<Segment> segments;
  std::vector<std::string> modules;  ///< dotted module paths; modules[0] is "" (the model itself, or none)
  std::vector<NamedView> inputs;   ///< buffers that the host writes before a segment: the batch and the step's scalars
  std::vector<NamedView> outputs;  ///< buffers that the host reads after a segment: "loss", "gradient_norm", …
  std::vector<NamedView> state;    ///< contents of a checkpoint: parameters, module buffers, optimizer state
  std::vector<ConstantData> constants;
  /// Alignment of offsets in the arenas, in bytes. Libraries choose kernels by the alignment of operands, so all must
  /// be aligned alike; otherwise results depend on the plan.
  int64_t alignment = kArenaAlignment;
  std::vector<UpdatePiece> update_pieces;  ///< pieces of segment `update` in recorded order; empty after the passes
  int64_t model_parameters = 0;            ///< numbers of the model's parameters: frozen ones included, adapters not
  int64_t trained_parameters = 0;          ///< numbers that the update changes, over all ranks

  /// Returns the segment of this kind, or nullptr.
  const Segment* segment(SegmentKind kind) const;
  /// Returns the segment with this name, or nullptr.
  const Segment* segment_named(std::string_view name) const;
  /// Returns the entry of `list` (inputs, outputs or state) with this name, or nullptr.
  static const NamedView* find(const std::vector<NamedView>& list, std::string_view name);
};

/// Calls `visit(const View&, bool written)` for every defined operand of `op`: arguments first, then results.
template <typename Visit>
void for_each_view(const Op& op, Visit&& visit) {
  for (const Argument& argument : op.arguments)
    for (const View& view : argument.views)
      if (view.buffer != kNoBuffer) visit(view, argument.written);
  for (const View& view : op.results)
    if (view.buffer != kNoBuffer) visit(view, true);
}

/// A half-open interval of op indices, [birth, death). An unused buffer has birth == death.
struct Lifetime {
  int32_t birth = 0;
  int32_t death = 0;
  /// Returns whether the buffer is alive at op `op`.
  bool live_at(int32_t op) const { return birth <= op && op < death; }
};

/// Returns the lifetime of each buffer, from the first op that touches it to the last. A persistent buffer lives for
/// the whole trace. An output lives from its first write to the end, because the host reads it after the segment.
std::vector<Lifetime> lifetimes_of(const Trace& trace);

/// Returns the live bytes on the device while each op runs: the buffers that are not persistent, and the op's scratch.
std::vector<int64_t> transient_bytes_by_op(const Trace& trace, const std::vector<Lifetime>& lifetimes);

/// Returns `bytes` rounded up to the arena's alignment.
constexpr int64_t placed_bytes(int64_t bytes, int64_t alignment = kArenaAlignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}
/// Returns `bytes` rounded up to the trace's alignment.
inline int64_t placed_bytes(const Trace& trace, int64_t bytes) {
  return placed_bytes(bytes, trace.alignment);
}

}  // namespace plimsoll
