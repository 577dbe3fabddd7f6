#include "device/backend.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/Device.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>

#include "device/arena.h"
#include "device/available_memory.h"
#include "device/copy_engine.h"
#include "device/cpu_allocator.h"
#include "device/kernel_scratch.h"
#include "device/relocation.h"
#include "ops/torch_version.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

struct Found {
  Backend* backend = nullptr;
  std::string missing;  ///< reason why there is none
};

std::mutex added_mutex;
std::map<std::string, Backend*>& added() {
  static auto* backends = new std::map<std::string, Backend*>;
  return *backends;
}

Found look_for(const std::string& device) {
  {
    const std::lock_guard lock(added_mutex);
    if (const auto found = added().find(device); found != added().end()) return {found->second, {}};
  }
  if (device == "cpu") return {&cpu_backend(), {}};
  if (device == "cuda") {
    Found found;
    found.backend = backend_library::open_cuda(found.missing);
    return found;
  }
  if (device == "rocm") {  // libtorch built for ROCm names its devices as CUDA's
    Found found;
    if (backend_library::load_hip(found.missing)) found.backend = generic_backend(c10::kCUDA);
    if (!found.backend && found.missing.empty()) found.missing = "the HIP runtime shows no device to this program";
    return found;
  }
  if (device == "mps") {
    if (Backend* backend = generic_backend(c10::kMPS)) return {backend, {}};
    return {nullptr, "this build of libtorch has no Metal device here"};
  }
  return {nullptr, "there is no such device; allowed are cpu, cuda, rocm, mps"};
}

// Alignment of addresses from cudaMalloc: cuBLASLt chooses a kernel by its operands' alignment, up to this many bytes.
constexpr int64_t kCudaAlignment = 256;

}  // namespace

int64_t place_alignment(const std::string& device) {
  return device == "cuda" || device == "rocm" ? kCudaAlignment : kArenaAlignment;
}

void add_backend(const std::string& device, Backend& backend) {
  const std::lock_guard lock(added_mutex);
  added()[device] = &backend;
}

Backend* find_backend(const std::string& device) {
  return look_for(device).backend;
}

Backend& backend_for(const std::string& device) {
  const Found found = look_for(device);
  if (found.backend) return *found.backend;
  throw UserError(
      fmt::format("device '{}' cannot be used: {}; a plan needs no device: 'plimsoll plan JOB.yaml --gpu NAME'", device,
                  found.missing),
      UserError::Kind::failure);
}

}  // namespace plimsoll

namespace plimsoll::backend_library {
namespace {

constexpr const char* kLibrary = "libplimsoll_cuda.so.0";
constexpr const char* kSymbol = "plimsoll_open_backend";

// Loads a library, which stays loaded because its kernels are registered. Returns nullptr and sets `reason` to the
// loader's if that fails.
void* load(const std::string& library, std::string& reason) {
  void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const message = ::dlerror();
    reason = message ? message : "no reason given";
  }
  return handle;
}

// Returns the path of a file next to the library that contains `function`, or only its name, for the system's search
// path.
std::string beside(const void* function, const std::string& name) {
  Dl_info library{};
  if (::dladdr(const_cast<void*>(function), &library) == 0 || library.dli_fname == nullptr) return name;
  const auto path = std::filesystem::path(library.dli_fname).parent_path() / name;
  return std::filesystem::exists(path) ? path.string() : name;
}

Backend* open(std::string& missing) {
  std::string reason;
  // Checked first: without a driver, loading gigabytes of kernels is useless, and its error message says less.
  if (load("libcuda.so.1", reason) == nullptr) {
    missing = "there is no NVIDIA driver on this machine (libcuda.so.1)";
    return nullptr;
  }
  void* const library = load(beside(reinterpret_cast<const void*>(&open_cuda), kLibrary), reason);
  if (library == nullptr) {
    missing = fmt::format(
        "{} cannot be loaded ({}); it needs torch's CUDA libraries beside libtorch: 'make setup' installs them where "
        "there is an NVIDIA device, and for a program that pip installed 'pip install torch=={}' does",
        kLibrary, reason, TORCH_VERSION);
    return nullptr;
  }
  const auto open_backend = reinterpret_cast<OpenBackend>(::dlsym(library, kSymbol));
  if (open_backend == nullptr) {
    missing = fmt::format("{} is of another build of Plimsoll", kLibrary);
    return nullptr;
  }
  return open_backend(missing);
}

}  // namespace

Backend* open_cuda(std::string& missing) {
  static std::string reason;
  static Backend* const backend = open(reason);
  missing = reason;
  return backend;
}

bool load_hip(std::string& missing) {
  static std::string reason;
  static void* const library =
      load(beside(reinterpret_cast<const void*>(&c10::isValidDeviceType), "libtorch_hip.so"), reason);
  if (library == nullptr)
    missing = fmt::format("this libtorch is not one for ROCm, or its kernels cannot be loaded ({})", reason);
  return library != nullptr;
}

}  // namespace plimsoll::backend_library

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
