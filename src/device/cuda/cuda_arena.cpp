#include "device/cuda/cuda_arena.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "device/cuda/cuda_calls.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"

namespace plimsoll::cuda {
namespace {

constexpr int kUnwritten = 0xff;  // NaN in every floating type

CUmemAllocationProp memory_of(int device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  return properties;
}

int64_t rounded(int64_t bytes, int64_t piece) {
  return (bytes + piece - 1) / piece * piece;
}

// Throws for an error that has another cause than a lack of memory, such as an earlier kernel's fault: less memory
// would not help.
[[noreturn]] void refuse_arena(int64_t bytes, CUresult result) {
  throw UserError(
      fmt::format("the device cannot make an arena of {}: CUDA error {}; an earlier kernel may have failed: "
                  "set PLIMSOLL_WAIT_FOR_EACH_OP=1 in the environment to find it",
                  format_bytes(bytes), int{result}),
      UserError::Kind::failure);
}

}  // namespace

CudaArena::CudaArena(int device, cudaStream_t stream, int64_t bytes, int64_t max_bytes)
    : device_(device), stream_(stream) {
  int supported = 0;
  if (driver().attribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device) != CUDA_SUCCESS ||
      supported == 0)
    throw UserError(
        "this device has no virtual memory management, which the arena is made with (CUDA, Pascal or later)",
        UserError::Kind::failure);
  const CUmemAllocationProp properties = memory_of(device);
  size_t piece = 0;
  if (driver().granularity(&piece, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM) != CUDA_SUCCESS || piece == 0)
    throw UserError("the device does not say in what pieces it gives memory", UserError::Kind::failure);
  piece_ = static_cast<int64_t>(piece);
  size_t free = 0, total = 0;
  require(cudaMemGetInfo(&free, &total), "asking the device for its memory");
  reserved_ = rounded(std::max({bytes, max_bytes, static_cast<int64_t>(total)}), piece_);
  CUdeviceptr address = 0;
  const CUresult result = driver().address_reserve(&address, static_cast<size_t>(reserved_), 0, 0, 0);
  if (result == CUDA_ERROR_OUT_OF_MEMORY)
    throw MemoryUnavailable(fmt::format("the device has no address space for an arena of {}", format_bytes(bytes)),
                            bytes, MemoryUnavailable::Owner::device);
  if (result != CUDA_SUCCESS) refuse_arena(bytes, result);
  data_ = reinterpret_cast<std::byte*>(address);
  try {
    grow(bytes);
  } catch (...) {
    release();
    throw;
  }
}

CudaArena::~CudaArena() {
  release();
}

void CudaArena::release() noexcept {
  // Kernels may still use the memory, and so may callers that have tensors in it. The caller's current device may be
  // another.
  int current = device_;
  cudaGetDevice(&current);
  cudaSetDevice(device_);
  cudaDeviceSynchronize();
  cudaSetDevice(current);
  for (const Mapping& mapping : mappings_) {
    driver().unmap(reinterpret_cast<CUdeviceptr>(data_ + mapping.offset), static_cast<size_t>(mapping.bytes));
    driver().release(mapping.handle);
  }
  mappings_.clear();
  if (data_) driver().address_free(reinterpret_cast<CUdeviceptr>(data_), static_cast<size_t>(reserved_));
  data_ = nullptr;
}

void CudaArena::grow(int64_t bytes) {
  if (bytes <= bytes_) return;
  const auto refuse = [&](CUresult result) {
    if (result != CUDA_ERROR_OUT_OF_MEMORY) refuse_arena(bytes, result);
    throw MemoryUnavailable(fmt::format("the device has no memory for an arena of {}", format_bytes(bytes)), bytes,
                            MemoryUnavailable::Owner::device);
  };
  if (const int64_t wanted = rounded(bytes, piece_); wanted > mapped_) {
    if (wanted > reserved_) refuse(CUDA_ERROR_OUT_OF_MEMORY);
    const CUmemAllocationProp properties = memory_of(device_);
    const auto size = static_cast<size_t>(wanted - mapped_);
    const auto address = reinterpret_cast<CUdeviceptr>(data_ + mapped_);
    CUmemGenericAllocationHandle handle{};
    if (const CUresult result = driver().create(&handle, size, &properties, 0); result != CUDA_SUCCESS) refuse(result);
    if (const CUresult result = driver().map(address, size, 0, handle, 0); result != CUDA_SUCCESS) {
      driver().release(handle);
      refuse(result);
    }
    mappings_.push_back({handle, mapped_, wanted - mapped_});
    CUmemAccessDesc access{};
    access.location = properties.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    if (const CUresult result = driver().set_access(address, size, &access, 1); result != CUDA_SUCCESS) {
      driver().unmap(address, size);
      driver().release(handle);
      mappings_.pop_back();
      refuse(result);
    }
    mapped_ = wanted;
  }
  require(cudaMemsetAsync(data_ + bytes_, kUnwritten, static_cast<size_t>(bytes - bytes_), stream_),
          "filling the arena");
  bytes_ = bytes;
}

// Searches from the end, a piece at a time.
int64_t CudaArena::touched_bytes() const {
  constexpr int64_t kPiece = int64_t{16} << 20;
  std::vector<uint8_t> piece(static_cast<size_t>(std::min(bytes_, kPiece)));
  for (int64_t end = bytes_; end > 0; end -= std::min(end, kPiece)) {
    const int64_t size = std::min(end, kPiece);
    require(
        cudaMemcpyAsync(piece.data(), data_ + end - size, static_cast<size_t>(size), cudaMemcpyDeviceToHost, stream_),
        "reading the arena");
    require(cudaStreamSynchronize(stream_), "reading the arena");
    for (int64_t i = size; i > 0; --i)
      if (piece[static_cast<size_t>(i - 1)] != kUnwritten) return end - size + i;
  }
  return 0;
}

PinnedArena::PinnedArena(int64_t bytes, int64_t max_bytes) : arena_(bytes, max_bytes) {
  lock_pages();
}

PinnedArena::~PinnedArena() {
  unlock_pages();
}

void PinnedArena::unlock_pages() noexcept {
  if (locked_ > 0) cudaHostUnregister(arena_.data());
  locked_ = 0;
}

// Must not be called while a copy is in flight.
void PinnedArena::grow(int64_t bytes) {
  arena_.grow(bytes);
  lock_pages();
}

// Locks whole pages, because the arena ends with one, and all of them as one range: a copy must not cross from one
// range into another.
void PinnedArena::lock_pages() {
  const int64_t page = sysconf(_SC_PAGESIZE), wanted = (arena_.bytes() + page - 1) / page * page;
  if (wanted <= locked_) return;
  unlock_pages();
  if (const cudaError_t error = cudaHostRegister(arena_.data(), static_cast<size_t>(wanted), cudaHostRegisterDefault);
      error != cudaSuccess) {
    cudaGetLastError();
    throw MemoryUnavailable(fmt::format("{} of host memory cannot be locked for the device's copies ({})",
                                        format_bytes(arena_.bytes()), cudaGetErrorString(error)),
                            arena_.bytes(),
                            "allow this program more (ulimit -l, or memlock of its container), or lower "
                            "host_memory_budget");
  }
  locked_ = wanted;
}

}  // namespace plimsoll::cuda
