#include "device/generic_backend.h"

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "device/cpu_arena.h"
#include "device/device_memory.h"
#include "device/host_memory.h"
#include "device/relocation.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

at::Tensor bytes_at(const void* address, int64_t bytes) {
  return at::from_blob(const_cast<void*>(address), {bytes}, at::TensorOptions().dtype(at::kByte));
}

class TensorArena;

// A list of a backend's arenas, found by an address.
class ArenaList {
 public:
  void add(const TensorArena* arena) {
    const std::lock_guard lock(mutex_);
    arenas_.push_back(arena);
  }
  void remove(const TensorArena* arena) {
    const std::lock_guard lock(mutex_);
    std::erase(arenas_, arena);
  }
  // Returns a range of an arena, or of the host's memory, by its address.
  at::Tensor bytes_of(const std::byte* address, int64_t bytes) const;

 private:
  mutable std::mutex mutex_;
  std::vector<const TensorArena*> arenas_;
};

// An arena that is a tensor of bytes. Its addresses are a reserved range without memory: they name offsets, and an
// access faults.
class TensorArena final : public Arena {
 public:
  TensorArena(ArenaList& list, c10::Device device, int64_t bytes, int64_t max_bytes)
      : list_(list), device_(device), reserved_(std::max(2 * bytes, max_bytes) + GiB) {
    void* const range = mmap(nullptr, reserved_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) throw MemoryUnavailable("the machine has no address space for an arena", bytes);
    names_ = static_cast<std::byte*>(range);
    try {
      grow(bytes);
    } catch (...) {
      munmap(names_, reserved_);
      throw;
    }
    list_.add(this);
  }
  ~TensorArena() override {
    list_.remove(this);
    munmap(names_, reserved_);
  }
  TensorArena(const TensorArena&) = delete;
  TensorArena& operator=(const TensorArena&) = delete;

  std::byte* data() const override { return names_; }
  int64_t bytes() const override { return tensor_.defined() ? tensor_.numel() : 0; }

  // Grows by a copy: for its duration the old and the new tensor both exist, because the framework cannot extend a
  // tensor.
  void grow(int64_t bytes) override {
    const int64_t had = this->bytes();
    if (bytes <= had) return;
    try {
      at::Tensor larger = at::empty({bytes}, at::TensorOptions().dtype(at::kByte).device(device_));
      if (had > 0) larger.narrow(0, 0, had).copy_(tensor_);
      larger.narrow(0, had, bytes - had).fill_(0xff);
      tensor_ = std::move(larger);
    } catch (const c10::Error& error) {
      const std::string what = error.what_without_backtrace();
      throw MemoryUnavailable(fmt::format("{} has no memory for an arena of {}: {}", device_.str(), format_bytes(bytes),
                                          what.substr(0, what.find('\n'))),
                              bytes,
                              device_.is_mps() ? MemoryUnavailable::Owner::host : MemoryUnavailable::Owner::device);
    }
  }

  // Searches from the end, a piece at a time.
  int64_t touched_bytes() const override {
    constexpr int64_t kPiece = int64_t{16} << 20;
    for (int64_t end = bytes(); end > 0; end -= std::min(end, kPiece)) {
      const int64_t size = std::min(end, kPiece);
      const at::Tensor piece = range(end - size, size).cpu();
      const auto* values = piece.const_data_ptr<uint8_t>();
      for (int64_t i = size; i > 0; --i)
        if (values[i - 1] != 0xff) return end - size + i;
    }
    return 0;
  }

  const at::Tensor& tensor() const { return tensor_; }
  at::Tensor range(int64_t offset, int64_t bytes) const { return tensor_.narrow(0, offset, bytes); }
  bool names(const std::byte* address) const { return address >= names_ && address < names_ + bytes(); }

 private:
  ArenaList& list_;
  c10::Device device_;
  int64_t reserved_;
  std::byte* names_ = nullptr;
  at::Tensor tensor_;
};

at::Tensor ArenaList::bytes_of(const std::byte* address, int64_t bytes) const {
  const std::lock_guard lock(mutex_);
  for (const TensorArena* arena : arenas_)
    if (arena->names(address)) return arena->range(address - arena->data(), bytes);
  return bytes_at(address, bytes);
}

class WaitingCopies final : public CopyEngine {
 public:
  WaitingCopies(const ArenaList& arenas, Backend& backend) : arenas_(arenas), backend_(backend) {}

