// Implements the base of our CUDA kernels: element types, wide loads and stores, reductions of a warp and a block, and
// the launch. Kernels use only this header, cuda_fp16.h and cuda_bf16.h: no CUB, no ATen, no PTX. A C++ compiler can
// therefore compile them too, against tests/cuda_on_cpu, which runs them on the CPU.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <tuple>
#include <type_traits>

#include "plimsoll/error.h"
#include "plimsoll/trace.h"

#if defined(__CUDACC__)
/// Declares `name`, a `type*`, as the launch's dynamic shared memory, aligned to 16 bytes.
#define PLIMSOLL_DYNAMIC_SHARED(type, name)                              \
  extern __shared__ __align__(16) unsigned char plimsoll_shared_bytes[]; \
  type* const name = reinterpret_cast<type*>(plimsoll_shared_bytes)
/// Checks a condition that must hold; under emulation only.
#define PLIMSOLL_DEVICE_CHECK(condition) static_cast<void>(0)
#else
#include "cuda_on_cpu/cuda_on_cpu.h"
#endif

namespace plimsoll::cuda {

using bfloat16 = __nv_bfloat16;
using float16 = __half;

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffu;

// --- elements

/// The type of arithmetic on elements of T: float64 for float64, float32 for every other type.
template <typename T>
struct AccumulateIn {
  using Type = float;
};
template <>
struct AccumulateIn<double> {
  using Type = double;
};
template <typename T>
using Accumulate = typename AccumulateIn<T>::Type;

__host__ __device__ inline float widen(float value) {
  return value;
}
__host__ __device__ inline double widen(double value) {
  return value;
}
__host__ __device__ inline float widen(bfloat16 value) {
  return __bfloat162float(value);
}
__host__ __device__ inline float widen(float16 value) {
  return __half2float(value);
}

/// Rounds to nearest, ties to even.
template <typename T>
__host__ __device__ inline T narrow(Accumulate<T> value) {
  return value;
}
template <>
__host__ __device__ inline bfloat16 narrow<bfloat16>(float value) {
  return __float2bfloat16_rn(value);
}
template <>
__host__ __device__ inline float16 narrow<float16>(float value) {
  return __float2half_rn(value);
}

template <typename T>
__host__ __device__ inline T lowest() {  // minus infinity
  return static_cast<T>(-INFINITY);
}

// The functions below have one name for both widths.
__device__ inline float exponential(float x) {
  return expf(x);
}
__device__ inline double exponential(double x) {
  return exp(x);
}
__device__ inline float logarithm(float x) {
  return logf(x);
}
__device__ inline double logarithm(double x) {
  return log(x);
}
__device__ inline float hyperbolic_tangent(float x) {
  return tanhf(x);
}
__device__ inline double hyperbolic_tangent(double x) {
  return tanh(x);
}
__device__ inline float square_root(float x) {
  return sqrtf(x);
}
__device__ inline double square_root(double x) {
  return sqrt(x);
}

// --- memory

/// A group of `count` contiguous elements. It is read and written as one access if aligned to its size, in accesses of
/// at most 16 bytes.
template <typename T, int count>
struct Pack {
  T values[count];
  __device__ T& operator[](int i) { return values[i]; }
  __device__ const T& operator[](int i) const { return values[i]; }
};

template <int bytes>
struct RawBytes;
template <>
struct RawBytes<16> {
  using Type = uint4;
};
template <>
struct RawBytes<8> {
  using Type = uint2;
};
template <>
struct RawBytes<4> {
  using Type = uint32_t;
};
template <>
struct RawBytes<2> {
  using Type = uint16_t;
};
template <>
struct RawBytes<1> {
  using Type = uint8_t;
};

template <int count, typename T>
__device__ inline Pack<T, count> load_pack(const T* from) {
  constexpr int kBytes = count * static_cast<int>(sizeof(T)), kUnit = kBytes > 16 ? 16 : kBytes;
  using Raw = typename RawBytes<kUnit>::Type;
  PLIMSOLL_DEVICE_CHECK(reinterpret_cast<uintptr_t>(from) % kUnit == 0);
  Pack<T, count> pack;
#pragma unroll
  for (int i = 0; i < kBytes / kUnit; ++i) {
    const Raw raw = reinterpret_cast<const Raw*>(from)[i];
    memcpy(reinterpret_cast<char*>(&pack) + i * kUnit, &raw, kUnit);
  }
  return pack;
}

template <int count, typename T>
__device__ inline void store_pack(T* to, const Pack<T, count>& pack) {
  constexpr int kBytes = count * static_cast<int>(sizeof(T)), kUnit = kBytes > 16 ? 16 : kBytes;
  using Raw = typename RawBytes<kUnit>::Type;
  PLIMSOLL_DEVICE_CHECK(reinterpret_cast<uintptr_t>(to) % kUnit == 0);
#pragma unroll
  for (int i = 0; i < kBytes / kUnit; ++i) {
    Raw raw;
    memcpy(&raw, reinterpret_cast<const char*>(&pack) + i * kUnit, kUnit);
    reinterpret_cast<Raw*>(to)[i] = raw;
  }
}

/// Returns true if rows of elements of `element_bytes`, `stride` elements from one to the next, can be read `pack`
/// elements at a time.
inline bool packs(const void* data, int64_t stride, int64_t element_bytes, int pack) {
  const int64_t bytes = pack * element_bytes < 16 ? pack * element_bytes : 16;
  return reinterpret_cast<uintptr_t>(data) % bytes == 0 && stride * element_bytes % bytes == 0;
}

// --- indices
//
// Kernels count in 32 bits: rows, positions in a row, packs or blocks of a flat array. Devices have no 64-bit integer
// units, so a 64-bit comparison takes two instructions, a multiplication four, and a division about a hundred. Only the
// address of a row's or a block's first element is computed in 64 bits.

/// Maximum count of a kernel. A loop's index stays below 2^31 when its last stride, at most 2^20, is added.
constexpr int64_t kMaxIndex = (int64_t{1} << 31) - (int64_t{1} << 20);

/// Returns `count`, the end or the stride of a kernel's index. Throws InternalError if its magnitude is above
/// kMaxIndex.
inline int32_t index32(int64_t count) {
  // Not check(), which takes a text that would be made for each argument of each launch.
  if (count > kMaxIndex || count < -kMaxIndex)
    throw InternalError("a CUDA kernel counts in 32 bits, not to " + std::to_string(count));
  return static_cast<int32_t>(count);
}

/// Returns this thread's index in the grid. grid_threads() is the number of threads: for (i = grid_index(); i < n; i +=
/// grid_threads()). The grid has fewer than 2^31 threads.
__device__ inline int32_t grid_index() {
  return static_cast<int32_t>(blockIdx.x * blockDim.x + threadIdx.x);
}
__device__ inline int32_t grid_threads() {
  return static_cast<int32_t>(gridDim.x * blockDim.x);
}

/// The position of this thread: blocks of (columns, rows) threads in a grid of (rows, columns), so that nothing is
/// divided (cell_grid()).
struct Cell {
  int32_t row, column;
};
template <int pack>
__device__ inline Cell cell() {
  return {static_cast<int32_t>(blockIdx.x * blockDim.y + threadIdx.y),
          static_cast<int32_t>(blockIdx.y * blockDim.x + threadIdx.x) * pack};
}

// --- threads

struct Sum {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
  template <typename T>
  __device__ static T neutral() {
    return T(0);
  }
};
struct Largest {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a > b ? a : b;
  }
  template <typename T>
  __device__ static T neutral() {
    return lowest<T>();
  }
};

