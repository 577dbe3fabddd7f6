#include "ops/loss/linear_cross_entropy_chunks.h"

#include <ATen/ATen.h>

#include "ops/op_support.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;

/// A sum of the chunks' shares of the weight gradient. A 16-bit sum of many chunks would lose their small parts. It is
/// therefore float32, or stored as two 16-bit values, the gradient and its rounding error.
class WeightGradient {
 public:
  WeightGradient(const Tensor& gradient, const LossChunks& chunks, const LossKernels& kernels)
      : gradient_(gradient), chunks_(chunks.count), block_(chunks.gradient_block), kernels_(kernels) {
    const int64_t width = gradient.size(1);
    const bool narrow = gradient.element_size() == 2 && chunks.count > 1;
    split_ = narrow && !chunks.float32_sums;
    if (narrow && chunks.float32_sums) sum_ = at::empty(gradient.sizes(), gradient.options().dtype(at::kFloat));
    if (split_) product_ = at::empty({std::min(chunks.gradient_block, gradient.size(0)), width}, gradient.options());
    if (split_ && chunks.count > 2) low_ = at::empty(gradient.sizes(), gradient.options());
  }

  void add(int64_t chunk, const Tensor& grad_logits, const Tensor& x) {
    const Tensor transposed = grad_logits.t();
    if (sum_.defined()) {
      kernels_.add_product(sum_, transposed, x, chunk == 0);
      if (chunk + 1 == chunks_) gradient_.copy_(sum_);
    } else if (chunk == 0) {
      at::mm_out(gradient_, transposed, x);
    } else if (!split_) {
      at::addmm_out(gradient_, gradient_, transposed, x);
    } else {
      add_split(chunk, transposed, x);
    }
  }

 private:
  void add_split(int64_t chunk, const Tensor& transposed, const Tensor& x) {
    const int64_t width = gradient_.size(1);
    for (int64_t begin = 0; begin < gradient_.size(0); begin += block_) {
      const int64_t size = std::min(block_, gradient_.size(0) - begin);
      Tensor product = product_.narrow(0, 0, size);
      at::mm_out(product, transposed.narrow(0, begin, size), x);
      const SplitAdd args{.part = const_rows(product),
                          .high = rows(gradient_.narrow(0, begin, size)),
                          .low = low_.defined() ? rows(low_.narrow(0, begin, size)) : Rows{},
                          .read_low = low_.defined() && chunk > 1,
                          .write_low = low_.defined() && chunk + 1 < chunks_,
                          .width = width};
      kernels_.split_add(args, size);
    }
  }

  Tensor gradient_, sum_, product_, low_;
  int64_t chunks_, block_;
  const LossKernels& kernels_;
  bool split_;
};

}  // namespace

Tensor linear_cross_entropy_chunks(const Tensor& x, const Tensor& weight, const Tensor& targets, int64_t ignore_index,
                                   double softcap, const Tensor& grad_x, const Tensor& grad_weight,
                                   const LossChunks& chunks, const LossKernels& kernels) {
  const int64_t tokens = x.size(0), vocabulary = weight.size(0);
  const bool wants_x = grad_x.defined() && grad_x.numel() > 0,
             wants_weight = grad_weight.defined() && grad_weight.numel() > 0;
  const Tensor from = matrix_rows(x), rows_of_weight = matrix_rows(weight);
  const Tensor losses = at::empty({tokens}, x.options().dtype(accumulator(x.scalar_type())));
  const Tensor logits = at::empty({chunks.rows, vocabulary}, x.options());
  std::optional<WeightGradient> weight_gradient;
  if (wants_weight) weight_gradient.emplace(grad_weight, chunks, kernels);

  for (int64_t chunk = 0; chunk < chunks.count; ++chunk) {
    const int64_t begin = chunk * chunks.rows, size = std::min(chunks.rows, tokens - begin);
    const Tensor part = from.narrow(0, begin, size);
    Tensor part_logits = logits.narrow(0, 0, size);
    at::mm_out(part_logits, part, rows_of_weight.t());
    const CrossEntropy args{.logits = rows(part_logits),
                            .targets = targets.const_data_ptr<int64_t>() + begin * targets.stride(0),
                            .target_stride = targets.stride(0),
                            .ignore_index = ignore_index,
                            .losses = static_cast<char*>(losses.data_ptr()) + begin * losses.element_size(),
                            .width = vocabulary,
                            .gradient = wants_x || wants_weight,
                            .softcap = softcap};
    kernels.cross_entropy(args, size);
    if (wants_x) {
      Tensor part_gradient = grad_x.narrow(0, begin, size);
      at::mm_out(part_gradient, part_logits, rows_of_weight);
    }
    if (wants_weight) weight_gradient->add(chunk, part_logits, part);
  }
  return losses;
}

}  // namespace plimsoll::ops
