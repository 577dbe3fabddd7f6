#include "device/cpu_workspace.h"

#include "device/product_scratch.h"
#include "ops/workspace/workspace_cpu.h"

namespace plimsoll {

WorkspaceModel cpu_workspace_model(int threads) {
  return [threads](const Op& op) {
    return ops::cpu_workspace_bytes(op, threads, [threads](const ops::LibraryProduct& product) {
      return measured_product_scratch(product, threads);
    });
  };
}

}  // namespace plimsoll
