#include "device/cuda_workspace.h"

#include "ops/workspace/workspace.h"

namespace plimsoll {

WorkspaceModel cuda_workspace_model(int multiprocessors) {
  return [multiprocessors](const Op& op) { return ops::cuda_workspace_bytes(op, multiprocessors); };
}

}  // namespace plimsoll
