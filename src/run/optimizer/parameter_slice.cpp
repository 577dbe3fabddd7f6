#include "run/optimizer/parameter_slice.h"

#include "ops/optimizer/gradient_norm.h"

namespace plimsoll::optimizer {
namespace {

constexpr int64_t kMinRankElements = 4096, kWholeBlocks = 128;

}  // namespace

int64_t slice_elements(int64_t elements, int64_t ranks) {
  if (elements < kMinRankElements * ranks || elements % kWholeBlocks != 0) return 0;
  const int64_t each = (elements + ranks - 1) / ranks;
  return (each + ops::kNormBlock - 1) / ops::kNormBlock * ops::kNormBlock;
}

}  // namespace plimsoll::optimizer
