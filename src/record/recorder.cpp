#include "record/recorder.h"

#include <ATen/SequenceNumber.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <sstream>

#include "cost/operators.h"
#include "ops/libtorch_types.h"
#include "ops/workspace/workspace.h"
#include "plimsoll/error.h"
#include "record/op_signature.h"
#include "record/plan_device.h"
#include "trace/merged_ops.h"

namespace plimsoll {
namespace {

std::atomic<Recorder*> active_recorder{nullptr};
std::atomic<uint64_t> recordings{0};

}  // namespace

Recorder::Recorder() : serial_(++recordings) {
  Recorder* expected = nullptr;
  if (!active_recorder.compare_exchange_strong(expected, this))
    throw UserError("a step is being recorded already; one recording at a time in a process");
  ensure_backward_thread();
  trace_.modules.emplace_back("");
  module_indices_[""] = 0;
}

Recorder::~Recorder() {
  active_recorder = nullptr;
}

Recorder* Recorder::active() {
  return active_recorder;
}

void Recorder::begin_segment(SegmentKind kind) {
  const auto here = static_cast<int32_t>(trace_.ops.size());
  if (!trace_.segments.empty()) trace_.segments.back().end = here;
  end_update_piece();
  trace_.segments.push_back({kind, here, here});
  module_ = 0;
  module_is_stated_ = false;
  read_.clear();
  module_of_node_.clear();
  loss_heads_.begin_segment();
  written_attentions_.begin_segment();
  composed_norms_.begin_segment();
}

void Recorder::begin_update_piece(UpdatePiece piece) {
  end_update_piece();
  piece.begin = static_cast<int32_t>(trace_.ops.size());
  trace_.update_pieces.push_back(piece);
}

void Recorder::end_update_piece() {
  if (trace_.update_pieces.empty() || trace_.update_pieces.back().end > 0) return;
  trace_.update_pieces.back().end = static_cast<int32_t>(trace_.ops.size());
}

void Recorder::mark(const at::Tensor& tensor, Role role, const std::string& label, bool persistent) {
  Buffer& buffer = trace_.buffers[buffer_of(tensor)];
  buffer.role = role;
  buffer.label = label;
  buffer.persistent = persistent;
  if (role == Role::parameter && tensor.requires_grad()) trained_.insert(buffer_of(tensor));
}

void Recorder::mark_output(const at::Tensor& tensor, const std::string& name) {
  trace_.buffers[buffer_of(tensor)].output = true;
  trace_.outputs.push_back({name, view_of(tensor)});
}

void Recorder::add_input(const std::string& name, const at::Tensor& tensor) {
  mark(tensor, Role::input, name, /*persistent=*/true);
  trace_.inputs.push_back({name, view_of(tensor)});
}

void Recorder::add_state(const std::string& name, const at::Tensor& tensor, std::vector<int64_t> whole_sizes) {
  trace_.state.push_back({name, view_of(tensor), std::move(whole_sizes)});
}

void Recorder::replace_state(const std::string& name, const at::Tensor& tensor, std::vector<int64_t> whole_sizes) {
  const auto entry = std::ranges::find(trace_.state, name, &NamedView::name);
  check(entry != trace_.state.end(), "no state '" + name + "'");
  entry->view = view_of(tensor);
  entry->whole_sizes = std::move(whole_sizes);
}

void Recorder::enter_module(const std::string& module) {
  module_ = module_index(module);
  module_is_stated_ = true;
}

bool Recorder::is_changed(const at::Tensor& tensor) const {
  const BufferId buffer = buffer_of(tensor);
  return std::ranges::any_of(trace_.ops, [&](const Op& op) {
    bool written = false;
    if (op.phase == Phase::forward || op.phase == Phase::backward)
      for_each_view(op, [&](const View& view, bool writes) { written |= writes && view.buffer == buffer; });
    return written;
  });
}

bool Recorder::is_unregistered_and_read(const at::Tensor& tensor) const {
  if (!is_plan(tensor)) return false;
  const BufferId buffer = buffer_of(tensor);
  if (std::ranges::any_of(trace_.state, [&](const NamedView& each) { return each.view.buffer == buffer; }))
    return false;
  const auto begin = trace_.ops.begin() + (trace_.segments.empty() ? 0 : trace_.segments.back().begin);
  return std::any_of(begin, trace_.ops.end(), [&](const Op& op) {
    bool read = false;
    for_each_view(op, [&](const View& view, bool writes) { read |= !writes && view.buffer == buffer; });
    return read;
  });
}

void Recorder::set_owner(const at::Tensor& tensor, const std::string& module) {
  owners_[buffer_of(tensor)] = module_index(module);
}

BufferId Recorder::add_buffer(int64_t bytes) {
  trace_.buffers.push_back({bytes, Role::temporary, false, false, {}});
  return static_cast<BufferId>(trace_.buffers.size() - 1);
}

void Recorder::grow_buffer(BufferId buffer, int64_t bytes) {
  trace_.buffers[buffer].bytes = std::max(trace_.buffers[buffer].bytes, bytes);
}

std::optional<at::Tensor> Recorder::known_values(const at::Tensor& tensor) const {
  return plimsoll::known_values(trace_, view_of(tensor));
}

bool Recorder::depends_on_parameter(const at::Tensor& tensor) const {
  return depends_on(trace_, buffer_of(tensor), trained_);
}

std::optional<bool> Recorder::assumed(BufferId buffer) const {
  const auto found = assumed_.find(buffer);
  return found == assumed_.end() ? std::nullopt : std::optional(found->second);
}

at::Tensor Recorder::constant_tensor(const at::Tensor& values) {
  const at::Tensor dense = values.detach().contiguous();
  at::Tensor tensor = make_plan_tensor(dense.sizes(), dense.strides(), dense.scalar_type());
  mark(tensor, Role::input, "constant", /*persistent=*/true);
  ConstantData constant{buffer_of(tensor), std::vector<std::byte>(dense.nbytes())};
  if (dense.nbytes() > 0) std::memcpy(constant.bytes.data(), dense.const_data_ptr(), dense.nbytes());
  trace_.constants.push_back(std::move(constant));
  return tensor;
}

void Recorder::adopt_cpu_tensors(const OpSignature& signature, c10::IValue* arguments) {
  const auto foreign = [](const at::Tensor& tensor) {
    return tensor.defined() && tensor.device().is_cpu() && tensor.dim() > 0;
  };
  for (size_t i = 0; i < signature.written.size(); ++i) {
    c10::IValue& argument = arguments[i];
    const auto adopted = [&](const at::Tensor& tensor) {
      if (!foreign(tensor)) return tensor;
      if (signature.written[i])
        throw UserError(fmt::format(
            "operator {}{} would write to a CPU tensor while the step is recorded, when there is nothing to write yet; "
            "return what you want to read from the step, or read it after the step has run",
            signature.name, place()));
      return constant_tensor(tensor);
    };
    if (argument.isTensor()) {
      argument = adopted(argument.toTensor());
    } else if (argument.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor tensor : argument.toTensorList()) list.push_back(adopted(tensor));
      argument = list;
    } else if (argument.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const std::optional<at::Tensor> tensor : argument.toOptionalTensorList())
        list.push_back(tensor ? std::optional<at::Tensor>(adopted(*tensor)) : std::nullopt);
      argument = list;
    }
  }
}

