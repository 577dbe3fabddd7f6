// Declares Backend: memory, kernels and copies of a device, for the executor. Declares the backends of the CPU, of
// NVIDIA devices, and of devices that only libtorch knows. Nothing outside this folder knows which device it is.
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
#include "plimsoll/planner.h"

namespace plimsoll {

/// A range of bytes to copy from one address to another. Both addresses and `bytes` are multiples of kRelocationUnit.
struct Relocation {
  std::byte* from = nullptr;
  std::byte* to = nullptr;
  int64_t bytes = 0;
};

/// A second line of ops (a CUDA stream), for a thread other than the executor's.
class SideLine {
 public:
  virtual ~SideLine() = default;
  /// Orders the next run() after the ops that were run so far. The executor's thread calls it once for each run(), in
  /// the same order.
  virtual void follow() = 0;
  /// Calls `op` on the line; allocations of `op` are answered by `frame`. Its results exist when the device has done
  /// the work on the line. An op that waits for the device itself is done when this function returns.
  virtual void run(AllocationFrame& frame, const std::function<void()>& op) = 0;
};

/// A sequence of ops that the device runs by itself after it was captured (a CUDA graph).
class CapturedOps {
 public:
  virtual ~CapturedOps() = default;
  virtual void launch() = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;

  /// Returns the human-readable name: "cpu", "NVIDIA H200".
  virtual std::string name() const = 0;
  /// Returns the libtorch device of its tensors.
  virtual c10::Device device() const = 0;
  /// Returns the dispatch keys that select kernels for its tensors.
  virtual c10::DispatchKeySet keys() const = 0;

  /// Allocates memory of the device. `max_bytes`: bytes that the arena may have to grow to. Throws MemoryUnavailable.
  virtual std::unique_ptr<Arena> allocate_arena(int64_t bytes, int64_t max_bytes = 0) = 0;
  /// Allocates memory of the host that the device can copy from and to while ops run.
  virtual std::unique_ptr<Arena> allocate_host_arena(int64_t bytes, int64_t max_bytes = 0) = 0;
  /// The storage of a range of one of its arenas, and the byte offset of the range in it. On a device without
  /// addresses, all tensors are views of one storage.
  struct Place {
    c10::Storage storage;
    int64_t offset = 0;
  };
  virtual Place place(Arena& arena, int64_t offset, int64_t bytes) const = 0;

  /// Begins an op: until end_op(), `frame` answers the allocations that kernels on this thread request from the
  /// device's allocator.
  virtual void begin_op(AllocationFrame& frame) = 0;
  /// Ends an op. Returns its other_thread_bytes (AllocationFrame::Usage).
  virtual int64_t end_op() = 0;
  /// Returns the alignment of scratch, in bytes.
  virtual int64_t scratch_alignment() const { return 64; }
  /// Returns the bytes that are available now; nullopt: not known.
  virtual std::optional<int64_t> available_bytes() const = 0;
  /// Returns true if its arenas are host memory as well.
  virtual bool shares_host_memory() const = 0;
  /// Returns the scratch that kernels allocate by rule; the scratch of other kernels is measured.
  virtual WorkspaceModel workspace_model(int threads) const = 0;
  /// Returns the largest number of bytes allocated outside arenas at one time while ops ran, since the last reset.
  virtual int64_t out_of_arena_peak() const = 0;
  virtual void reset_out_of_arena_peak() = 0;

  /// Returns the number of allocations outside arenas since the process began.
  virtual int64_t out_of_arena_allocations() const = 0;

  /// Returns the generator that its random kernels draw from if they are passed none.
  virtual at::Generator generator() const = 0;

  /// Prepares resources other than memory for the ops of a plan: kernels that are compiled for them. Called before any
  /// of these ops runs. Throws UserError (failure) if they cannot be prepared.
  virtual void prepare(const Plan& plan) {}

