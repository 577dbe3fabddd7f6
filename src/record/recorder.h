// Writes down every operator call on the plan device while it is active.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "plimsoll/trace.h"

namespace plimsoll {

struct OpSignature;

/// At most one recorder is active at a time in a process. It is not thread-local: the autograd engine runs a private
/// device's backward on a thread of its own, while the thread that recorded the forward waits for it.
class Recorder {
 public:
  Recorder();
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  static Recorder* active();
  /// Tells the recordings of a process apart.
  uint64_t serial() const { return serial_; }

  /// Ops recorded from here on belong to the segment of that name, until the next call. Segments follow one another.
  void begin_segment(const std::string& name);
  void set_phase(Phase phase) { phase_ = phase; }
  Phase phase() const { return phase_; }

  /// Gives the buffer of `tensor` a role and a label. A persistent buffer keeps its bytes between segments.
  void mark(const at::Tensor& tensor, Role role, const std::string& label, bool persistent);
  void mark_output(const at::Tensor& tensor, const std::string& name);
  void add_input(const std::string& name, const at::Tensor& tensor);
  /// `whole_sizes`: of a slice (NamedView).
  void add_state(const std::string& name, const at::Tensor& tensor, std::vector<int64_t> whole_sizes = {});
  /// Puts another tensor in the place of the state entry `name`.
  void replace_state(const std::string& name, const at::Tensor& tensor, std::vector<int64_t> whole_sizes);
  /// Ops recorded from here on, up to the next piece or the end of the segment, are that piece of the update.
  void begin_update_piece(UpdatePiece piece);
  /// Says which module the parameter or buffer `tensor` belongs to, so that ops which read it are known by its path.
  void set_owner(const at::Tensor& tensor, const std::string& module);

  /// Whether an op of forward or backward has written to the buffer of `tensor` so far.
  bool is_changed(const at::Tensor& tensor) const;

  /// Which number the next random op gets (Op::random_id).
  int64_t next_random_id() const { return next_random_id_; }
  void set_next_random_id(int64_t id) { next_random_id_ = id; }

  /// Ends the recording: segments closed, roles and labels of the remaining buffers filled in. Throws UserError for a
  /// step that changes a tensor of the model which is not registered.
  Trace finish();

  // Called by the plan device.
  BufferId add_buffer(int64_t bytes);
  void grow_buffer(BufferId buffer, int64_t bytes);
  int64_t buffer_bytes(BufferId buffer) const { return trace_.buffers[buffer].bytes; }
  /// Appends a call. `outputs` are what the call returned.
  void add_op(const OpSignature& signature, const std::vector<c10::IValue>& arguments,
              const std::vector<c10::IValue>& outputs);
  /// A call that only made views: nothing to replay, but backward asks which module it was made from.
  void note_view();
  /// A plan tensor that holds the values of a CPU tensor which the step uses as it is; its bytes go into the trace.
  at::Tensor constant_tensor(const at::Tensor& values);
  /// The same for every CPU tensor of one or more dimensions among the arguments, within lists too. A CPU tensor of no
  /// dimensions is a Python-style scalar and stays as it is. Throws UserError for one that the operator would write to.
  void adopt_cpu_tensors(const OpSignature& signature, c10::IValue* arguments);
  /// Says that the forward of `module`, of that type, calls `op` before it reads any parameter of its own.
  void set_early_caller(const std::string& op, const std::string& module, const std::string& type);
  /// "in module 'layers.3.attention'" or "": where the step is at the moment, for messages.
  std::string place() const;
  /// The same for a call of `op` that is refused. `caller`: a module of set_early_caller makes it, and is named.
  struct RefusedCall {
    std::string place;
    bool caller = false;
  };
  RefusedCall place_of_refused(const std::string& op) const;

 private:
  int32_t module_index(const std::string& path);
  int32_t current_module(const Op& op);
  void end_update_piece();
  void keep_unregistered_tensors();
  void fill_roles();
  void fill_labels();

  const uint64_t serial_;
  Trace trace_;
  Phase phase_ = Phase::initialize;
  int64_t next_random_id_ = 0;
  int32_t module_ = 0;
  std::unordered_map<std::string, int32_t> module_indices_;
  std::unordered_map<BufferId, int32_t> owners_;
  std::unordered_set<int32_t> read_;  // modules whose parameters the segment has read
  struct EarlyCaller {
    std::string op, module, type;
  };
  std::vector<EarlyCaller> early_callers_;                // in the order of registration, which is mostly that of calls
  std::unordered_map<uint64_t, int32_t> module_of_node_;  // by the autograd node's sequence number
};

}  // namespace plimsoll
