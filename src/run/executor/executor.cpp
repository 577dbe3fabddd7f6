#include "run/executor/executor.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/hash.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/hash.h"
#include "collectives/exchange.h"
#include "device/backend.h"
#include "ops/deterministic.h"
#include "ops/libtorch_types.h"
#include "plan/placement/assign_offsets.h"
#include "plimsoll/error.h"
#include "plimsoll/trace.h"
#include "record/plan_device.h"

namespace plimsoll {
namespace {

uint64_t seed_of(const RandomContext& random, int64_t random_id) {
  uint64_t seed = splitmix64(random.seed);
  seed = splitmix64(seed ^ static_cast<uint64_t>(random.step));
  seed = splitmix64(seed ^ static_cast<uint64_t>(random.micro));
  return splitmix64(seed ^ static_cast<uint64_t>(random_id));
}

}  // namespace

bool waits_for_each_op() {
  static const bool waits = [] {
    const char* const text = std::getenv(kWaitForEachOp);
    return text != nullptr && std::string_view(text) == "1";
  }();
  return waits;
}

void Executor::run(const Segment& segment, const RandomContext& random) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  try {
    if (disk_) disk_->require_written();  // errors found after the last wait
    random_ = random;
    if (guard_) guard_->begin_segment();
    run_ops(segment);
    if (guard_) guard_->end_segment();
  } catch (...) {
    std::exception_ptr cause;  // an exchange that failed before the op that reported it
    try {
      // The caller of a failed run may free the memory that exchanges and copies use.
      const std::exception_ptr failed = exchanges_.wait_for_all();
      copies_->wait_for_all();
      if (failed) cause = failed;
    } catch (...) {  // a failed device reports its error at every call; the first exception has the op and its module
    }
    if (guard_) guard_->end_segment();
    if (cause) std::rethrow_exception(cause);
    throw;
  }
}

void Executor::run_ops(const Segment& segment) {
  if (observer_ == nullptr && !guard_ && !waits_for_each_op()) {
    captures_.run(
        segment, [this](int32_t i) { run_one(ops_[i]); }, unplanned_.empty());
    return;
  }
  captures_.note_waited(segment);
  for (int32_t i = segment.begin; i < segment.end; ++i) {
    const auto begin = ProfileClock::now();
    guard_ ? run_checked(ops_[i]) : run_one(ops_[i]);
    wait_for(ops_[i]);
    if (observer_) observer_->ran(i, {begin, ProfileClock::now()});
  }
}

// A device reports the errors of its kernels when it is waited for.
void Executor::wait_for(const BoundOp& op) const {
  try {
    op.backend->synchronize();
  } catch (const UserError& error) {
    throw op.refused(plan_.trace, error.what());
  } catch (const c10::Error& error) {  // of a device that libtorch waits for
    throw op.refused(plan_.trace, error.what_without_backtrace());
  }
}

void Executor::check_ops() {
  if (!backend_.device().is_cpu())
    throw UserError(fmt::format("ops are checked on the CPU only; the device is {}: use device: cpu", backend_.name()));
  guard_ = std::make_unique<OpGuard>(plan_, arena_, host_);
}

// Copies and exchanges are done when they return, so that their writes are theirs alone. They run once: a second
// exchange would need the other ranks, which may have failed. Random ops draw the same numbers in both runs.
void Executor::run_checked(BoundOp& op) {
  const bool repeats = op.op->copy == CopyStage::none && op.op->exchange == CopyStage::none && op.op->link_bytes == 0;
  guard_->run(op.index, {op.workspace, static_cast<size_t>(op.workspace_bytes)}, repeats, [&] {
    run_one(op);
    if (const std::exception_ptr failed = exchanges_.wait_for_all()) std::rethrow_exception(failed);
    copies_->wait_for_all();
  });
}

void Executor::run_one(BoundOp& op) {
  // A step may be long. An exchange in flight checks the other ranks itself.
  if (Exchange* const exchange = current_exchange(); exchange && exchanges_.idle()) exchange->require_others();
  if (op.op->copy != CopyStage::none) return run_copy(op);
  switch (op.op->exchange) {
    case CopyStage::start:
      return start_exchange(op);
    case CopyStage::wait:
      return exchanges_.wait(exchange_numbers_[op.op->arguments[0].views[0].buffer]);
    case CopyStage::none:
      // Started exchanges come first, so that all exchanges keep their order.
      if (op.op->link_bytes > 0) exchanges_.wait(exchanges_.started());
      return run_op(op);
  }
}

