#include "ops/workspace_cuda.h"

namespace plimsoll::ops {

std::optional<int64_t> cuda_workspace_bytes(const Op& op) {
  return std::nullopt;
}

}  // namespace plimsoll::ops