int32_t Recorder::module_index(const std::string& path) {
  const auto [entry, added] = module_indices_.try_emplace(path, static_cast<int32_t>(trace_.modules.size()));
  if (added) trace_.modules.push_back(path);
  return entry->second;
}

// Returns the module of an op. Modules have no hooks in C++, so a forward op belongs to the module whose parameter was
// read last. A backward op belongs to the module of the forward op that made its autograd node; both have the node's
// sequence number.
int32_t Recorder::current_module(const Op& op) {
  int32_t owner = -1;
  for_each_view(op, [&](const View& view, bool) {
    if (const auto found = owners_.find(view.buffer); found != owners_.end() && owner < 0) owner = found->second;
  });
  if (phase_ == Phase::backward) {
    const auto node = torch::autograd::get_current_node();
    if (node) {
      if (const auto found = module_of_node_.find(node->sequence_nr()); found != module_of_node_.end())
        return found->second;
    }
    return owner >= 0 ? owner : module_;
  }
  if (owner >= 0) read_.insert(owner);
  if (owner >= 0 && !module_is_stated_) module_ = owner;
  return module_;
}

void Recorder::note_view() {
  if (phase_ != Phase::backward && at::sequence_number::peek() > 0)
    module_of_node_.try_emplace(at::sequence_number::peek() - 1, module_);
}