void Executor::run_copy(BoundOp& op) {
  const BufferId target = op.op->arguments[0].views[0].buffer, source = op.op->arguments[1].views[0].buffer;
  const int64_t bytes = plan_.trace.buffers[source].bytes;
  if (op.op->copy == CopyStage::start) {
    std::function<void()> done;
    if (op.op->offload_memory == Memory::disk) {
      const BufferId offload_buffer = plan_.trace.buffers[target].on_device() ? source : target;
      done = [disk = disk_, offset = plan_.offsets[offload_buffer], bytes, written = offload_buffer == target] {
        disk->evict(offset, bytes, written);
      };
    }
    std::function<void()> first;
    if (observer_ != nullptr) {
      const auto span = std::make_shared<TimeSpan>();
      first = [span] { span->begin = ProfileClock::now(); };
      done = [span, done = std::move(done), observer = observer_, index = op.index] {
        if (done) done();
        span->end = ProfileClock::now();
        observer->copied(index, *span);
      };
    }
    copy_numbers_[target] =
        copies_->start(place_of(target), place_of(source), bytes, std::move(done), std::move(first));
  } else {
    copies_->wait(copy_numbers_[target]);
    awaited_ = std::max(awaited_, copy_numbers_[target]);
    if (disk_) disk_->require_written();
  }
  note_use(op);
}

void Executor::start_exchange(BoundOp& op) {
  const BufferId target = op.op->arguments[0].views[0].buffer;
  exchange_numbers_[target] = exchanges_.start(
      [this, &op, observer = observer_] {
        const auto begin = ProfileClock::now();
        torch::jit::Stack stack(op.arguments.begin(), op.arguments.end());
        try {
          op.handle->redispatchBoxed(op.backend->keys(), &stack);
        } catch (const c10::OutOfMemoryError& error) {
          throw MemoryUnavailable(op.refused(plan_.trace, error.what_without_backtrace()).what(), op.workspace_bytes,
                                  MemoryUnavailable::Owner::device);
        } catch (const c10::Error& error) {
          throw op.refused(plan_.trace, error.what_without_backtrace());
        } catch (const InternalError&) {
          throw;
        } catch (const std::exception& error) {
          throw op.refused(plan_.trace, error.what());
        }
        if (observer) observer->copied(op.index, {begin, ProfileClock::now()});
      },
      op.workspace, op.workspace_bytes);
  note_use(op);
}

void Executor::note_use(const BoundOp& op) {
  for (size_t m = 0; m < bytes_used_.size(); ++m) bytes_used_[m] = std::max(bytes_used_[m], op.extents[m]);
}

void Executor::run_op(BoundOp& op) {
  // Ops of a device wait on the device. An op on the host reads and writes immediately, so it must wait for copies
  // here.
  if (op.op->on_host) copies_->wait_on_host(awaited_);
  stack_.assign(op.arguments.begin(), op.arguments.end());
  at::Tensor generator_state;
  if (op.op->random_id >= 0) {
    // The process's generator belongs to the user: its state is restored afterwards.
    at::Generator generator = op.backend->generator();
    generator_state = generator.get_state();
    generator.unsafeGetGeneratorImpl()->set_current_seed(seed_of(random_, op.op->random_id));
  }
  frame_.begin(op.outputs, op.workspace, op.workspace_bytes, op.backend->scratch_alignment());
  bool begun = false;
  AllocationFrame::Usage usage;
  // Restores the process's allocator and generator, whatever exception is thrown.
  const auto finish = [&] {
    stack_.clear();
    const int64_t other_threads = begun ? op.backend->end_op() : 0;
    usage = frame_.end();
    usage.other_thread_bytes = other_threads;
    if (generator_state.defined()) op.backend->generator().set_state(generator_state);
  };
  const auto refused = [&](const std::string& what) { return op.refused(plan_.trace, what); };
  try {
    op.backend->begin_op(frame_);
    begun = true;
    std::optional<ops::Deterministic> deterministic;
    if (op.sums_at_indices) deterministic.emplace();
    op.handle->redispatchBoxed(op.backend->keys(), &stack_);
    deterministic.reset();
    settle_outputs(op);
  } catch (const c10::OutOfMemoryError& error) {
    finish();
    throw MemoryUnavailable(
        refused(error.what_without_backtrace()).what(), usage.workspace_bytes,
        op.backend->shares_host_memory() ? MemoryUnavailable::Owner::host : MemoryUnavailable::Owner::device);
  } catch (const c10::Error& error) {
    finish();
    throw refused(error.what_without_backtrace());
  } catch (const InternalError&) {
    finish();
    throw;
  } catch (const std::exception& error) {  // refusals of our own operators, and exceptions of other libraries
    finish();
    throw refused(error.what());
  }
  finish();
  if (usage.escaped_arena)  // no check(), which would format its message for every op
    throw InternalError("a kernel of " + op.op->name + " keeps memory that it was lent for one call");
  other_thread_bytes_ = std::max(other_thread_bytes_, usage.other_thread_bytes);
  if (guard_)
    if (CheckedOps* const checked = CheckedOps::current())
      checked->note_run(op.index, op.op->name, plan_.workspace_offsets[op.index] < 0 ? 0 : op.workspace_bytes,
                        usage.workspace_bytes);
  if (usage.out_of_arena_bytes > 0 && !usage.escaped) {
    int64_t& known = unplanned_[op.index];
    known = std::max(known, usage.workspace_bytes);
  }
  note_use(op);
}

