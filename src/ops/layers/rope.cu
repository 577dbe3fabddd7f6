#include <algorithm>

#include "ops/dtype_switch.h"
#include "ops/layers/rope_kernels.cuh"
#include "ops/layers/rope_launch.h"
#include "ops/rows.h"

namespace plimsoll::cuda {
namespace {

constexpr int64_t kMaxGridSize = 65535;  // maximum of a grid in y and z

template <typename T, int pack>
void rotate(const ops::Rope& args, int64_t first_batch, int64_t first_pair, cudaStream_t stream) {
  RopeFrequencies frequencies{};
  const int64_t pairs = std::min<int64_t>(kRopePairs, args.width / 2 - first_pair);
  std::copy_n(args.frequencies + first_pair, pairs, frequencies.radians);
  const dim3 grid(static_cast<unsigned>(ops::div_up(args.tokens * (pairs / pack), kRopeThreads)),
                  static_cast<unsigned>(std::min(kMaxGridSize, args.batch - first_batch)),
                  static_cast<unsigned>(ops::div_up(args.heads, kRopeHeads)));
  launch(&rope<T, pack>, grid, dim3(kRopeThreads), 0, stream,
         static_cast<const T*>(args.x) + first_batch * args.batch_stride,
         static_cast<T*>(args.out) + first_batch * args.tokens * args.heads * args.width, args.tokens, args.heads,
         args.width, args.batch_stride, args.token_stride, args.head_stride, frequencies, first_pair, pairs,
         args.position, args.inverse ? -1.0 : 1.0);
}

}  // namespace

void launch_rope(const ops::Rope& args, cudaStream_t stream) {
  if (args.batch * args.tokens * args.heads * args.width == 0) return;
  check(ops::div_up(args.heads, kRopeHeads) <= kMaxGridSize, "rope of so many heads");
  with_type(args.dtype, [&]<typename T>() {
    constexpr int pack = 16 / sizeof(T);
    const auto whole = [&](int64_t stride) { return packs(args.x, stride, sizeof(T), pack); };
    const bool wide = args.width / 2 % pack == 0 && whole(args.batch_stride) && whole(args.token_stride) &&
                      whole(args.head_stride) && packs(args.out, 0, sizeof(T), pack);
    for (int64_t batch = 0; batch < args.batch; batch += kMaxGridSize)
      for (int64_t pair = 0; pair < args.width / 2; pair += kRopePairs)
        wide ? rotate<T, pack>(args, batch, pair, stream) : rotate<T, 1>(args, batch, pair, stream);
  });
}

}  // namespace plimsoll::cuda
