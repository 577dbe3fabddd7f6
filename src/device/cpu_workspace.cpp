#include "device/cpu_workspace.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "device/matmul_scratch.h"
#include "ops/workspace/workspace.h"

namespace plimsoll {

WorkspaceModel cpu_workspace_model(int threads, std::shared_ptr<MeasureAllowance> allowance) {
  return [threads, allowance = std::move(allowance)](const Op& op) {
    return ops::cpu_workspace_bytes(op, threads, [&](const ops::LibraryMatmul& product) {
      return matmul_scratch(product, threads, allowance.get()).bytes;
    });
  };
}

EstimatedScratch estimated_scratch(const Trace& trace, int threads, const MeasureAllowance* allowance) {
  EstimatedScratch result;
  std::set<std::vector<int64_t>> counted;  // by dtype, sizes and strides
  for (const Op& op : trace.ops)
    ops::cpu_workspace_bytes(op, threads, [&](const ops::LibraryMatmul& product) {
      const int64_t bytes = estimate_in_use(product, threads, allowance);
      if (bytes == 0) return int64_t{0};
      std::vector<int64_t> key = {static_cast<int64_t>(product.left.dtype), product.adds};
      for (const View* view : {&product.left, &product.right, &product.result}) {
        key.insert(key.end(), view->sizes.begin(), view->sizes.end());
        key.insert(key.end(), view->strides.begin(), view->strides.end());
      }
      result.matmuls += counted.insert(std::move(key)).second;
      result.bytes = std::max(result.bytes, bytes);
      return bytes;
    });
  return result;
}

}  // namespace plimsoll