// Copies outputs to their planned addresses if a kernel made them at other addresses. Most kernels request exactly
// their outputs, in order, and get the planned addresses. Exceptions are two outputs of one size in another order, or a
// view of another tensor.
void Executor::settle_outputs(BoundOp& op) {
  std::vector<std::pair<const at::Tensor*, at::Tensor>> moves;
  size_t next = 0;
  const auto settle = [&](const at::Tensor& made) {
    if (next >= op.results.size()) return;
    const at::Tensor& place = op.results[next++];
    if (!place.defined() || !made.defined()) return;
    if (made.sizes() != place.sizes() || made.scalar_type() != place.scalar_type())
      throw InternalError(fmt::format("{} made {} {} where {} {} was recorded", op.op->name,
                                      toString(made.scalar_type()), fmt::join(made.sizes(), "x"),
                                      toString(place.scalar_type()), fmt::join(place.sizes(), "x")));
    if (place.numel() > 0 && (made.const_data_ptr() != place.const_data_ptr() || made.strides() != place.strides()))
      moves.emplace_back(&place, made);
  };
  for (int position : op.result_positions) {
    const c10::IValue& value = stack_[position];
    if (value.isTensor())
      settle(value.toTensor());
    else if (value.isTensorList())
      for (const at::Tensor& tensor : value.toTensorVector()) settle(tensor);
    else
      ++next;
  }
  if (moves.empty()) {
    copied_.erase(op.index);
    return;
  }
  int64_t& bytes = copied_[op.index];
  bytes = 0;
  for (const auto& [place, made] : moves) bytes += static_cast<int64_t>(made.nbytes());
  // Outputs may overlap each other's addresses, or their own with other strides; storages do not show that.
  for (auto& [place, made] : moves) made = made.clone();
  for (auto& [place, made] : moves) place->copy_(made);
}

DeviceWork Executor::device_work() const {
  DeviceWork work = captures_.work();
  std::map<std::string, DeviceWork::CopiedResult> by_name;
  for (const auto& [index, bytes] : copied_) {
    const Op& op = plan_.trace.ops[index];
    if (op.phase == Phase::initialize) continue;
    DeviceWork::CopiedResult& entry = by_name[op.name];
    entry.op = op.name;
    ++entry.ops;
    entry.bytes += bytes;
  }
  for (auto& [name, entry] : by_name) work.copied_results.push_back(std::move(entry));
  return work;
}

namespace {

size_t hash_of(const View& view) {
  size_t hash = c10::get_hash(view.buffer, static_cast<int>(view.dtype), view.offset);
  for (int64_t size : view.sizes) hash = c10::hash_combine(hash, static_cast<size_t>(size));
  for (int64_t stride : view.strides) hash = c10::hash_combine(hash, static_cast<size_t>(stride));
  return hash;
}

// Returns a constant argument for the device.
c10::IValue on_device(const c10::IValue& value, c10::Device device) {
  if (value.isDevice() && value.toDevice().type() == kPlanDevice) return device;
  if (value.isGenerator()) return {};
  return value;
}

}  // namespace

Executor::~Executor() = default;

Arena* Executor::arena_of(Memory memory) const {
  return memory == Memory::device ? &arena_ : memory == Memory::host ? host_ : nullptr;
}

std::byte* Executor::address_in(Memory memory, int64_t offset) const {
  return (memory == Memory::disk ? disk_->data() : arena_of(memory)->data()) + offset;
}

