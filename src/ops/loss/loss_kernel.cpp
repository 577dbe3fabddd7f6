#include "ops/loss/loss_kernel.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>

#include "ops/block_products_cpu.h"
#include "ops/cpu_capability.h"
#include "ops/kernel_choice.h"
#include "ops/loss/linear_cross_entropy_blocks.h"
#include "ops/loss/linear_cross_entropy_chunks.h"
#include "ops/op_support.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;

enum class SizeClass : int8_t { small, large };

// The overhead of many small matmuls weighs differently on small shapes.
SizeClass size_class(const LossShape& shape) {
  return shape.tokens < 96 || shape.vocabulary < 2048 ? SizeClass::small : SizeClass::large;
}

void run_loss(DType dtype, SizeClass size, bool in_blocks) {
  const bool small = size == SizeClass::small;
  const int64_t tokens = small ? 64 : 256, vocabulary = small ? 1024 : 4096, width = small ? 64 : 256;
  const at::TensorOptions options = at::TensorOptions().dtype(scalar_type_of(dtype)).device(at::kCPU);
  const Tensor x = at::zeros({tokens, width}, options), weight = at::zeros({vocabulary, width}, options);
  const Tensor targets = at::zeros({tokens}, at::kLong);
  const Tensor grad_x = at::empty_like(x), grad_weight = at::empty_like(weight);
  (in_blocks ? linear_cross_entropy_blocks : losses_by_libtorch)(x, weight, targets, -1, 0, grad_x, grad_weight);
}

/// Returns true if blocks compute the losses of this type faster on this machine.
bool blocks_are_faster(DType dtype, SizeClass size) {
  // The usual kernel: libtorch's on processors with tiles in hardware or with half the vector width.
  const bool pairs = dtype == DType::bfloat16;
  const bool blocks_first = pairs ? !has_tile_products() : has_wide_tiles();
  const std::string site = fmt::format("loss_head.{}{}", name_of(dtype), size == SizeClass::small ? ".small" : "");
  const bool second = uses_second_kernel({.site = site,
                                          .first = blocks_first ? "blocks" : "libtorch",
                                          .second = blocks_first ? "libtorch" : "blocks",
                                          .run = [=](bool other) { run_loss(dtype, size, blocks_first != other); }});
  return blocks_first != second;
}

bool has_blocks(DType dtype) {
  if (dtype == DType::float32) return cpu_capability() != CpuCapability::baseline;
  return dtype == DType::bfloat16 && has_pair_products();
}

}  // namespace

Tensor losses_by_libtorch(const Tensor& x, const Tensor& weight, const Tensor& targets, int64_t ignore_index,
                          double softcap, const Tensor& grad_x, const Tensor& grad_weight) {
  const LossKernels kernels{.cross_entropy =
                                [](const CrossEntropy& args, int64_t rows) {
                                  at::parallel_for(0, rows, row_grain(args.width), [&](int64_t begin, int64_t end) {
                                    cross_entropy_rows(args, begin, end);
                                  });
                                },
                            .split_add =
                                [](const SplitAdd& args, int64_t rows) {
                                  at::parallel_for(0, rows, row_grain(args.width), [&](int64_t begin, int64_t end) {
                                    split_add_rows(args, begin, end);
                                  });
                                }};
  const LossChunks chunks = loss_chunks(x.size(0), weight.size(0), x.element_size(), kLossChunkBytes);
  return linear_cross_entropy_chunks(x, weight, targets, ignore_index, softcap, grad_x, grad_weight, chunks, kernels);
}

bool loss_in_blocks(const LossShape& shape) {
  if (shape.tokens < 32 || shape.vocabulary < kLossStretch || shape.width < 32 || !has_blocks(shape.dtype))
    return false;
  if (shape.dtype == DType::bfloat16 && shape.width % 2 != 0) return false;
  return blocks_are_faster(shape.dtype, size_class(shape));
}

void choose_loss_kernels() {
  for (const DType dtype : {DType::float32, DType::bfloat16})
    for (const SizeClass size : {SizeClass::small, SizeClass::large})
      if (has_blocks(dtype)) blocks_are_faster(dtype, size);
}

namespace {

using at::Tensor;

/// Returns the number of targets that count. Throws UserError for a target that is no row of the weight.
int64_t count_targets(const Tensor& targets, int64_t vocabulary, int64_t ignore_index) {
  const auto* target = targets.const_data_ptr<int64_t>();
  int64_t counted = 0;
  for (int64_t i = 0; i < targets.numel(); ++i) {
    const int64_t value = target[i * targets.stride(0)];
    if (value == ignore_index) continue;
    require(value >= 0 && value < vocabulary, "plimsoll::linear_cross_entropy", "target ", value, " at token ", i,
            " is outside 0..", vocabulary - 1, " (the rows of weight) and is not ignore_index, ", ignore_index);
    ++counted;
  }
  return counted;
}

template <typename T>
double total(const Tensor& values) {
  const auto* value = values.const_data_ptr<T>();
  double sum = 0;
  for (int64_t i = 0; i < values.numel(); ++i) sum += value[i];
  return sum;
}

}  // namespace

void linear_cross_entropy_cpu(const Tensor& x, const Tensor& weight, const Tensor& targets, int64_t ignore_index,
                              double softcap, const Tensor& loss, const Tensor& count, const Tensor& grad_x,
                              const Tensor& grad_weight) {
  const int64_t counted = std::max<int64_t>(1, count_targets(targets, weight.size(0), ignore_index));
  const bool in_blocks = loss_in_blocks({.tokens = x.size(0),
                                         .vocabulary = weight.size(0),
                                         .width = x.size(1),
                                         .dtype = dtype_of(x),
                                         .wants_x = false,
                                         .wants_weight = false});
  const Tensor losses = (in_blocks ? linear_cross_entropy_blocks : losses_by_libtorch)(x, weight, targets, ignore_index,
                                                                                       softcap, grad_x, grad_weight);
  const double sum = losses.scalar_type() == at::kDouble ? total<double>(losses) : total<float>(losses);
  loss.fill_(sum / static_cast<double>(counted));
  if (count.defined()) count.fill_(counted);
}

}  // namespace plimsoll::ops
