// Declares the recorder: while it is active, it records every operator call on the plan device in a trace.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "plimsoll/options.h"
#include "plimsoll/trace.h"
#include "record/composed_norm.h"
#include "record/loss_head.h"
#include "record/written_attention.h"

namespace plimsoll {

struct OpSignature;

/// The facts about the kernels of a step that its recorded ops depend on.
struct StepKernels {
  bool masked_attention = true;  ///< plimsoll::attention takes masks that are tensors, and dropout
  bool norms = true;             ///< plimsoll::rms_norm has kernels
  /// Layer and batch norms keep float32 statistics of 16-bit values, batch norms by given statistics return them too,
  /// and log-sigmoid has no buffer. libtorch's kernels for the CPU do none of it.
  bool wide_statistics = false;
};

/// A recorder of one step. At most one is active at a time in a process. It is not thread-local: the autograd engine
/// runs a private device's backward on a thread of its own, while the thread that recorded the forward waits for it.
class Recorder {
 public:
  Recorder();
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  static Recorder* active();
  /// Returns an id that is different for each recording of a process.
  uint64_t serial() const { return serial_; }

  /// Begins a segment, which gets all ops until the next call. Segments follow one another.
  void begin_segment(SegmentKind kind);
  void set_phase(Phase phase) { phase_ = phase; }
  Phase phase() const { return phase_; }

  /// Sets role and label of the buffer of `tensor`. A persistent buffer keeps its bytes between segments.
  void mark(const at::Tensor& tensor, Role role, const std::string& label, bool persistent);
  void mark_output(const at::Tensor& tensor, const std::string& name);
  void add_input(const std::string& name, const at::Tensor& tensor);
  /// Adds a state entry. `whole_sizes`: for a slice (NamedView).
  void add_state(const std::string& name, const at::Tensor& tensor, std::vector<int64_t> whole_sizes = {});
  /// Replaces the tensor of the state entry `name`.
  void replace_state(const std::string& name, const at::Tensor& tensor, std::vector<int64_t> whole_sizes);
  /// Begins a piece of the update, which gets all ops until the next piece or the end of the segment.
  void begin_update_piece(UpdatePiece piece);
  /// Sets the module that the parameter or buffer `tensor` belongs to. Ops that read it get the module's path.
  void set_owner(const at::Tensor& tensor, const std::string& module);
  /// States the module whose forward runs. Forward ops belong to it until the next call or the end of the segment.
  void enter_module(const std::string& module);

  /// Sets the operators of libtorch that are recorded as operators of Plimsoll from now on; all at first.
  void set_replacements(const Replacements& replacements) { replacements_ = replacements; }
  const Replacements& replacements() const { return replacements_; }
  /// States the kernels that will run the step; the CPU's at first.
  void set_kernels(const StepKernels& kernels) { kernels_ = kernels; }
  const StepKernels& kernels() const { return kernels_; }

  /// Returns the ops so far.
  const Trace& trace() const { return trace_; }
  LossHeads& loss_heads() { return loss_heads_; }
  const LossHeads& loss_heads() const { return loss_heads_; }
  WrittenAttentions& written_attentions() { return written_attentions_; }

  /// States that the results of written attention are contiguous, as those of matmul are. At first they have the layout
  /// [batch, tokens, heads, width], in which the heads can be merged by a view.
  void set_contiguous_attention(bool contiguous) { contiguous_attention_ = contiguous; }
  bool has_contiguous_attention() const { return contiguous_attention_; }
  /// Notes that the step was refused a view because of a tensor's layout.
  void note_refused_view() { refused_view_ = true; }
  bool refused_view() const { return refused_view_; }
  ComposedNorms& composed_norms() { return composed_norms_; }
  const ComposedNorms& composed_norms() const { return composed_norms_; }

  /// Returns whether an op of forward or backward has written to the buffer of `tensor` so far.
  bool is_changed(const at::Tensor& tensor) const;
  /// Returns whether an op of the current segment has read the buffer of `tensor`, which is no state.
  bool is_unregistered_and_read(const at::Tensor& tensor) const;

  /// Notes that forward put `value` in the place of a registered tensor. The step copies it there behind backward,
  /// which reads the values from before.
  void note_assignment(const at::Tensor& registered, const at::Tensor& value) {
    assignments_.emplace_back(registered, value);
  }
  std::vector<std::pair<at::Tensor, at::Tensor>> take_assignments() { return std::exchange(assignments_, {}); }

  /// Returns the number of the next random op (Op::random_id).
  int64_t next_random_id() const { return next_random_id_; }
  void set_next_random_id(int64_t id) { next_random_id_ = id; }

  /// Ends the recording and returns the trace: closes segments, and sets roles and labels of the remaining buffers.
  /// Throws UserError for a step that changes a tensor of the model that is not registered.
  Trace finish();

