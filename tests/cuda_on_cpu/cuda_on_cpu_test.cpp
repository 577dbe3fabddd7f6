#include <gmock/gmock.h>

#include <vector>

#include "ops/device_support.cuh"

namespace plimsoll::cuda_on_cpu {
namespace {

using cuda::launch;

constexpr Order kOrders[] = {Order::ascending, Order::descending, Order::shuffled};

struct InOrder {
  explicit InOrder(Order order) { set_order(order); }
  ~InOrder() { set_order(Order::ascending); }
};

__global__ void number_threads(int* out) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  out[block * blockDim.x * blockDim.y * blockDim.z + thread] += static_cast<int>(1000 * block + thread);
}

TEST(CudaOnCpu, RunsEachThreadOfEachBlockOnce) {
  for (const Order order : kOrders) {
    const InOrder in(order);
    std::vector<int> out(24 * 30);
    launch(number_threads, dim3(2, 3, 4), dim3(5, 3, 2), 0, nullptr, out.data());
    for (int i = 0; i < 24 * 30; ++i) EXPECT_EQ(out[i], 1000 * (i / 30) + i % 30);
  }
}

// Each thread writes its own place and reads its mirror image's, twice over the same memory.
template <bool with_barriers>
__global__ void mirror(int* out) {
  __shared__ int numbers[96];
  PLIMSOLL_DYNAMIC_SHARED(int, more);
  for (int round = 0; round < 2; ++round) {
    numbers[threadIdx.x] = static_cast<int>(threadIdx.x) + 100 * round;
    more[threadIdx.x] = numbers[threadIdx.x];
    if (with_barriers) __syncthreads();
    out[threadIdx.x] = numbers[95 - threadIdx.x] + more[95 - threadIdx.x];
    if (with_barriers) __syncthreads();
  }
}

TEST(CudaOnCpu, BarriersOrderSharedMemory) {
  for (const Order order : kOrders) {
    const InOrder in(order);
    std::vector<int> out(96);
    launch(mirror<true>, 3, 96, 96 * sizeof(int), nullptr, out.data());
    for (int i = 0; i < 96; ++i) EXPECT_EQ(out[i], 2 * (95 - i + 100));
  }
}

TEST(CudaOnCpu, MissingBarriersShow) {
  for (const Order order : kOrders) {
    const InOrder in(order);
    std::vector<int> out(96);
    launch(mirror<false>, 1, 96, 96 * sizeof(int), nullptr, out.data());
    int wrong = 0;
    for (int i = 0; i < 96; ++i) wrong += out[i] != 2 * (95 - i + 100);
    EXPECT_GT(wrong, 0);
  }
}

__global__ void shuffles(float* up, float* down, double* from_third, int* across, unsigned* odd) {
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const float mine = static_cast<float>(threadIdx.x);
  up[threadIdx.x] = __shfl_up_sync(cuda::kAllLanes, mine, 1);
  down[threadIdx.x] = __shfl_down_sync(cuda::kAllLanes, mine, 3, 8);
  from_third[threadIdx.x] = __shfl_sync(cuda::kAllLanes, static_cast<double>(mine), 3);
  across[threadIdx.x] = __shfl_xor_sync(cuda::kAllLanes, static_cast<int>(threadIdx.x), 16);
  odd[threadIdx.x] = __ballot_sync(cuda::kAllLanes, lane % 2);
}

TEST(CudaOnCpu, ShufflesWithinWarps) {
  for (const Order order : kOrders) {
    const InOrder in(order);
    std::vector<float> up(64), down(64);
    std::vector<double> from_third(64);
    std::vector<int> across(64);
    std::vector<unsigned> odd(64);
    launch(shuffles, 1, 64, 0, nullptr, up.data(), down.data(), from_third.data(), across.data(), odd.data());
    for (int i = 0; i < 64; ++i) {
      EXPECT_EQ(up[i], i % 32 == 0 ? i : i - 1);
      EXPECT_EQ(down[i], i % 8 >= 5 ? i : i + 3);
      EXPECT_EQ(from_third[i], i / 32 * 32 + 3);
      EXPECT_EQ(across[i], i ^ 16);
      EXPECT_EQ(odd[i], 0xaaaaaaaau);
    }
  }
}

__global__ void sums(const double* in, double* sum, float* largest, int* counter) {
  const double value = in[cuda::grid_index()];
  sum[cuda::grid_index()] = cuda::reduce_block<cuda::Sum>(value);
  sum[cuda::grid_index()] += cuda::reduce_block<cuda::Sum>(2 * value);
  largest[cuda::grid_index()] = cuda::reduce_block<cuda::Largest>(static_cast<float>(value));
  atomicAdd(counter, 1);
}

TEST(CudaOnCpu, ReducesBlocksAlikeInEveryOrder) {
  for (const int threads : {32, 96, 1024}) {
    std::vector<double> in(2 * threads), first;
    for (size_t i = 0; i < in.size(); ++i) in[i] = 1.0 / (1.0 + static_cast<double>(i * 7919 % 101));
    for (const Order order : kOrders) {
      const InOrder in_order(order);
      std::vector<double> sum(in.size());
      std::vector<float> largest(in.size());
      int counter = 0;
      launch(sums, 2, threads, 0, nullptr, in.data(), sum.data(), largest.data(), &counter);
      EXPECT_EQ(counter, 2 * threads);
      for (int block = 0; block < 2; ++block) {
        double want = 0;
        float top = 0;
        for (int i = 0; i < threads; ++i) {
          want += 3 * in[block * threads + i];
          top = std::max(top, static_cast<float>(in[block * threads + i]));
        }
        for (int i = 0; i < threads; ++i) {
          EXPECT_EQ(sum[block * threads + i], sum[block * threads]);  // the same bits for every thread
          EXPECT_NEAR(sum[block * threads + i], want, 1e-12 * want);
          EXPECT_EQ(largest[block * threads + i], top);
        }
      }
      if (first.empty()) first = sum;
      EXPECT_EQ(sum, first);
    }
  }
}

// Threads from `alive` on return immediately; the others still meet.
__global__ void leave_early(int alive, int* out) {
  __shared__ int total;
  if (static_cast<int>(threadIdx.x) >= alive) return;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  atomicAdd(&total, 1);
  __syncthreads();
  out[threadIdx.x] = total;
}

TEST(CudaOnCpu, ThreadsThatReturnedAreNotWaitedFor) {
  for (const Order order : kOrders) {
    const InOrder in(order);
    std::vector<int> out(70, -1);
    launch(leave_early, 1, 70, 0, nullptr, 40, out.data());
    for (int i = 0; i < 70; ++i) EXPECT_EQ(out[i], i < 40 ? 40 : -1);
  }
}

__global__ void different_barriers() {
  if (threadIdx.x < 32)
    __syncthreads();
  else
    __syncthreads();
}
__global__ void half_a_warp_shuffles(int* out) {
  if (threadIdx.x < 16) *out = __shfl_xor_sync(cuda::kAllLanes, 1, 1);
  __syncthreads();
}
__global__ void reads_one_who_left(int* out) {
  if (threadIdx.x >= 16) return;
  *out = __shfl_xor_sync(cuda::kAllLanes, 1, 16);
}
__global__ void misaligned(const float* in, float* out) {
  cuda::store_pack<4>(out, cuda::load_pack<4>(in + 1));
}
__global__ void reads_shared_unwritten(float* out) {
  PLIMSOLL_DYNAMIC_SHARED(float, memory);
  *out = memory[3];
}

template <typename Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const EmulationError& error) {
    return error.what();
  }
  return "no error";
}

