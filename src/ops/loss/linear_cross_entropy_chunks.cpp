#include "ops/loss/linear_cross_entropy_chunks.h"

#include <ATen/ATen.h>

#include "ops/op_support.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;

/// A sum of the chunks' shares of the weight gradient. Matmuls of 16-bit types have 16-bit results. The sum is
/// stored as two 16-bit values, the gradient and its rounding error, so that many chunks do not lose their small parts.
class WeightGradient {
 public:
  WeightGradient(const Tensor& gradient, int64_t chunks, const LossKernels& kernels)
      : gradient_(gradient), chunks_(chunks), kernels_(kernels) {
    const int64_t width = gradient.size(1);
    split_ = gradient.element_size() == 2 && chunks > 1;
    if (split_) product_ = at::empty({std::min(kLossGradientBlock, gradient.size(0)), width}, gradient.options());
    if (split_ && chunks > 2) low_ = at::empty(gradient.sizes(), gradient.options());
  }

  void add(int64_t chunk, const Tensor& grad_logits, const Tensor& x) {
    const Tensor transposed = grad_logits.t();
    if (chunk == 0) {
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
    for (int64_t begin = 0; begin < gradient_.size(0); begin += kLossGradientBlock) {
      const int64_t size = std::min(kLossGradientBlock, gradient_.size(0) - begin);
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

  Tensor gradient_, product_, low_;
  int64_t chunks_;
  const LossKernels& kernels_;
  bool split_;
};

}  // namespace

Tensor linear_cross_entropy_chunks(const Tensor& x, const Tensor& weight, const Tensor& targets, int64_t ignore_index,
                                   double softcap, const Tensor& grad_x, const Tensor& grad_weight,
                                   const LossKernels& kernels) {
  const int64_t tokens = x.size(0), vocabulary = weight.size(0);
  const bool wants_x = grad_x.defined() && grad_x.numel() > 0,
             wants_weight = grad_weight.defined() && grad_weight.numel() > 0;
  const LossChunks chunks = loss_chunks(tokens, vocabulary, x.element_size(), kernels.chunk_bytes);
  const Tensor from = matrix_rows(x), rows_of_weight = matrix_rows(weight);
  const Tensor losses = at::empty({tokens}, x.options().dtype(accumulator(x.scalar_type())));
  const Tensor logits = at::empty({chunks.rows, vocabulary}, x.options());
  std::optional<WeightGradient> weight_gradient;
  if (wants_weight) weight_gradient.emplace(grad_weight, chunks.count, kernels);

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