  /// Returns a new copy engine; each executor has one.
  virtual std::unique_ptr<CopyEngine> copy_engine() = 0;
  /// Returns a line for one more thread; nullptr: an op is done when it returns, on any thread.
  virtual std::unique_ptr<SideLine> side_line() { return nullptr; }
  /// Copies to the device, after the ops that were run so far and before those run from now on. The source may be
  /// reused when it returns.
  virtual void write(Arena& arena, int64_t offset, const void* source, int64_t bytes) = 0;
  /// Copies from the device, after the ops that were run so far; the target has the data when it returns.
  virtual void read(const Arena& arena, int64_t offset, void* target, int64_t bytes) = 0;
  /// Fills an arena of this backend with zeros.
  virtual void zero(Arena& arena) = 0;
  /// Copies all ranges of `relocations` as if from a snapshot of the memory. No two old ranges may overlap, and no two
  /// new ranges.
  virtual void relocate(std::vector<Relocation> relocations) = 0;
  /// Returns an upper bound of the host memory in bytes that relocate() allocates to move `bytes` bytes.
  virtual int64_t relocation_scratch_bytes(int64_t bytes) const = 0;
  /// Returns when all ops and copies are done. Throws UserError (failure) for errors that kernels reported late.
  virtual void synchronize() = 0;
  /// Returns when all work of this process on the device is done, on every stream.
  virtual void synchronize_device() { synchronize(); }

  /// Returns true if the device can capture a sequence of ops.
  virtual bool captures() const { return false; }
  /// Runs `ops`, which the device records without executing them. Returns nullptr if that failed; nothing has been
  /// executed then.
  virtual std::unique_ptr<CapturedOps> capture(const std::function<void()>& ops) { return nullptr; }
  /// Returns the reason of the last failed capture; empty: none failed.
  virtual std::string capture_refusal() const { return {}; }
};

/// Returns the backend of a job's `device`: cpu, cuda, rocm, mps. It lives as long as the process. Throws UserError
/// (failure) if there is no such device, or if this build has no support for it, and says what is missing.
Backend& backend_for(const std::string& device);

/// Registers a backend of the program's own under a name, for TrainingOptions::device. It must live as long as
/// trainings that use it.
void add_backend(const std::string& device, Backend& backend);

/// Returns the alignment in bytes of offsets in that device's arenas; known on any machine.
int64_t place_alignment(const std::string& device);

/// Returns the backend as backend_for(), or nullptr instead of an error: a step can be planned for any device on any
/// machine.
Backend* find_backend(const std::string& device);

}  // namespace plimsoll

namespace plimsoll::backend_library {

/// Returns the backend of "cuda", opened on first use. It is a library of its own: machines without such a device need
/// neither it nor the libraries that it links. Returns nullptr and sets `missing` to the reason if there is no driver,
/// no device or no library.
Backend* open_cuda(std::string& missing);

/// Loads libtorch's kernels for ROCm, which are installed next to libtorch if it is built for ROCm. Returns false and
/// sets `missing` to the reason if they do not exist or cannot be loaded.
bool load_hip(std::string& missing);

/// Type of libplimsoll_cuda's entry point, `extern "C" plimsoll_open_backend`.
using OpenBackend = Backend* (*)(std::string& missing);

}  // namespace plimsoll::backend_library

namespace plimsoll {

/// Returns the backend of the CPU, which lives as long as the process. Kernels run on the caller's thread, memory is
/// the machine's, and a thread makes the copies.
Backend& cpu_backend();

/// Returns a backend for any device that libtorch has kernels for, through libtorch alone. It serves devices whose
/// memory has no addresses for arithmetic (Metal), and devices of which nothing else is known here. Its arena is one
/// tensor of bytes of the device, and its tensors are views of it. Kernels' own allocations come from the framework's
/// allocator, uncounted; an output made there is copied to its planned offset. Copies wait for each other. Returns
/// nullptr if libtorch has no such device here.
Backend* generic_backend(c10::DeviceType type);

}  // namespace plimsoll
