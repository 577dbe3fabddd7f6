// Measures the executor's cost of an op in addition to the op's kernel: segments of ops whose kernels return
// immediately, on operands of 64 bytes. "ns/op" is the whole segment's time for an op, including the dispatcher's boxed
// call of the empty kernel. `boxed_call/…` is this call alone, on arguments that are copied for each call, as any
// caller would have to do.
//    executor_bench --benchmark_filter=executor
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <benchmark/benchmark.h>
#include <torch/library.h>

#include "device/arena.h"
#include "device/backend.h"
#include "ops/libtorch_types.h"
#include "plimsoll/trace.h"
#include "run/executor/executor.h"

namespace {

using at::Tensor;

// The arguments are those of aten::add.out, aten::add_ and aten::add; the kernels compute nothing.
Tensor& out_kernel(const Tensor&, const Tensor&, const at::Scalar&, Tensor& out) {
  return out;
}
Tensor& in_place_kernel(Tensor& self, const Tensor&, const at::Scalar&) {
  return self;
}
// A kernel that makes its output only allocates it.
Tensor fresh_kernel(const Tensor& self, const Tensor&, const at::Scalar&) {
  return at::detail::empty_cpu(self.sizes(), at::kFloat, std::nullopt, std::nullopt, std::nullopt, std::nullopt);
}

TORCH_LIBRARY(executor_bench, m) {
  m.def("out(Tensor self, Tensor other, *, Scalar alpha=1, Tensor(a!) out) -> Tensor(a!)");
  m.def("in_place(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)");
  m.def("fresh(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor");
}
TORCH_LIBRARY_IMPL(executor_bench, CPU, m) {
  m.impl("out", out_kernel);
  m.impl("in_place", in_place_kernel);
  m.impl("fresh", fresh_kernel);
}

constexpr int64_t kElements = 16;
constexpr int kBuffers = 64, kOps = 2000;

enum class Form { out, in_place, fresh, random };  // random: in place, with random numbers

plimsoll::View whole(plimsoll::BufferId buffer) {
  return {buffer, plimsoll::DType::float32, 0, {kElements}, {1}};
}

// kOps ops; each has other buffers than the one before it.
plimsoll::Plan plan_of(const char* name, const char* overload, Form form) {
  plimsoll::Plan plan;
  plan.trace.modules = {""};
  for (int b = 0; b < kBuffers; ++b) {
    plan.trace.buffers.push_back({.bytes = kElements * 4});
    plan.offsets.push_back(b * plimsoll::kArenaAlignment);
  }
  plan.arena_bytes = kBuffers * plimsoll::kArenaAlignment;
  auto call = std::make_shared<plimsoll::OpCall>(
      plimsoll::OpCall{c10::Dispatcher::singleton().findSchemaOrThrow(name, overload), {}});
  const size_t arguments = form == Form::out ? 4 : 3;
  call->constants.resize(arguments);
  call->constants[2] = at::Scalar(1);
  for (int i = 0; i < kOps; ++i) {
    plimsoll::Op op;
    op.name = name;
    op.arguments.resize(arguments);
    const auto operand = [&](size_t index, int buffer, bool written) {
      op.arguments[index] = {plimsoll::Argument::Kind::tensor, written, {whole((i + buffer) % kBuffers)}};
    };
    operand(0, 0, form == Form::in_place || form == Form::random);
    operand(1, 1, false);
    if (form == Form::out) operand(3, 2, true);
    if (form == Form::fresh) op.results = {whole((i + 2) % kBuffers)};
    if (form == Form::random) op.random_id = i;
    op.call = call;
    plan.trace.ops.push_back(std::move(op));
    plan.workspace_offsets.push_back(-1);
  }
  plan.trace.segments = {{plimsoll::SegmentKind::micro, 0, kOps}};
  return plan;
}

void report(benchmark::State& state) {
  // Seconds an op; printed with a unit: 1.2u.
  state.counters["s/op"] =
      benchmark::Counter(kOps, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void executor(benchmark::State& state, const char* name, const char* overload, Form form) {
  const plimsoll::Plan plan = plan_of(name, overload, form);
  plimsoll::CpuArena arena(plan.arena_bytes);
  plimsoll::Executor executor(plan, plimsoll::cpu_backend(), arena);
  for (auto _ : state) executor.run(plan.trace.segments[0], {});
  report(state);
}

void boxed_call(benchmark::State& state, const char* name, const char* overload, Form form) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  std::vector<c10::IValue> arguments;
  for (int i = 0; i < 2; ++i) arguments.emplace_back(at::empty({kElements}));
  arguments.emplace_back(at::Scalar(1));
  if (form == Form::out) arguments.emplace_back(at::empty({kElements}));
  std::vector<c10::IValue> stack;
  for (auto _ : state)
    for (int i = 0; i < kOps; ++i) {
      stack.assign(arguments.begin(), arguments.end());
      op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
      stack.clear();
    }
  report(state);
}

}  // namespace

#define BOTH(label, name, overload, form)                         \
  BENCHMARK_CAPTURE(executor, label, name, overload, Form::form); \
  BENCHMARK_CAPTURE(boxed_call, label, name, overload, Form::form)

BOTH(empty_out, "executor_bench::out", "", out);
BOTH(empty_in_place, "executor_bench::in_place", "", in_place);
BENCHMARK_CAPTURE(executor, empty_random, "executor_bench::in_place", "", Form::random);
BOTH(empty_fresh, "executor_bench::fresh", "", fresh);
BOTH(add_out, "aten::add", "out", out);  // a real kernel, for comparison
BOTH(add, "aten::add", "Tensor", fresh);

BENCHMARK_MAIN();