  // The plan device calls the functions below.
  BufferId add_buffer(int64_t bytes);
  void grow_buffer(BufferId buffer, int64_t bytes);
  int64_t buffer_bytes(BufferId buffer) const { return trace_.buffers[buffer].bytes; }
  /// Appends a call with its `outputs`.
  void add_op(const OpSignature& signature, const std::vector<c10::IValue>& arguments,
              const std::vector<c10::IValue>& outputs);
  /// Notes a call that only made views. It is not replayed, but backward needs its module.
  void note_view();

  /// Notes that a buffer has a conjugate or a negative, which is a view in libtorch and computed here. An op of the
  /// forward pass that writes into it is refused: in libtorch it would change the tensor itself.
  void note_computed_view(BufferId buffer) { computed_views_.insert(buffer); }
  /// Returns a CPU tensor with the values of a plan tensor that was computed from numbers alone; nullopt: no such one
  /// (known_values()).
  std::optional<at::Tensor> known_values(const at::Tensor& tensor) const;
  /// Returns whether a plan tensor was computed from a parameter that requires a gradient.
  bool depends_on_parameter(const at::Tensor& tensor) const;
  /// Notes that every element of a buffer of booleans is taken to be `value` where the step reads it.
  void assume(BufferId buffer, bool value) { assumed_[buffer] = value; }
  void forget_assumption(BufferId buffer) { assumed_.erase(buffer); }
  /// Returns the value of assume(), or nullopt.
  std::optional<bool> assumed(BufferId buffer) const;
  /// Returns a plan tensor with the values of a CPU tensor that the step uses directly. Its bytes are copied into the
  /// trace.
  at::Tensor constant_tensor(const at::Tensor& values);
  /// Replaces every CPU tensor of one or more dimensions among the arguments, within lists too, as constant_tensor()
  /// does. A CPU tensor of no dimensions is a Python-style scalar and is kept. Throws UserError for one that the
  /// operator would write to.
  void adopt_cpu_tensors(const OpSignature& signature, c10::IValue* arguments);
  /// Notes that the forward of `module`, of class `type`, calls `op` before it reads any parameter of its own.
  void set_early_caller(const std::string& op, const std::string& module, const std::string& type);
  /// Returns the current position in the step for messages: "in module 'layers.3.attention'", or "".
  std::string place() const;
  /// A position of a refused call of `op`. `caller`: a module of set_early_caller() makes the call, and is named.
  struct RefusedCall {
    std::string place;
    bool caller = false;
  };
  RefusedCall place_of_refused(const std::string& op) const;

 private:
  int32_t module_index(const std::string& path);
  std::string place_of(int32_t module) const;
  int32_t current_module(const Op& op);
  void end_update_piece();
  void keep_unregistered_tensors();
  void require_state_is_registered() const;
  void fill_roles();
  void fill_labels();

  const uint64_t serial_;
  Trace trace_;
  Phase phase_ = Phase::initialize;
  Replacements replacements_;
  StepKernels kernels_;
  LossHeads loss_heads_;
  WrittenAttentions written_attentions_;
  bool contiguous_attention_ = false, refused_view_ = false;
  ComposedNorms composed_norms_;
  int64_t next_random_id_ = 0;
  int32_t module_ = 0;
  bool module_is_stated_ = false;
  std::unordered_map<std::string, int32_t> module_indices_;
  std::unordered_map<BufferId, int32_t> owners_;
  std::unordered_set<BufferId> computed_views_;
  std::unordered_map<BufferId, bool> assumed_;
  std::unordered_set<BufferId> trained_;  // parameters that require a gradient
  std::vector<std::pair<at::Tensor, at::Tensor>> assignments_;
  std::unordered_set<int32_t> read_;  // modules whose parameters the segment has read
  struct EarlyCaller {
    std::string op, module, type;
  };
  std::vector<EarlyCaller> early_callers_;                // in the order of registration, mostly that of calls
  std::unordered_map<uint64_t, int32_t> module_of_node_;  // by the autograd node's sequence number
};

/// Returns a CPU tensor with the values that the recorded ops give `view`. nullopt: they depend on a parameter, a
/// buffer of the model, an input or a random number, or take more than 1 MiB to compute.
std::optional<at::Tensor> known_values(const Trace& trace, const View& view);

/// Returns whether the recorded ops compute `buffer` from one of `sources`, or it is one.
bool depends_on(const Trace& trace, BufferId buffer, const std::unordered_set<BufferId>& sources);

/// Calls an operator on CPU tensors, with `arguments` in schema order.
std::vector<c10::IValue> call_on_cpu(const c10::OperatorHandle& op, std::vector<c10::IValue> arguments);

/// Records a call of an operator on plan tensors, whose arguments are on the stack, and puts its results there.
void record_call(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace plimsoll