void Recorder::add_op(const OpSignature& signature, const std::vector<c10::IValue>& arguments,
                      const std::vector<c10::IValue>& outputs) {
  Op op;
  op.name = signature.name;
  op.phase = phase_;
  auto call = std::make_shared<OpCall>(OpCall{signature.op, {}});
  const auto add_view = [&](Argument& argument, const at::Tensor& tensor) {
    if (tensor.defined() && !is_plan(tensor))
      throw UserError(fmt::format("operator {}{}: an argument is on device {}; make it inside the model or the step",
                                  signature.name, place(), tensor.device().str()));
    argument.views.push_back(tensor.defined() ? view_of(tensor) : View{});
  };
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::IValue& value = arguments[i];
    Argument argument;
    argument.written = signature.written[i];
    if (value.isTensor() && is_plan(value.toTensor())) {
      argument.kind = Argument::Kind::tensor;
      add_view(argument, value.toTensor());
      if (argument.written && phase_ == Phase::forward && computed_views_.contains(argument.views.back().buffer))
        throw UserError(fmt::format(
            "operator {}{} cannot be recorded: it writes into a conjugate or a negative, which changes the tensor that "
            "it is of in PyTorch; write into that tensor, or use conj_physical()",
            signature.name, place()));
    } else if (value.isTensorList()) {
      argument.kind = Argument::Kind::tensor_list;
      for (const at::Tensor tensor : value.toTensorList()) add_view(argument, tensor);
    } else if (value.isOptionalTensorList()) {
      argument.kind = Argument::Kind::tensor_list;
      for (const std::optional<at::Tensor> tensor : value.toOptionalTensorList())
        add_view(argument, tensor.value_or(at::Tensor()));
    }
    // The user may change a scalar tensor after the recording; the step was recorded with its present value.
    const bool scalar = value.isTensor() && value.toTensor().defined();
    call->constants.push_back(argument.kind != Argument::Kind::constant ? c10::IValue()
                              : scalar                                  ? c10::IValue(value.toTensor().detach().clone())
                                                                        : value);
    op.arguments.push_back(std::move(argument));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (signature.result_argument[i] >= 0) continue;
    if (outputs[i].isTensor() && is_plan(outputs[i].toTensor())) {
      op.results.push_back(view_of(outputs[i].toTensor()));
    } else if (outputs[i].isTensorList()) {
      for (const at::Tensor tensor : outputs[i].toTensorList()) op.results.push_back(view_of(tensor));
    } else {
      op.results.push_back(View{});
    }
  }
  op.call = std::move(call);
  op.module = current_module(op);
  if (phase_ != Phase::backward && at::sequence_number::peek() > 0)
    module_of_node_.try_emplace(at::sequence_number::peek() - 1, op.module);
  if (signature.random) op.random_id = next_random_id_++;
  op.flops = flops_of(op) * ops::computed_share(op);
  op.bytes_moved = bytes_moved_by(op);
  op.staged_bytes = ops::staged_bytes(op);
  if (replacements_.attention) written_attentions_.note_op(trace_, op, arguments, outputs);
  if (phase_ == Phase::forward || phase_ == Phase::evaluate) composed_norms_.note(op, arguments);
  trace_.ops.push_back(std::move(op));
}

std::string Recorder::place_of(int32_t module) const {
  return trace_.modules[module].empty() ? "" : fmt::format(" in module '{}'", trace_.modules[module]);
}

std::string Recorder::place() const {
  return place_of(module_);
}

void Recorder::set_early_caller(const std::string& op, const std::string& module, const std::string& type) {
  early_callers_.push_back({op, module, type});
}

Recorder::RefusedCall Recorder::place_of_refused(const std::string& op) const {
  for (const EarlyCaller& caller : early_callers_) {
    if (caller.op != op) continue;
    const bool read = std::ranges::any_of(read_, [&](int32_t module) {
      const std::string& path = trace_.modules[module];
      return path == caller.module || path.starts_with(caller.module + ".");
    });
    if (!read) return {fmt::format(" in module '{}' ({})", caller.module, caller.type), true};
  }
  return {place(), false};
}

void Recorder::fill_roles() {
  std::vector<bool> forward(trace_.buffers.size(), false);
  for (const Op& op : trace_.ops) {
    for_each_view(op, [&](const View& view, bool written) {
      Buffer& buffer = trace_.buffers[view.buffer];
      if (op.phase == Phase::forward && written) forward[view.buffer] = true;
      if (op.phase == Phase::backward && forward[view.buffer] && buffer.role == Role::temporary)
        buffer.role = Role::activation;
    });
  }
}

void Recorder::fill_labels() {
  for (const Op& op : trace_.ops) {
    for_each_view(op, [&](const View& view, bool written) {
      Buffer& buffer = trace_.buffers[view.buffer];
      if (!written || !buffer.label.empty()) return;
      std::string_view name = op.name;
      name.remove_prefix(std::min(name.find("::") + 2, name.size()));
      name = name.substr(0, name.find('.'));
      const std::string& module = trace_.modules[op.module];
      buffer.label = module.empty() ? std::string(name) : fmt::format("{} in {}", name, module);
    });
  }
}