/// Reduces over a warp. Every lane gets the same bits, for any values: partners add the same two values. All lanes must
/// call.
template <typename Combine, typename T>
__device__ inline T reduce_warp(T value) {
#pragma unroll
  for (int apart = kWarp / 2; apart > 0; apart /= 2) value = Combine()(value, __shfl_xor_sync(kAllLanes, value, apart));
  return value;
}

/// Reduces over all threads of a block, whose size must be whole warps in x only; all must call. The order is always
/// the same, and every thread gets the result. All threads then see earlier writes to shared memory.
template <typename Combine, typename T>
__device__ inline T reduce_block(T value) {
  __shared__ T of_warp[kWarp];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, warps = blockDim.x / kWarp;
  value = reduce_warp<Combine>(value);
  __syncthreads();  // the previous call may still be reading
  if (lane == 0) of_warp[warp] = value;
  __syncthreads();
  return reduce_warp<Combine>(lane < warps ? of_warp[lane] : Combine::template neutral<T>());
}

// --- launch

inline int64_t div_up_blocks(int64_t count, int64_t per_block, int64_t max_blocks = int64_t{1} << 30) {
  const int64_t blocks = (count + per_block - 1) / per_block;
  return blocks < 1 ? 1 : blocks < max_blocks ? blocks : max_blocks;
}

