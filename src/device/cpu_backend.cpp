#include "device/cpu_backend.h"

#include <ATen/CPUGeneratorImpl.h>

#include <cstring>

#include "device/copy_thread.h"
#include "device/cpu_allocator.h"
#include "device/cpu_arena.h"
#include "device/cpu_workspace.h"
#include "device/host_memory.h"
#include "device/relocation.h"

namespace plimsoll {
namespace {

class CpuBackend final : public Backend {
 public:
  CpuBackend() { cpu_allocator::install(); }

  std::string name() const override { return "cpu"; }
  c10::Device device() const override { return c10::kCPU; }
  c10::DispatchKeySet keys() const override { return c10::DispatchKeySet(c10::DispatchKey::CPU); }

  std::unique_ptr<Arena> allocate_arena(int64_t bytes, int64_t max_bytes) override {
    return std::make_unique<CpuArena>(bytes, max_bytes);
  }
  std::unique_ptr<Arena> allocate_host_arena(int64_t bytes, int64_t max_bytes) override {
    return allocate_arena(bytes, max_bytes);
  }
  Place place(Arena& arena, int64_t offset, int64_t bytes) const override {
    return {c10::Storage(c10::Storage::use_byte_size_t(), static_cast<size_t>(bytes),
                         c10::DataPtr(arena.data() + offset, c10::kCPU), /*allocator=*/nullptr, /*resizable=*/false)};
  }

  void begin_op(AllocationFrame& frame) override { cpu_allocator::begin_op(frame); }
  int64_t end_op() override { return cpu_allocator::end_op(); }
  WorkspaceModel workspace_model(int threads) const override { return cpu_workspace_model(threads); }
  int64_t out_of_arena_peak() const override { return cpu_allocator::out_of_arena_peak(); }
  void reset_out_of_arena_peak() override { cpu_allocator::reset_out_of_arena_peak(); }

  int64_t out_of_arena_allocations() const override { return cpu_allocator::out_of_arena_allocations(); }
  std::optional<int64_t> available_bytes() const override { return current_host_memory(); }
  bool shares_host_memory() const override { return true; }

  at::Generator generator() const override { return at::detail::getDefaultCPUGenerator(); }

  std::unique_ptr<CopyEngine> copy_engine() override { return std::make_unique<CopyThread>(); }
  void write(Arena& arena, int64_t offset, const void* source, int64_t bytes) override {
    if (bytes > 0) std::memcpy(arena.data() + offset, source, static_cast<size_t>(bytes));
  }
  void read(const Arena& arena, int64_t offset, void* target, int64_t bytes) override {
    if (bytes > 0) std::memcpy(target, arena.data() + offset, static_cast<size_t>(bytes));
  }
  void zero(Arena& arena) override { std::memset(arena.data(), 0, static_cast<size_t>(arena.bytes())); }
  void relocate(std::vector<Relocation> relocations) override { relocate_on_host(std::move(relocations)); }
  int64_t relocation_scratch_bytes(int64_t bytes) const override { return plimsoll::relocation_scratch_bytes(bytes); }
  void synchronize() override {}
};

}  // namespace

Backend& cpu_backend() {
  static auto* backend = new CpuBackend;  // never destroyed: arenas and executors of static lifetime may outlive a
                                          // static object
  return *backend;
}

}  // namespace plimsoll
