// Computes the scratch of the state-space scan and the causal convolution.
#include "ops/scan/causal_conv_plan.h"
#include "ops/scan/ssd_scan_chunks.h"
#include "ops/scan/ssd_scan_panels.h"
#include "ops/workspace/scratch_row.h"

namespace plimsoll::ops {
namespace {

/// Returns the bytes of copies, and of scratch for each thread of the CPU or of one panel on a GPU. The operands follow
/// the gradient if there is one.
template <bool gpu, bool backward>
std::optional<int64_t> ssd_scan(const Op& op, const ScratchDevice& on) {
  constexpr size_t kX = backward ? 1 : 0;
  const View &x = tensor(op, kX), &b = tensor(op, kX + 3);
  // The states, a result, determine the number of chunks; the length of a chunk is a constant of the call.
  check(op.results.size() == (backward ? 7 : 2), op.name + " has its states as the last result");
  const int64_t time = x.sizes[1], given = integer(op, kX + 6);
  const int64_t chunk = given > 0 ? given : div_up(time, op.results.back().sizes[3]);
  const SsdShape shape{x.sizes[0], time, x.sizes[2], x.sizes[3], b.sizes[2], b.sizes[3], chunk, false};
  const int64_t wide = accumulator_bytes(x.dtype);
  int64_t total = on.inner_contiguous_copy(x) + on.inner_contiguous_copy(b) +
                  on.inner_contiguous_copy(tensor(op, kX + 4)) + on.contiguous_copy(tensor(op, kX + 2)) +
                  on.contiguous_copy(tensor(op, kX + 5));
  total += on.rounded(gpu ? cuda::SsdPanels(shape, element_bytes(x.dtype), backward).bytes
                          : on.threads * (backward ? ssd_backward_scratch(shape) : ssd_forward_scratch(shape)) * wide);
  if (backward) total += on.inner_contiguous_copy(tensor(op, 0)) + on.rounded(ssd_partial_sums(shape) * wide);
  return total;
}

template <bool gpu, bool backward>
std::optional<int64_t> causal_conv1d(const Op& op, const ScratchDevice& on) {
  const View& x = tensor(op, backward ? 1 : 0);
  const int64_t taps = (kConvTaps + 1) * x.sizes[2] * accumulator_bytes(x.dtype);
  int64_t total = on.inner_contiguous_copy(x) + (gpu ? 0 : on.rounded(taps));
  if (backward)
    total += on.inner_contiguous_copy(tensor(op, 0)) +
             on.rounded(x.sizes[0] * div_up(x.sizes[1], conv_block(x.sizes[1])) * taps);
  return total;
}

constexpr ScratchRow kScanScratch[] = {
    {"plimsoll::ssd_scan", ssd_scan<false, false>, ssd_scan<true, false>},
    {"plimsoll::ssd_scan_backward", ssd_scan<false, true>, ssd_scan<true, true>},
    {"plimsoll::causal_conv1d", causal_conv1d<false, false>, causal_conv1d<true, false>},
    {"plimsoll::causal_conv1d_backward", causal_conv1d<false, true>, causal_conv1d<true, true>},
};

}  // namespace

std::span<const ScratchRow> scan_scratch() {
  return kScanScratch;
}

}  // namespace plimsoll::ops