/// Returns the threads for a row of `items`: whole warps, at most `most`.
inline unsigned row_threads(int64_t items, int64_t max_threads) {
  const int64_t threads = (items + kWarp - 1) / kWarp * kWarp;
  return static_cast<unsigned>(threads < kWarp ? kWarp : threads < max_threads ? threads : max_threads);
}

constexpr int64_t kMaxGridSize = 65535;  ///< maximum of a grid in y and z

/// A launch with a Cell for each `pack` elements of each row.
struct CellGrid {
  dim3 grid, block;
};
inline CellGrid cell_grid(int64_t rows, int64_t width, int pack) {
  constexpr int64_t kThreads = 256;
  const int64_t across = row_threads(width / pack, kThreads), down = kThreads / across;
  const int64_t column_blocks = div_up_blocks(width, across * pack);
  check(column_blocks <= kMaxGridSize, "a kernel of such wide rows");
  return {dim3(static_cast<unsigned>(div_up_blocks(rows, down)), static_cast<unsigned>(column_blocks)),
          dim3(static_cast<unsigned>(across), static_cast<unsigned>(down))};
}

/// Converts a launch's argument to the kernel's parameter. 64-bit counts become 32-bit ones if they fit (index32()).
template <typename Parameter, typename Argument>
Parameter parameter_of(const Argument& argument) {
  if constexpr (std::is_same_v<Parameter, int32_t> && std::is_same_v<Argument, int64_t>)
    return index32(argument);
  else
    return static_cast<Parameter>(argument);
}

#if defined(__CUDACC__)
/// Launches kernel<<<grid, block, shared_bytes, stream>>>(arguments…). Throws UserError (failure) if CUDA refuses the
/// launch.
template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
            Arguments... arguments) {
  cudaError_t error = cudaSuccess;
  if (shared_bytes > 48 * 1024)  // CUDA grants more only on request
    error = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(shared_bytes));
  if (error == cudaSuccess) {
    kernel<<<grid, block, shared_bytes, stream>>>(parameter_of<Parameters>(arguments)...);
    error = cudaGetLastError();
  }
  if (error != cudaSuccess)
    throw UserError(std::string("a kernel could not be started: ") + cudaGetErrorString(error),
                    UserError::Kind::failure);
}
#else
template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
            Arguments... arguments) {
  const std::tuple<Parameters...> parameters(parameter_of<Parameters>(arguments)...);
  cuda_on_cpu::run(grid, block, shared_bytes, [&] { std::apply(kernel, parameters); });
}
#endif

/// Returns element `i` of an array whose type is known at run time. It is for the few elements that a thread reads
/// once.
template <typename S>
__device__ inline S load_as(const void* data, DType dtype, int64_t i) {
  switch (dtype) {
    case DType::float64:
      return static_cast<S>(static_cast<const double*>(data)[i]);
    case DType::bfloat16:
      return widen(static_cast<const bfloat16*>(data)[i]);
    case DType::float16:
      return widen(static_cast<const float16*>(data)[i]);
    default:
      return static_cast<S>(static_cast<const float*>(data)[i]);
  }
}
template <typename S>
__device__ inline void store_as(void* data, DType dtype, int64_t i, S value) {
  switch (dtype) {
    case DType::float64:
      static_cast<double*>(data)[i] = value;
      return;
    case DType::bfloat16:
      static_cast<bfloat16*>(data)[i] = narrow<bfloat16>(static_cast<float>(value));
      return;
    case DType::float16:
      static_cast<float16*>(data)[i] = narrow<float16>(static_cast<float>(value));
      return;
    default:
      static_cast<float*>(data)[i] = static_cast<float>(value);
  }
}

}  // namespace plimsoll::cuda
