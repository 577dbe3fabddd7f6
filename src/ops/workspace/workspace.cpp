#include "ops/workspace/workspace.h"

#include <map>

#include "cost/operators.h"
#include "ops/matmul_throughput.h"
#include "ops/products_cpu.h"
#include "ops/workspace/scratch_row.h"

namespace plimsoll::ops {
namespace {

/// Returns the scratch of libtorch's matmuls that go through float32 blocks; nullopt if they are libtorch's own.
template <size_t left>
std::optional<int64_t> float32_matmul(const Op& op, const ScratchDevice& on) {
  const View &a = tensor(op, left), &b = tensor(op, left + 1);
  if (!float32_products(a.dtype) || b.dtype != a.dtype || elements(a.sizes) == 0 || elements(b.sizes) == 0)
    return std::nullopt;
  const size_t last = a.sizes.size() - 1;
  return on.rounded(matmul_scratch(a.sizes[last - 1], a.sizes[last], b.sizes[last]));
}

constexpr ScratchRow kLibtorchScratch[] = {
    {"aten::mm", float32_matmul<0>},
    {"aten::bmm", float32_matmul<0>},
    {"aten::addmm", float32_matmul<1>},
    {"aten::addmm_", float32_matmul<1>},
    {"aten::baddbmm", float32_matmul<1>},
    {"aten::baddbmm_", float32_matmul<1>},
    {"aten::_grouped_mm", float32_matmul<0>},  // at most that of one group with all rows
    {"plimsoll::fused"},
};

const std::map<std::string_view, const ScratchRow*>& scratch_rows() {
  static const std::map<std::string_view, const ScratchRow*> rows = [] {
    std::map<std::string_view, const ScratchRow*> by_name;
    for (const std::span<const ScratchRow> group : scratch_groups())
      for (const ScratchRow& row : group) by_name[row.name] = &row;
    return by_name;
  }();
  return rows;
}

}  // namespace

std::vector<std::span<const ScratchRow>> scratch_groups() {
  return {kLibtorchScratch,    attention_scratch(), layer_scratch(), loss_scratch(),
          quantized_scratch(), scan_scratch(),      update_scratch()};
}

const ScratchRow* scratch_row(std::string_view name) {
  const OperatorRow* row = operator_row(name);
  const auto found = scratch_rows().find(row ? row->name : name.substr(0, name.find('.')));
  return found == scratch_rows().end() ? nullptr : found->second;
}

std::optional<int64_t> cpu_workspace_bytes(const Op& op, int threads, const MatmulScratch& matmul_scratch) {
  const ScratchRow* row = scratch_row(op.name);
  if (!row || !row->cpu) return std::nullopt;
  return row->cpu(op, {{kCpuScratchAlignment}, threads, &matmul_scratch});
}

std::optional<int64_t> cuda_workspace_bytes(const Op& op, int multiprocessors, bool flash_attention) {
  const ScratchRow* row = scratch_row(op.name);
  if (!row || !row->cuda) return std::nullopt;
  return row->cuda(op, {{kCudaScratchAlignment}, 0, nullptr, multiprocessors, flash_attention});
}

}  // namespace plimsoll::ops
