#include "ops/attention/attention_cpu.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "ops/attention/attention_tasks_cpu.h"
#include "ops/op_support.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;

HeadTensor heads(const Tensor& tensor) {
  return {tensor.data_ptr(), dtype_of(tensor), tensor.stride(0), tensor.stride(1), tensor.stride(2)};
}

AttentionWork work_of(const AttentionCall& call, const Tensor& out, const Tensor& logsumexp) {
  const DType dtype = dtype_of(call.q);
  return {.shape = call.shape,
          .dtype = dtype,
          .scale = call.scale,
          .cap = call.cap,
          .pairs = dtype == DType::bfloat16 && call.shape.width % 2 == 0 && has_pair_products(),
          .q = heads(call.q),
          .k = heads(call.k),
          .v = heads(call.v),
          .out = heads(out),
          .logsumexp = heads(logsumexp)};
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

}  // namespace

void attention_forward_cpu(const AttentionCall& call, const Tensor& out, const Tensor& logsumexp) {
  const AttentionWork work = work_of(call, out, logsumexp);
  const int64_t element = call.q.element_size();
  const ForwardTiles tiles = forward_tiles(call.shape, element);
  const Tensor scratch = bytes_like(call.q, attention_forward_scratch(call.shape, element, at::get_num_threads()));
  run_tasks(forward_tasks(call.shape), scratch, tiles.total,
            [&](int64_t index, char* own) { attention_forward_task(work, tiles, index, own); });
}

void attention_backward_cpu(const AttentionCall& call, const Tensor& grad_out, const Tensor& out,
                            const Tensor& logsumexp, const Tensor& dq, const Tensor& dk, const Tensor& dv) {
  AttentionWork work = work_of(call, out, logsumexp);
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

}  // namespace plimsoll::ops
