#include "device/cpu_workspace.h"

#include "ops/workspace_cpu.h"

namespace plimsoll {

WorkspaceModel cpu_workspace_model(int threads) {
  return [threads](const Op& op) { return ops::cpu_workspace_bytes(op, threads); };
}

}  // namespace plimsoll
