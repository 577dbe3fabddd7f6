// The record of one training step, its element types, and the lifetimes of its buffers. No device, no libtorch.
//
// One trace holds everything that ever runs in the arena, in one line of ops cut into segments:
//
//     initialize | [norms] | micro | accumulate | remainder | [last] | update | [finish] | evaluate
//
// A training step of k micro batches runs `micro` once, `accumulate` k - 1 times and `update` once; where its last
// micro batch is smaller than the others, `remainder` in place of the last `accumulate`. Those in brackets are made by
// passes/update_in_backward: `norms` runs before `micro`; with several micro batches `last` in place of the last
// `accumulate`, and `finish` instead of `update`. Because the segments stand on one line, one liveness and one
// placement serve them all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

/// Element type of a tensor.
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

/// Bytes of one element.
int64_t element_bytes(DType dtype);

/// "float32", "bfloat16", "int64", "bool", …
std::string_view name_of(DType dtype);

/// Index of a buffer in Trace::buffers.
using BufferId = int32_t;
constexpr BufferId kNoBuffer = -1;

/// Role of a buffer in the training step.
enum class Role : uint8_t { parameter, gradient, optimizer_state, activation, input, temporary, workspace };
/// Returns the name of a role.
std::string_view name_of(Role role);

/// What a buffer may lie in, the device's own first. Each has an arena of its own.
enum class Memory : uint8_t { device, host, disk };
constexpr int kMemories = 3;
/// Returns the name of a memory.
std::string_view name_of(Memory memory);

/// A piece of memory that operators write and read. Views of it are not buffers.
struct Buffer {
  int64_t bytes = 0;
  Role role = Role::temporary;
  bool persistent = false;         ///< keeps its bytes from one segment to the next: parameters, state, inputs
  bool output = false;             ///< read by the host after its segment has run: live until the end of the trace
  std::string label;               ///< "layers.3.attention.query.weight", "gradient of …", or the op that made it
  Memory memory = Memory::device;  ///< elsewhere only copies touch it and, in host memory, ops that run on the host

  /// Returns whether the buffer is in the device's memory.
  bool on_device() const { return memory == Memory::device; }
};

/// Where an operand lies: `sizes` and `strides` in elements, `offset` in elements from the start of the buffer.
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

/// One argument of a recorded call, in schema order. Constants are kept in OpCall.
struct Argument {
  /// Kind of an argument.
  enum class Kind : uint8_t { constant, tensor, tensor_list };
  Kind kind = Kind::constant;
  bool written = false;     ///< in place or `out`: the op writes into these views
  std::vector<View> views;  ///< one for a tensor, any number for a list, none for a constant
};

/// Copies between the device and another memory run beside other ops: one op starts a copy, another waits until it is
/// done. Arguments of both: the target (written by the start, read by the wait), the source. In between nobody else may
/// touch the target or write to the source. Copies in one direction are done in the order in which they were started.
enum class CopyStage : uint8_t { none, start, wait };

/// What replay needs of libtorch for a call: the operator handle and the constant arguments (src/ops/op_call.h).
struct OpCall;

/// One recorded call of an operator, or a copy between two memories.
struct Op {
  std::string name;  ///< "aten::mm.out"
  std::vector<Argument> arguments;
  std::vector<View> results;  ///< outputs that the kernel makes itself, each a whole fresh buffer, in schema order;
                              ///< an output that is an argument written in place has no entry here
  Phase phase = Phase::forward;
  int32_t module = 0;                ///< index into Trace::modules: the module that the call was made from
  int64_t random_id = -1;            ///< >= 0: draws random numbers; the same id draws the same numbers within a step
  double flops = 0;                  ///< arithmetic operations, a multiply-add counted as two
  int64_t bytes_moved = 0;           ///< bytes read and written, each operand once
  int64_t link_bytes = 0;            ///< that this rank sends to other ranks; 0: the op is no exchange
  int64_t workspace_bytes = 0;       ///< scratch that the kernel takes while it runs, on the device planned for
  bool recomputed = false;           ///< a second run of a forward op, put in by a pass
  bool on_host = false;              ///< runs on the host, on operands and scratch in host memory; put so by a pass
  CopyStage copy = CopyStage::none;  ///< not `none`: put in by a pass, and has no `call`
  /// Stage of an exchange between ranks that runs beside the ops after it, put in by a pass: the op with `start` is the
  /// exchange; the op with `wait` has no `call`, and as arguments the exchange's target and its source. In between no
  /// op touches the target or writes to the source. Exchanges are done in the order in which they were started.
  CopyStage exchange = CopyStage::none;
  Memory far = Memory::host;  ///< of a copy: the memory at its other end, beside the device's
  std::shared_ptr<const OpCall> call;
};