std::byte* Executor::place_of(BufferId buffer) const {
  return plan_.offsets[buffer] < 0 ? nullptr : address_in(plan_.trace.buffers[buffer].memory, plan_.offsets[buffer]);
}

// Buffers in host memory belong to the CPU's backend, and so do the ops that the plan runs on the host.
Backend& Executor::backend_of(const Op& op) const {
  return op.on_host ? cpu_backend() : backend_;
}

Executor::Executor(const Plan& plan, Backend& backend, Arena& arena, Arena* host, DiskArena* disk)
    : plan_(plan),
      backend_(backend),
      arena_(arena),
      host_(host),
      disk_(disk),
      copy_numbers_(plan.trace.buffers.size(), 0),
      exchange_numbers_(plan.trace.buffers.size(), 0),
      copies_(backend.copy_engine()),
      exchanges_(backend.side_line(), backend.scratch_alignment()),
      captures_(backend, plan.trace) {
  check(arena.bytes() >= plan.arena_bytes, "the arena is smaller than the plan");
  check(plan.host_bytes == 0 || (host && host->bytes() >= plan.host_bytes),
        "the host's arena is smaller than the plan");
  check(plan.disk_bytes == 0 || (disk && disk->bytes() >= plan.disk_bytes),
        "the disk's arena is smaller than the plan");
  const size_t count = plan.trace.buffers.size();
  places_.reserve(count);
  for (size_t b = 0; b < count; ++b) {
    const Buffer& buffer = plan.trace.buffers[b];
    const int64_t offset = plan.offsets[b];
    if (offset < 0 || buffer.memory == Memory::disk)
      places_.push_back({c10::Storage(c10::Storage::use_byte_size_t(), static_cast<size_t>(buffer.bytes),
                                      c10::DataPtr(offset < 0 ? nullptr : disk->data() + offset, c10::kCPU),
                                      /*allocator=*/nullptr, /*resizable=*/false)});
    else if (buffer.memory == Memory::host)
      places_.push_back(cpu_backend().place(*host, offset, buffer.bytes));
    else
      places_.push_back(backend.place(arena, offset, buffer.bytes));
  }
  backend.prepare(plan);
  ops_.reserve(plan.trace.ops.size());
  const std::vector<FreeGap> gaps = largest_free_gaps(plan);
  for (size_t i = 0; i < plan.trace.ops.size(); ++i) {
    ops_.push_back(bind_op(static_cast<int32_t>(i)));
    // Scratch that is not in the plan gets memory in which no buffer is live.
    if (BoundOp& op = ops_.back(); op.workspace == nullptr && op.op->exchange == CopyStage::none && gaps[i].bytes > 0) {
      op.workspace = arena.data() + gaps[i].offset;
      op.workspace_bytes = gaps[i].bytes / kArenaAlignment * kArenaAlignment;
    }
  }
  for (const ConstantData& constant : plan.trace.constants) {
    check(plan.offsets[constant.buffer] >= 0, "a constant without a place");
    if (plan.trace.buffers[constant.buffer].on_device())
      backend.write(arena, plan.offsets[constant.buffer], constant.bytes.data(),
                    static_cast<int64_t>(constant.bytes.size()));
    else
      std::copy(constant.bytes.begin(), constant.bytes.end(), place_of(constant.buffer));
  }
}

const at::Tensor& Executor::bind(const View& view) {
  auto& bucket = tensors_[hash_of(view)];
  for (const auto& [key, tensor] : bucket)
    if (key == view) return tensor;
  const Backend::Place& place = places_[view.buffer];
  const bool on_device = plan_.trace.buffers[view.buffer].on_device() && plan_.offsets[view.buffer] >= 0;
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(place.storage), on_device ? backend_.keys() : c10::DispatchKeySet(c10::DispatchKey::CPU),
      c10::scalarTypeToTypeMeta(scalar_type_of(view.dtype)));
  tensor.unsafeGetTensorImpl()->set_storage_offset(place.offset / element_bytes(view.dtype) + view.offset);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(view.sizes, view.strides);
  bucket.emplace_back(view, std::move(tensor));
  return bucket.back().second;
}

at::Tensor Executor::tensor(const View& view) {
  return bind(view);
}

void Executor::write(const View& view, const void* source, int64_t bytes) {
  const int64_t begin = plan_.offsets[view.buffer] + view.offset * element_bytes(view.dtype);
  if (plan_.trace.buffers[view.buffer].on_device())
    backend_.write(arena_, begin, source, bytes);
  else
    std::memcpy(address_in(plan_.trace.buffers[view.buffer].memory, begin), source, static_cast<size_t>(bytes));
}

