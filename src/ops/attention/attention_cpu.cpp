#include "ops/attention/attention_cpu.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "ops/attention/attention_tasks_cpu.h"
#include "ops/kernel_choice.h"
#include "ops/op_support.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;

HeadTensor heads(const Tensor& tensor) {
  return {tensor.data_ptr(), dtype_of(tensor), tensor.stride(0), tensor.stride(1), tensor.stride(2)};
}

MaskTensor mask_of(const Tensor& mask) {
  if (!mask.defined()) return {};
  return {mask.const_data_ptr(), dtype_of(mask), mask.stride(0), mask.stride(1), mask.stride(2), mask.stride(3)};
}

AttentionWork work_of(const AttentionCall& call, const Tensor& out, const Tensor& logsumexp, bool pairs) {
  return {.shape = call.shape,
          .dtype = dtype_of(call.q),
          .scale = call.scale,
          .cap = call.cap,
          .pairs = pairs,
          .q = heads(call.q),
          .k = heads(call.k),
          .v = heads(call.v),
          .out = heads(out),
          .logsumexp = heads(logsumexp),
          .mask = mask_of(call.mask),
          .dropout = call.dropout,
          .seed = call.seed};
}

/// Runs tasks 0 to `count` on the threads, each with `bytes` of the scratch.
template <typename Task>
void run_tasks(int64_t count, const Tensor& scratch, int64_t bytes, const Task& task) {
  char* all = static_cast<char*>(scratch.data_ptr());
  at::parallel_for(0, count, 1, [&](int64_t begin, int64_t end) {
    char* own = all + at::get_thread_num() * bytes;
    for (int64_t index = begin; index < end; ++index) task(index, own);
  });
}

Tensor bytes_like(const Tensor& tensor, int64_t bytes) {
  return at::empty({bytes}, tensor.options().dtype(at::kByte));
}

void forward(const AttentionCall& call, const Tensor& out, const Tensor& logsumexp, bool pairs) {
  const AttentionWork work = work_of(call, out, logsumexp, pairs);
  const int64_t element = call.q.element_size();
  const ForwardTiles tiles = forward_tiles(call.shape, element);
  const Tensor scratch = bytes_like(call.q, attention_forward_scratch(call.shape, element, at::get_num_threads()));
  run_tasks(forward_tasks(call.shape), scratch, tiles.total,
            [&](int64_t index, char* own) { attention_forward_task(work, tiles, index, own); });
}

void backward(const AttentionCall& call, const Tensor& grad_out, const Tensor& out, const Tensor& logsumexp,
              const Tensor& dq, const Tensor& dk, const Tensor& dv, bool pairs) {
  AttentionWork work = work_of(call, out, logsumexp, pairs);
  work.grad_out = heads(grad_out);
  work.dq = heads(dq);
  work.dk = heads(dk);
  work.dv = heads(dv);
  const int64_t element = call.q.element_size();
  const int threads = at::get_num_threads();
  const BackwardCut cut = backward_cut(call.shape, threads);
  const BackwardTiles tiles = backward_tiles(call.shape, cut, element);
  const Tensor scratch = bytes_like(call.q, attention_backward_scratch(call.shape, element, threads));
  run_tasks(cut.key_tasks, scratch, tiles.total,
            [&](int64_t index, char* own) { attention_keys_task(work, cut, tiles, index, own); });
  if (cut.query_tasks == 0) return;
  run_tasks(cut.query_tasks, scratch, tiles.total,
            [&](int64_t index, char* own) { attention_queries_task(work, tiles, index, own); });
}

void run_typical(bool pairs) {
  constexpr int64_t kHeads = 2, kTokens = 256, kWidth = 64;
  const Tensor q = at::zeros({1, kHeads, kTokens, kWidth}, at::kBFloat16), out = at::empty_like(q),
               logsumexp = at::empty({1, kHeads, kTokens}, at::kFloat);
  const Tensor dq = at::empty_like(q), dk = at::empty_like(q), dv = at::empty_like(q);
  const AttentionCall call{.shape = {.batch = 1,
                                     .query_heads = kHeads,
                                     .kv_heads = kHeads,
                                     .queries = kTokens,
                                     .keys = kTokens,
                                     .width = kWidth,
                                     .causal = true,
                                     .window = 0},
                           .scale = 0.125,
                           .cap = 0,
                           .q = q,
                           .k = q,
                           .v = q};
  forward(call, out, logsumexp, pairs);
  backward(call, q, out, logsumexp, dq, dk, dv, pairs);
}

/// Returns true if bfloat16 scores are matmuls of pairs; false: of elements converted to float32.
bool uses_pairs(const AttentionCall& call) {
  return dtype_of(call.q) == DType::bfloat16 && call.shape.width % 2 == 0 && has_pair_products() && pairs_are_faster();
}

}  // namespace

bool pairs_are_faster() {
  return !uses_second_kernel(
      {.site = "attention.bfloat16", .first = "pairs", .second = "float32", .run = [](bool second) {
         run_typical(!second);
       }});
}

void attention_forward_cpu(const AttentionCall& call, const Tensor& out, const Tensor& logsumexp) {
  forward(call, out, logsumexp, uses_pairs(call));
}

void attention_backward_cpu(const AttentionCall& call, const Tensor& grad_out, const Tensor& out,
                            const Tensor& logsumexp, const Tensor& dq, const Tensor& dk, const Tensor& dv) {
  backward(call, grad_out, out, logsumexp, dq, dk, dv, uses_pairs(call));
}

}  // namespace plimsoll::ops
