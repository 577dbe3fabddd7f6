#include "ops/cuda_op_support.h"

#include "ops/loss/cross_entropy_launch.h"
#include "ops/loss/linear_cross_entropy.h"
#include "ops/loss/linear_cross_entropy_chunks.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;

void run(const Tensor& x, const Tensor& weight, const Tensor& targets, int64_t ignore_index, double softcap,
         std::optional<int64_t> chunk_tokens, const Tensor& loss, const Tensor& count, const Tensor& grad_x,
         const Tensor& grad_weight) {
  const cuda::OnDevice on("plimsoll::linear_cross_entropy", x, weight, targets, loss, count, grad_x, grad_weight);
  const LossKernels kernels{
      .cross_entropy = [&](const CrossEntropy& args,
                           int64_t rows) { cuda::launch_cross_entropy(args, rows, on.stream()); },
      .split_add = [&](const SplitAdd& args, int64_t rows) { cuda::launch_split_add(args, rows, on.stream()); },
      .add_product = cuda::add_product};
  const LossChunks chunks = cuda_loss_chunks(x.size(0), weight.size(0), x.size(1), x.element_size(), chunk_tokens);
  const Tensor losses =
      linear_cross_entropy_chunks(x, weight, targets, ignore_index, softcap, grad_x, grad_weight, chunks, kernels);
  cuda::launch_mean_loss(losses.const_data_ptr(), dtype_of(losses), targets.const_data_ptr<int64_t>(),
                         targets.stride(0), ignore_index, targets.size(0), loss.data_ptr(),
                         count.defined() ? count.data_ptr() : nullptr, on.stream());
}

std::tuple<Tensor, Tensor, Tensor, Tensor> run_with_gradients(const Tensor& x, const Tensor& weight,
                                                              const Tensor& targets, int64_t ignore_index, bool wants_x,
                                                              bool wants_weight, double softcap,
                                                              std::optional<int64_t> chunk_tokens) {
  auto results = loss_and_gradient_results(x, weight, targets, ignore_index, wants_x, wants_weight, softcap);
  const auto& [loss, count, grad_x, grad_weight] = results;
  run(x, weight, targets, ignore_index, softcap, chunk_tokens, loss, count, grad_x, grad_weight);
  return results;
}

std::tuple<Tensor, Tensor, Tensor, Tensor> with_gradients_in_chunks(const Tensor& x, const Tensor& weight,
                                                                    const Tensor& targets, int64_t ignore_index,
                                                                    bool wants_x, bool wants_weight, double softcap,
                                                                    int64_t chunk_tokens) {
  return run_with_gradients(x, weight, targets, ignore_index, wants_x, wants_weight, softcap, chunk_tokens);
}

std::tuple<Tensor, Tensor, Tensor, Tensor> with_gradients_cuda(const Tensor& x, const Tensor& weight,
                                                               const Tensor& targets, int64_t ignore_index,
                                                               bool wants_x, bool wants_weight, double softcap) {
  return run_with_gradients(x, weight, targets, ignore_index, wants_x, wants_weight, softcap, std::nullopt);
}

Tensor loss_in_chunks(const Tensor& x, const Tensor& weight, const Tensor& targets, int64_t ignore_index,
                      double softcap, int64_t chunk_tokens) {
  Tensor loss = loss_result(x, weight, targets, ignore_index, softcap);
  run(x, weight, targets, ignore_index, softcap, chunk_tokens, loss, Tensor(), Tensor(), Tensor());
  return loss;
}

Tensor loss_cuda(const Tensor& x, const Tensor& weight, const Tensor& targets, int64_t ignore_index, double softcap) {
  Tensor loss = loss_result(x, weight, targets, ignore_index, softcap);
  run(x, weight, targets, ignore_index, softcap, std::nullopt, loss, Tensor(), Tensor(), Tensor());
  return loss;
}

TORCH_LIBRARY_IMPL(plimsoll, CUDA, m) {
  m.impl("linear_cross_entropy", with_gradients_cuda);
  m.impl("linear_cross_entropy.chunks", with_gradients_in_chunks);
  m.impl("linear_cross_entropy_loss", loss_cuda);
  m.impl("linear_cross_entropy_loss.chunks", loss_in_chunks);
}

}  // namespace
}  // namespace plimsoll::ops