// Makes unregistered tensors persistent that initialization makes and a later segment reads. If the step changes one,
// it is state that no checkpoint would hold.
void Recorder::keep_unregistered_tensors() {
  const Segment* initialize = trace_.segment(SegmentKind::initialize);
  if (!initialize) return;
  std::vector<bool> early(trace_.buffers.size(), false), late = early;
  const Op* changes = nullptr;
  for (int32_t i = 0; i < static_cast<int32_t>(trace_.ops.size()); ++i) {
    for_each_view(trace_.ops[i], [&](const View& view, bool written) {
      if (trace_.buffers[view.buffer].persistent) return;
      if (i < initialize->end) {
        early[view.buffer] = true;
      } else if (early[view.buffer]) {
        late[view.buffer] = true;
        if (written && !changes) changes = &trace_.ops[i];
      }
    });
  }
  if (changes)
    throw UserError(
        fmt::format("operator {} changes a tensor that the model's constructor made but did not register; use "
                    "register_buffer, so that checkpoints hold it",
                    changes->name));
  for (size_t b = 0; b < late.size(); ++b) {
    if (!late[b]) continue;
    trace_.buffers[b].persistent = true;
    trace_.buffers[b].role = Role::parameter;
  }
}

// Refuses forward ops that read what another micro batch's forward pass made: no plan keeps it, and no checkpoint
// would.
void Recorder::require_state_is_registered() const {
  std::vector<int32_t> segment_of(trace_.buffers.size(), -1);  // that wrote the buffer last
  for (size_t s = 0; s < trace_.segments.size(); ++s) {
    const Segment& segment = trace_.segments[s];
    if (segment.kind == SegmentKind::initialize) continue;
    for (int32_t i = segment.begin; i < segment.end; ++i) {
      const Op& op = trace_.ops[i];
      for_each_view(op, [&](const View& view, bool written) {
        const bool forward = op.phase == Phase::forward || op.phase == Phase::evaluate;
        if (!written && forward && segment_of[view.buffer] >= 0 && segment_of[view.buffer] != static_cast<int32_t>(s) &&
            !trace_.buffers[view.buffer].persistent)
          throw UserError(
              fmt::format("operator {}{} reads a tensor that forward made for another micro batch; use register_buffer "
                          "for state that forward changes, so that checkpoints hold it",
                          op.name, place_of(op.module)));
      });
      for_each_view(op, [&](const View& view, bool written) {
        if (written) segment_of[view.buffer] = static_cast<int32_t>(s);
      });
    }
  }
}

Trace Recorder::finish() {
  if (!trace_.segments.empty()) trace_.segments.back().end = static_cast<int32_t>(trace_.ops.size());
  end_update_piece();
  keep_unregistered_tensors();
  require_state_is_registered();
  fill_roles();
  fill_labels();
  return std::move(trace_);
}

namespace {

std::string text_of(const c10::IValue& value) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    if (!tensor.defined()) return "None";
    if (tensor.dim() != 0 || !tensor.device().is_cpu()) return "tensor";
    const at::Scalar number = tensor.item();
    if (!number.isComplex()) return fmt::format("{}", number.toDouble());
    const c10::complex<double> pair = number.toComplexDouble();
    return fmt::format("{}{:+}j", pair.real(), pair.imag());
  }
  if (value.isDevice()) return "device";
  std::ostringstream stream;
  stream << value;
  return stream.str();
}

}  // namespace

std::string describe_constants(const Op& op) {
  if (!op.call) return "";
  // The name of a fused op lists its operations; its constants are the encoded program.
  if (is_fused(op)) return "";
  std::string text;
  const auto& arguments = op.call->op.schema().arguments();
  for (size_t i = 0; i < op.call->constants.size() && i < op.arguments.size(); ++i) {
    const c10::IValue& value = op.call->constants[i];
    if (op.arguments[i].kind != Argument::Kind::constant || value.isNone()) continue;
    if (value.isTensor() && !value.toTensor().defined()) continue;
    // A group has a seed, or an index, for each parameter.
    if (value.isIntList() && is_update_group(op.name)) continue;
    const auto& default_value = arguments[i].default_value();
    if (default_value && !value.isTensor() && text_of(*default_value) == text_of(value)) continue;
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", arguments[i].name(), text_of(value));
  }
  return text;
}

}  // namespace plimsoll