void Executor::read(const View& view, void* target, int64_t bytes) {
  const int64_t begin = plan_.offsets[view.buffer] + view.offset * element_bytes(view.dtype);
  if (plan_.trace.buffers[view.buffer].on_device())
    backend_.read(arena_, begin, target, bytes);
  else
    std::memcpy(target, address_in(plan_.trace.buffers[view.buffer].memory, begin), static_cast<size_t>(bytes));
}

Executor::BoundOp Executor::bind_op(int32_t index) {
  const Op& op = plan_.trace.ops[index];
  BoundOp bound{index, &op, &backend_of(op), {}, {}, {}, {}, {}};
  for_each_view(op, [&](const View& view, bool) {
    const int64_t end = plan_.offsets[view.buffer] + placed_bytes(plan_.trace, plan_.trace.buffers[view.buffer].bytes);
    int64_t& extent = bound.extents[static_cast<int>(plan_.trace.buffers[view.buffer].memory)];
    if (plan_.offsets[view.buffer] >= 0) extent = std::max(extent, end);
  });
  if (op.copy != CopyStage::none || op.exchange == CopyStage::wait) return bound;
  bound.handle = op.call->op;
  const std::string& name = bound.handle->schema().name();
  bound.sums_at_indices = (name == "aten::_index_put_impl_" || name == "aten::index_put_") &&
                          op.call->constants.at(3).toBool() && bound.backend->device().is_cpu();
  const auto& schema = bound.handle->schema();
  const size_t arguments = schema.arguments().size();
  if (op.exchange == CopyStage::start && op.arguments.size() > arguments) {  // receives parts of a sum
    const BufferId landing = op.arguments[arguments].views[0].buffer;
    bound.workspace = place_of(landing);
    bound.workspace_bytes = plan_.trace.buffers[landing].bytes;
  }
  for (size_t i = 0; i < std::min(op.arguments.size(), arguments); ++i) {
    const Argument& argument = op.arguments[i];
    const auto tensor_of = [&](const View& view) { return view.buffer == kNoBuffer ? at::Tensor() : bind(view); };
    switch (argument.kind) {
      case Argument::Kind::constant:
        bound.arguments.push_back(on_device(op.call->constants[i], bound.backend->device()));
        break;
      case Argument::Kind::tensor:
        bound.arguments.emplace_back(tensor_of(argument.views[0]));
        break;
      case Argument::Kind::tensor_list: {
        const bool optional = schema.arguments()[i].type()->isSubtypeOf(*c10::ListType::ofOptionalTensors()) &&
                              !schema.arguments()[i].type()->isSubtypeOf(*c10::ListType::ofTensors());
        c10::List<at::Tensor> tensors;
        c10::List<std::optional<at::Tensor>> optional_tensors;
        for (const View& view : argument.views) {
          const at::Tensor tensor = tensor_of(view);
          if (optional)
            optional_tensors.push_back(tensor.defined() ? std::optional(tensor) : std::nullopt);
          else
            tensors.push_back(tensor);
        }
        bound.arguments.push_back(optional ? c10::IValue(optional_tensors) : c10::IValue(tensors));
        break;
      }
    }
  }
  for (const View& view : op.results) {
    if (view.buffer == kNoBuffer) {
      bound.results.emplace_back();
      continue;
    }
    bound.results.push_back(bind(view));
    if (const int64_t bytes = plan_.trace.buffers[view.buffer].bytes; bytes > 0)
      bound.outputs.push_back({static_cast<size_t>(bytes), place_of(view.buffer)});
  }
  // After the call, the stack has outputs written in place too, between the fresh ones.
  for (size_t i = 0; i < schema.returns().size(); ++i)
    if (schema.returns()[i].alias_info() == nullptr) bound.result_positions.push_back(static_cast<int>(i));
  if (plan_.workspace_offsets[index] >= 0) {
    const Memory runs_in = op.on_host ? Memory::host : Memory::device;
    bound.workspace = address_in(runs_in, plan_.workspace_offsets[index]);
    bound.workspace_bytes = op.workspace_bytes;
    // Scratch by rule belongs to the op for its duration, like an operand, even if its kernel does not use all of it.
    int64_t& extent = bound.extents[static_cast<int>(runs_in)];
    extent = std::max(extent, plan_.workspace_offsets[index] + op.workspace_bytes);
  }
  return bound;
}

}  // namespace plimsoll