TEST(CudaOnCpu, ReportsWhatAGpuWouldHangAt) {
  using ::testing::HasSubstr;
  int out = 0;
  alignas(16) float numbers[8] = {};
  EXPECT_THAT(error_of([&] { launch(different_barriers, 1, 64, 0, nullptr); }), HasSubstr("different barriers"));
  EXPECT_THAT(error_of([&] { launch(half_a_warp_shuffles, 1, 32, 0, nullptr, &out); }), HasSubstr("never come"));
  EXPECT_THAT(error_of([&] { launch(reads_one_who_left, 1, 32, 0, nullptr, &out); }), HasSubstr("reads lane 16"));
  EXPECT_THAT(error_of([&] { launch(misaligned, 1, 1, 0, nullptr, numbers, numbers); }), HasSubstr("does not hold"));
  EXPECT_THAT(error_of([&] { launch(different_barriers, 1, 1025, 0, nullptr); }), HasSubstr("1025 threads"));
  EXPECT_THAT(error_of([&] { launch(reads_shared_unwritten, 1, 1, 200 << 10, nullptr, numbers); }),
              HasSubstr("shared memory"));
  launch(reads_shared_unwritten, 1, 1, 64, nullptr, numbers);
  EXPECT_TRUE(std::isnan(numbers[0]));
  // The emulation works after the error.
  launch(number_threads, 1, 1, 0, nullptr, &out);
}

template <typename T>
void expect_round_trip(double value) {
  EXPECT_EQ(static_cast<double>(cuda::widen(cuda::narrow<T>(static_cast<cuda::Accumulate<T>>(value)))), value);
}

TEST(CudaOnCpu, ElementTypesConvert) {
  for (const double value : {0.0, 1.0, -2.5, 96.0, 0.0078125}) {
    expect_round_trip<float>(value);
    expect_round_trip<double>(value);
    expect_round_trip<cuda::bfloat16>(value);
    expect_round_trip<cuda::float16>(value);
  }
  // Ties to even: 1 + 2^-8 is half way between bfloat16's 1 and 1 + 2^-7.
  EXPECT_EQ(cuda::widen(cuda::narrow<cuda::bfloat16>(1.00390625f)), 1.0f);
  EXPECT_EQ(cuda::widen(cuda::narrow<cuda::bfloat16>(1.01171875f)), 1.015625f);
}

}  // namespace
}  // namespace plimsoll::cuda_on_cpu
