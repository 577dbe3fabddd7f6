// What a device is to the executor: memory, kernels, copies. Nothing outside this folder knows which device it is.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/Storage.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/allocation_frame.h"
#include "device/arena.h"
#include "device/copy_engine.h"
#include "plimsoll/plan.h"

namespace plimsoll {

/// `bytes` from one place to another. Both start at, and `bytes` is, a multiple of kMoveUnit.
struct ByteMove {
  std::byte* from = nullptr;
  std::byte* to = nullptr;
  int64_t bytes = 0;
};

/// A second line of ops, for a thread beside the one that runs the executor's (a CUDA stream).
class SideLine {
 public:
  virtual ~SideLine() = default;
  /// Orders the next run() after the ops that were run so far. The executor's thread calls it once for each run(), in
  /// the same order.
  virtual void follow() = 0;
  /// Calls `op` on the line; what it asks the device's allocator for is asked of `frame`. The results of `op` are there
  /// when the device has done what is on the line; an op that waits for the device itself is done when this returns.
  virtual void run(AllocationFrame& frame, const std::function<void()>& op) = 0;
};

/// A sequence of ops that the device runs by itself once it has been handed over (a CUDA graph).
class CapturedOps {
 public:
  virtual ~CapturedOps() = default;
  virtual void launch() = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;

  /// As people know it: "cpu", "NVIDIA H200".
  virtual std::string name() const = 0;
  /// Where its tensors are.
  virtual c10::Device device() const = 0;
  /// What kernels for its tensors are found by.
  virtual c10::DispatchKeySet keys() const = 0;

  /// Takes memory of the device. `most`: it may have to grow to so much. Throws MemoryUnavailable.
  virtual std::unique_ptr<Arena> take_arena(int64_t bytes, int64_t most = 0) = 0;
  /// Takes memory of the host, such as the device copies from and to while ops run.
  virtual std::unique_ptr<Arena> take_host_arena(int64_t bytes, int64_t most = 0) = 0;
  /// The storage of a range of one of its arenas, and the offset in it, bytes, at which that begins: tensors of a
  /// device without addresses are all views of one storage.
  struct Place {
    c10::Storage storage;
    int64_t offset = 0;
  };
  virtual Place place(Arena& arena, int64_t offset, int64_t bytes) const = 0;

  /// From here to end_op() what kernels ask the device's allocator for, on this thread, is asked of `frame`.
  virtual void begin_op(AllocationFrame& frame) = 0;
  /// Gives beside_bytes (AllocationFrame::Usage) of the op.
  virtual int64_t end_op() = 0;
  /// Of scratch, bytes.
  virtual int64_t scratch_alignment() const { return 64; }
  /// What it has left now, in bytes; nullopt: not known.
  virtual std::optional<int64_t> available_bytes() const = 0;
  /// Whether its arenas are the host's memory as well.
  virtual bool shares_host_memory() const = 0;
  /// Scratch that kernels take by rule; others' is learned.
  virtual WorkspaceModel workspace_model(int threads) const = 0;
  /// The most bytes at a time that were taken outside arenas while ops ran, since the last reset.
  virtual int64_t outside_peak() const = 0;
  virtual void reset_outside_peak() = 0;

  /// How often memory was taken so, since the process began.
  virtual int64_t outside_allocations() const = 0;

  /// The generator that its random kernels draw from where they are given none.
  virtual at::Generator generator() const = 0;

  /// Makes what the ops of a plan need beside memory: kernels that are compiled for them. Called before any of them
  /// runs. Throws UserError (failure) where that cannot be had.
  virtual void prepare(const Plan& plan) {}

  /// One for each executor.
  virtual std::unique_ptr<CopyEngine> copy_engine() = 0;
  /// A line for one more thread. nullptr: an op is done when it returns, on whatever thread.
  virtual std::unique_ptr<SideLine> side_line() { return nullptr; }
  /// Copies to the device, after the ops that were run so far and before those run from now on. The source is free
  /// when it returns.
  virtual void write(Arena& arena, int64_t offset, const void* source, int64_t bytes) = 0;
  /// Copies from the device, after the ops that were run so far; what was read is there when it returns.
  virtual void read(const Arena& arena, int64_t offset, void* target, int64_t bytes) = 0;
  /// Fills an arena of its own with zeros.
  virtual void zero(Arena& arena) = 0;
  /// Carries out all of `moves`, as if by a copy of everything. No two may have a byte of their old places in common,
  /// nor of their new ones.
  virtual void move_all(std::vector<ByteMove> moves) = 0;
  /// Host memory that this takes at the most where `bytes` are moved.
  virtual int64_t scratch_of_moves(int64_t bytes) const = 0;
  /// Returns when all ops and copies are done. Throws UserError (failure) for what a kernel found out only now.
  virtual void synchronize() = 0;
  /// Returns when everything is done that anybody in this process asked the device for, on whatever stream.
  virtual void synchronize_device() { synchronize(); }

  /// Whether it can take a sequence of ops as one.
  virtual bool captures() const { return false; }
  /// Runs `ops`, which the device takes down without doing them. nullptr: it could not; nothing has been done.
  virtual std::unique_ptr<CapturedOps> capture(const std::function<void()>& ops) { return nullptr; }
  /// Why it last could not; empty: it always could.
  virtual std::string capture_refusal() const { return {}; }
};

/// The backend of a job's `device`: cpu, cuda, rocm, mps. It lives as long as the process. Throws UserError (failure)
/// where there is none of that kind, or this build has no support for it, saying what is missing.
Backend& backend_for(const std::string& device);

/// Makes a backend of the program's own known by a name, for TrainingOptions::device. It must live as long as trainings
/// that use it.
void add_backend(const std::string& device, Backend& backend);

/// What offsets in that device's arenas are multiples of, bytes; known on any machine.
int64_t place_alignment(const std::string& device);

/// The same as backend_for(), or nullptr: a step can be planned for any device on any machine.
Backend* find_backend(const std::string& device);

}  // namespace plimsoll
