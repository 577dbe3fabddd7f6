#include "cuda_device/fake_runtime.h"

#include <cuda.h>
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

struct CUevent_st {
  int64_t recorded = 0, done = 0;  // numbers of times; a wait is for the last record at the time when the wait was
                                   // queued
  CUstream_st* stream = nullptr;   // stream of this record
};
struct CUstream_st {
  struct Task {
    std::function<void()> work;
    CUevent_st* event = nullptr;  // to wait for, up to `record`
    int64_t record = 0;
  };
  std::deque<Task> tasks;
  int device = 0;
};

namespace plimsoll::testing::fake_cuda {
namespace {

struct World {
  std::mt19937_64 random{0};
  int64_t memory = 0, mapped = 0;
  std::set<CUstream_st*> streams;
  std::set<CUevent_st*> events;
  std::vector<std::unique_ptr<CUevent_st>> gone;
  std::map<uintptr_t, size_t> device_ranges;  // mapped
  std::map<uintptr_t, size_t> reserved;
  std::map<CUmemGenericAllocationHandle, size_t> handles;
  std::map<uintptr_t, size_t> locked, pinned;
  int64_t pageable_copies = 0;
  CUmemGenericAllocationHandle next_handle = 1;
  int device = 0;  // the caller's
  bool refuse_lock = false;
  CUresult refuse_access = CUDA_SUCCESS;  // result of the next call
};
World& world() {
  static World world;
  return world;
}

bool within(const std::map<uintptr_t, size_t>& ranges, const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  const auto after = ranges.upper_bound(address);
  return after != ranges.begin() && address < std::prev(after)->first + std::prev(after)->second;
}

cudaMemoryType kind_of(const void* pointer) {
  if (within(world().device_ranges, pointer)) return cudaMemoryTypeDevice;
  return within(world().locked, pointer) || within(world().pinned, pointer) ? cudaMemoryTypeHost
                                                                            : cudaMemoryTypeUnregistered;
}

bool ready(const CUstream_st::Task& task) {
  return task.event == nullptr || task.event->done >= task.record;
}

// Runs one task of a stream, if it may run.
bool advance(CUstream_st* stream) {
  if (stream->tasks.empty() || !ready(stream->tasks.front())) return false;
  const CUstream_st::Task task = std::move(stream->tasks.front());
  stream->tasks.pop_front();
  if (task.work) task.work();
  return true;
}

void drain(CUstream_st* stream) {
  while (!stream->tasks.empty()) {
    if (advance(stream)) continue;
    const CUstream_st::Task& front = stream->tasks.front();
    const int64_t wanted = front.record;
    CUevent_st* const event = front.event;
    while (event->done < wanted)
      if (!advance(event->stream)) drain(event->stream);
  }
}

// Now and then runs some of the waiting work.
void progress() {
  World& all = world();
  std::vector<CUstream_st*> streams(all.streams.begin(), all.streams.end());
  for (uint64_t i = all.random() % 4; i > 0 && !streams.empty(); --i) advance(streams[all.random() % streams.size()]);
}

cudaError_t put(cudaStream_t stream, std::function<void()> work, CUevent_st* event = nullptr, int64_t record = 0) {
  if (!world().streams.contains(stream)) return cudaErrorInvalidResourceHandle;
  stream->tasks.push_back({std::move(work), event, record});
  progress();
  return cudaSuccess;
}

}  // namespace

void reset(uint64_t seed, int64_t memory) {
  world().random.seed(seed);
  world().memory = memory;
  world().refuse_lock = false;
  world().refuse_access = CUDA_SUCCESS;
  world().pageable_copies = 0;
}
void launch(cudaStream_t stream, std::function<void()> kernel) {
  put(stream, std::move(kernel));
}
cudaStream_t make_stream() {
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  return stream;
}
int64_t mapped_bytes() {
  return world().mapped;
}
int64_t locked_ranges() {
  return static_cast<int64_t>(world().locked.size());
}
int64_t alive() {
  return static_cast<int64_t>(world().streams.size() + world().events.size() + world().pinned.size());
}
int64_t pageable_copies() {
  return world().pageable_copies;
}
void refuse_to_lock() {
  world().refuse_lock = true;
}
void refuse_access(CUresult with) {
  world().refuse_access = with;
}

namespace {

CUresult address_reserve(CUdeviceptr* address, size_t size, size_t, CUdeviceptr, unsigned long long) {
  void* const range = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = reinterpret_cast<CUdeviceptr>(range);
  world().reserved[*address] = size;
  return CUDA_SUCCESS;
}
CUresult address_free(CUdeviceptr address, size_t size) {
  if (world().reserved[address] != size) return CUDA_ERROR_INVALID_VALUE;
  world().reserved.erase(address);
  munmap(reinterpret_cast<void*>(address), size);
  return CUDA_SUCCESS;
}
CUresult granularity(size_t* bytes, const CUmemAllocationProp*, CUmemAllocationGranularity_flags) {
  *bytes = size_t{2} << 20;
  return CUDA_SUCCESS;
}
CUresult create(CUmemGenericAllocationHandle* handle, size_t size, const CUmemAllocationProp*, unsigned long long) {
  if (size % (size_t{2} << 20) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (world().mapped + static_cast<int64_t>(size) > world().memory) return CUDA_ERROR_OUT_OF_MEMORY;
  *handle = world().next_handle++;
  world().handles[*handle] = size;
  world().mapped += static_cast<int64_t>(size);
  return CUDA_SUCCESS;
}
CUresult release(CUmemGenericAllocationHandle handle) {
  world().mapped -= static_cast<int64_t>(world().handles.at(handle));
  world().handles.erase(handle);
  return CUDA_SUCCESS;
}
CUresult map(CUdeviceptr address, size_t size, size_t, CUmemGenericAllocationHandle, unsigned long long) {
  world().device_ranges[address] = size;
  return CUDA_SUCCESS;
}
CUresult unmap(CUdeviceptr address, size_t size) {
  if (world().device_ranges[address] != size) return CUDA_ERROR_INVALID_VALUE;
  world().device_ranges.erase(address);
  mprotect(reinterpret_cast<void*>(address), size, PROT_NONE);
  return CUDA_SUCCESS;
}
CUresult set_access(CUdeviceptr address, size_t size, const CUmemAccessDesc*, size_t) {
  if (const CUresult refused = std::exchange(world().refuse_access, CUDA_SUCCESS); refused != CUDA_SUCCESS)
    return refused;
  return mprotect(reinterpret_cast<void*>(address), size, PROT_READ | PROT_WRITE) == 0 ? CUDA_SUCCESS
                                                                                       : CUDA_ERROR_UNKNOWN;
}
CUresult attribute(int* value, CUdevice_attribute, CUdevice) {
  *value = 1;
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace plimsoll::testing::fake_cuda

using namespace plimsoll::testing::fake_cuda;

extern "C" {

cudaError_t cudaGetLastError() {
  return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t) {
  return "made up";
}
const char* cudaGetErrorName(cudaError_t) {
  return "cudaErrorMadeUp";
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *total = static_cast<size_t>(world().memory);
  *free = static_cast<size_t>(world().memory - world().mapped);
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new CUstream_st{{}, world().device};
  world().streams.insert(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  drain(stream);
  world().streams.erase(stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  drain(stream);
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  const std::vector<CUstream_st*> streams(world().streams.begin(), world().streams.end());
  for (CUstream_st* stream : streams)
    if (stream->device == world().device) drain(stream);
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = world().device;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  world().device = device;
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  world().events.insert(*event);
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  world().events.erase(event);
  world().gone.emplace_back(event);  // streams may still wait for it
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (event->done < event->recorded && event->stream != stream) drain(event->stream);
  event->stream = stream;
  const int64_t record = ++event->recorded;
  return put(stream, [event, record] { event->done = std::max(event->done, record); });
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  progress();
  return event->done >= event->recorded ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  while (event->done < event->recorded)
    if (!advance(event->stream)) drain(event->stream);
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return put(stream, {}, event, event->recorded);
}
cudaError_t cudaMemcpyAsync(void* target, const void* source, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  for (const void* end : {static_cast<const void*>(target), source})
    world().pageable_copies += kind_of(end) == cudaMemoryTypeUnregistered;
  return put(stream, [=] { std::memcpy(target, source, bytes); });
}
cudaError_t cudaMemsetAsync(void* target, int value, size_t bytes, cudaStream_t stream) {
  return put(stream, [=] { std::memset(target, value, bytes); });
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return put(stream, [=] { function(data); });
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  *attributes = {};
  attributes->type = kind_of(pointer);
  return cudaSuccess;
}
cudaError_t cudaHostRegister(void* begin, size_t bytes, unsigned) {
  if (std::exchange(world().refuse_lock, false)) return cudaErrorMemoryAllocation;
  if (reinterpret_cast<uintptr_t>(begin) % 4096 != 0 || bytes % 4096 != 0) return cudaErrorInvalidValue;
  world().locked[reinterpret_cast<uintptr_t>(begin)] = bytes;
  return cudaSuccess;
}
cudaError_t cudaHostUnregister(void* begin) {
  return world().locked.erase(reinterpret_cast<uintptr_t>(begin)) == 1 ? cudaSuccess : cudaErrorInvalidValue;
}
cudaError_t cudaMallocHost(void** memory, size_t bytes) {
  *memory = std::malloc(bytes);
  world().pinned[reinterpret_cast<uintptr_t>(*memory)] = bytes;
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* memory) {
  world().pinned.erase(reinterpret_cast<uintptr_t>(memory));
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  static const std::map<std::string, void*> known = {
      {"cuMemAddressReserve", reinterpret_cast<void*>(&address_reserve)},
      {"cuMemAddressFree", reinterpret_cast<void*>(&address_free)},
      {"cuMemGetAllocationGranularity", reinterpret_cast<void*>(&granularity)},
      {"cuMemCreate", reinterpret_cast<void*>(&create)},
      {"cuMemRelease", reinterpret_cast<void*>(&release)},
      {"cuMemMap", reinterpret_cast<void*>(&map)},
      {"cuMemUnmap", reinterpret_cast<void*>(&unmap)},
      {"cuMemSetAccess", reinterpret_cast<void*>(&set_access)},
      {"cuDeviceGetAttribute", reinterpret_cast<void*>(&attribute)}};
  const auto found = known.find(name);
  *function = found == known.end() ? nullptr : found->second;
  *result = found == known.end() ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
  return cudaSuccess;
}

}  // extern "C"
