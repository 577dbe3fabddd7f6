#include "run/executor/executor.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/hash.h"
#include "collectives/exchange.h"
#include "ops/deterministic.h"
#include "plimsoll/error.h"
#include "run/executor/bound_op.h"

namespace plimsoll {
namespace {

uint64_t seed_of(const RandomContext& random, int64_t random_id) {
  uint64_t seed = splitmix64(random.seed);
  seed = splitmix64(seed ^ static_cast<uint64_t>(random.step));
  seed = splitmix64(seed ^ static_cast<uint64_t>(random.micro));
  return splitmix64(seed ^ static_cast<uint64_t>(random_id));
}

}  // namespace

void Executor::run(const Segment& segment, const RandomContext& random) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  try {
    if (disk_) disk_->require_written();  // errors found after the last wait
    random_ = random;
    if (observer_ == nullptr) {
      captures_.run(
          segment, [this](int32_t i) { run_one(ops_[i]); }, unplanned_.empty());
      return;
    }
    for (int32_t i = segment.begin; i < segment.end; ++i) {
      const auto begin = ProfileClock::now();
      run_one(ops_[i]);
      ops_[i].backend->synchronize();
      observer_->ran(i, {begin, ProfileClock::now()});
    }
  } catch (...) {
    std::exception_ptr cause;  // an exchange that failed before the op that reported it
    try {
      // The caller of a failed run may free the memory that exchanges and copies use.
      const std::exception_ptr failed = exchanges_.wait_for_all();
      copies_->wait_for_all();
      if (failed) cause = failed;
    } catch (...) {  // a failed device reports its error at every call; the first exception has the op and its module
    }
    if (cause) std::rethrow_exception(cause);
    throw;
  }
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
  if (moves.empty()) return;
  // Outputs may overlap each other's addresses, or their own with other strides; storages do not show that.
  for (auto& [place, made] : moves) made = made.clone();
  for (auto& [place, made] : moves) place->copy_(made);
}

}  // namespace plimsoll
