#include "ops/workspace/workspace_cuda_rules.h"

#include "ops/workspace/workspace_cuda_layers.h"
#include "ops/workspace/workspace_cuda_updates.h"

namespace plimsoll::ops {

std::optional<int64_t> cuda_workspace_bytes(const Op& op, int multiprocessors) {
  if (const auto bytes = cuda_layers_workspace_bytes(op, multiprocessors)) return bytes;
  return cuda_updates_workspace_bytes(op);
}

}  // namespace plimsoll::ops