  int64_t start(std::byte* target, const std::byte* source, size_t bytes, std::function<void()> then,
                std::function<void()> first) override {
    if (first) first();
    const auto count = static_cast<int64_t>(bytes);
    arenas_.bytes_of(target, count).copy_(arenas_.bytes_of(source, count));
    if (then) then();
    return ++copies_;
  }
  void wait(int64_t copy) override {}
  void wait_on_host(int64_t copy) override { backend_.synchronize(); }
  void wait_for_all() override { backend_.synchronize(); }

 private:
  const ArenaList& arenas_;
  Backend& backend_;
  int64_t copies_ = 0;
};

class GenericBackend final : public Backend {
 public:
  explicit GenericBackend(c10::DeviceType type) : device_(type, 0) {}

  std::string name() const override { return device_.str(); }
  c10::Device device() const override { return device_; }
  c10::DispatchKeySet keys() const override {
    return c10::DispatchKeySet(c10::computeDispatchKey(at::kFloat, at::kStrided, device_));
  }

  std::unique_ptr<Arena> allocate_arena(int64_t bytes, int64_t max_bytes) override {
    return std::make_unique<TensorArena>(arenas_, device_, bytes, max_bytes);
  }
  std::unique_ptr<Arena> allocate_host_arena(int64_t bytes, int64_t max_bytes) override {
    return std::make_unique<CpuArena>(bytes, max_bytes);
  }
  Place place(Arena& arena, int64_t offset, int64_t bytes) const override {
    return {dynamic_cast<TensorArena&>(arena).tensor().storage(), offset};
  }

  void begin_op(AllocationFrame& frame) override {}
  int64_t end_op() override { return 0; }
  WorkspaceModel workspace_model(int threads) const override { return {}; }
  std::optional<int64_t> available_bytes() const override {
    const std::optional<DeviceMemory> memory = device_.is_mps()    ? metal_memory()
                                               : device_.is_cuda() ? hip_memory()  // libtorch's name for ROCm
                                                                   : std::nullopt;
    return memory ? std::optional(memory->free) : std::nullopt;
  }
  bool shares_host_memory() const override { return device_.is_mps(); }
  int64_t out_of_arena_peak() const override { return 0; }
  void reset_out_of_arena_peak() override {}
  int64_t out_of_arena_allocations() const override { return 0; }

  // Returns the device's generator, or the CPU's if libtorch has none for the device.
  at::Generator generator() const override {
    return at::globalContext().defaultGenerator(at::isAccelerator(device_.type()) ? device_ : c10::Device(c10::kCPU));
  }

  std::unique_ptr<CopyEngine> copy_engine() override { return std::make_unique<WaitingCopies>(arenas_, *this); }
  void write(Arena& arena, int64_t offset, const void* source, int64_t bytes) override {
    dynamic_cast<TensorArena&>(arena).range(offset, bytes).copy_(bytes_at(source, bytes));
  }
  void read(const Arena& arena, int64_t offset, void* target, int64_t bytes) override {
    bytes_at(target, bytes).copy_(dynamic_cast<const TensorArena&>(arena).range(offset, bytes));
  }
  void zero(Arena& arena) override { at::Tensor(dynamic_cast<TensorArena&>(arena).tensor()).zero_(); }

  void relocate(std::vector<Relocation> relocations) override {
    relocate_by_copies(
        std::move(relocations),
        [&](void* to, const std::byte* from, int64_t bytes) {
          bytes_at(to, bytes).copy_(arenas_.bytes_of(from, bytes));
        },
        [&](std::byte* to, const void* from, int64_t bytes) {
          arenas_.bytes_of(to, bytes).copy_(bytes_at(from, bytes));
        });
  }
  int64_t relocation_scratch_bytes(int64_t bytes) const override { return bytes; }
  void synchronize() override { c10::impl::VirtualGuardImpl(device_.type()).synchronizeDevice(device_.index()); }

 private:
  const c10::Device device_;
  ArenaList arenas_;
};

}  // namespace

Backend* generic_backend(c10::DeviceType type) {
  static std::mutex mutex;
  static auto* backends = new std::map<c10::DeviceType, std::unique_ptr<Backend>>;
  if (!c10::impl::hasDeviceGuardImpl(type) || c10::impl::getDeviceGuardImpl(type)->deviceCount() < 1) return nullptr;
  const std::lock_guard lock(mutex);
  std::unique_ptr<Backend>& backend = (*backends)[type];
  if (!backend) backend = std::make_unique<GenericBackend>(type);
  return backend.get();
}

}  // namespace plimsoll