/// "dim=1, keepdim=True": the constant arguments of `op` that differ from the operator's defaults, for people.
std::string describe_constants(const Op& op);

/// Ops [begin, end) of the trace, run as one.
struct Segment {
  std::string name;
  int32_t begin = 0;
  int32_t end = 0;
};

/// A part of segment `update` that passes/update_in_backward may run elsewhere: what happens to one parameter, or to
/// all.
struct UpdatePiece {
  /// Kind of a piece.
  enum class Kind : uint8_t {
    begin,   ///< sets the step's scalars
    norm,    ///< of one parameter: the norm of its gradient, and whether it is finite
    total,   ///< the norm of all gradients, from those of each
    clip,    ///< what gradients are divided by, from the norm of all; absent where updates need not wait for that
    update,  ///< of one parameter
    finish,  ///< counts the step
  };
  Kind kind = Kind::begin;
  BufferId parameter = kNoBuffer;  ///< of norm and update
  BufferId gradient = kNoBuffer;   ///< likewise
  int32_t begin = 0, end = 0;      ///< ops [begin, end)
};

/// A tensor that the outside world knows by name.
struct NamedView {
  std::string name;
  View view;
  /// Where the view is this rank's slice, flat: sizes of the whole, contiguous tensor that the slices of all ranks
  /// make, one behind the other, without the padding at its end. Empty: the view is the whole.
  std::vector<int64_t> whole_sizes = {};
};

/// Bytes that a buffer holds from the start: a tensor that the step used as it is.
struct ConstantData {
  BufferId buffer = kNoBuffer;
  std::vector<std::byte> bytes;
};

/// What places in an arena are multiples of at the least, bytes: a cache line.
constexpr int64_t kArenaAlignment = 64;

/// A recorded training step: buffers, ops in order, and the segments of the ops.
struct Trace {
  std::vector<Buffer> buffers;
  std::vector<Op> ops;
  std::vector<Segment> segments;
  std::vector<std::string> modules;  ///< dotted module paths; modules[0] is "" (the model itself, or none)
  std::vector<NamedView> inputs;     ///< written by the host before a segment: the batch and the step's scalars
  std::vector<NamedView> outputs;    ///< read by the host after a segment: "loss", "gradient_norm", …
  std::vector<NamedView> state;      ///< what a checkpoint holds: parameters, module buffers, optimizer state
  std::vector<ConstantData> constants;
  /// What places in the arenas are multiples of, bytes. A library that chooses a kernel by how its operands are aligned
  /// must find them all aligned alike, or results depend on the plan.
  int64_t alignment = kArenaAlignment;
  std::vector<UpdatePiece>
      update_pieces;  ///< as recorded: in order, all of segment `update`; empty once passes have run

  /// The segment of that name, or nullptr.
  const Segment* segment(std::string_view name) const;
  /// The input, output or state entry of that name, or nullptr.
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

/// Half-open, in op indices: [birth, death). An unused buffer has birth == death.
struct Lifetime {
  int32_t birth = 0;
  int32_t death = 0;
  /// Returns whether the buffer is alive at op `op`.
  bool live_at(int32_t op) const { return birth <= op && op < death; }
};

/// By buffer. A buffer lives from the first op that touches it to the last. A persistent buffer lives for the whole
/// trace, and an output from its first write to the end: the host reads it after the segment.
std::vector<Lifetime> lifetimes_of(const Trace& trace);

/// Live bytes on the device while each op runs: buffers that are not persistent, and the op's scratch.
std::vector<int64_t> transient_bytes_by_op(const Trace& trace, const std::vector<Lifetime>& lifetimes);

/// Bytes as placed: rounded up to the arena's alignment.
constexpr int64_t placed_bytes(int64_t bytes, int64_t alignment = kArenaAlignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}
/// Bytes as placed: rounded up to the trace's alignment.
inline int64_t placed_bytes(const Trace& trace, int64_t bytes) {
  return placed_bytes(bytes, trace.alignment);
}

}  // namespace plimsoll
