// Measures seconds of an optimizer step. It compares our operators with libtorch's fused AdamW, which is the kernel of
// PyTorch's AdamW(fused=True) on the CPU. For models with many small parameters it compares single updates with groups
// (passes/group_updates) and libtorch's one call. All kinds take turns in one process, so that a machine that slows
// down slows all of them; the median of the rounds counts. Run it on an idle machine, with a core for each thread:
//
//     optimizer_bench [elements in millions = 64; 0: only small parameters] [rounds = 31] [threads = 2]
#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "ops/formats.h"
#include "plan/passes/passes.h"
#include "run/optimizer/optimizer.h"

namespace {

using at::Tensor;
using namespace plimsoll;

constexpr double kRate = 1e-3;

struct Kind {
  std::string name;
  double bytes = 0;  ///< bytes read and written for an element
  std::function<void()> step;
  std::vector<double> seconds = {};
  double median() const {
    std::vector<double> sorted = seconds;
    std::ranges::sort(sorted);
    return sorted[sorted.size() / 2];
  }
};

/// A separate parameter for each kind, as every step changes it.
Kind libtorchs(int64_t elements) {
  std::vector<Tensor> tensors;
  for (int i = 0; i < 4; ++i) tensors.push_back(torch::randn({elements / 1024, 1024}).abs() * 1e-3);
  const Tensor step = at::ones({});
  return {"libtorch, float32", 28, [=] {
            at::_fused_adamw_({tensors[0]}, {tensors[1]}, {tensors[2]}, {tensors[3]}, {}, {step}, kRate, 0.9, 0.95, 0.1,
                              1e-8, false, false);
          }};
}

Kind ours(const std::string& name, int64_t elements, const OptimizerConfig& config, at::ScalarType type, double bytes) {
  auto optimizer = std::make_shared<Optimizer>(config);
  const OptimizedParameter parameter{"p", torch::randn({elements / 1024, 1024}).to(type),
                                     (torch::randn({elements / 1024, 1024}) * 1e-3).to(type)};
  optimizer->make_state({parameter});
  const UpdateScalars scalars{at::scalar_tensor(kRate, at::kDouble), at::ones({}), at::zeros({})};
  return {name, bytes, [=] { optimizer->update_one(parameter, 0, scalars); }};
}

/// Parameters of a model, by their numbers of elements.
struct Model {
  std::string name;
  std::vector<int64_t> counts;
};

/// examples/gesture-ssm/tiny.yaml
Model gesture_ssm() {
  Model model{"gesture-ssm, small job", {7 * 64, 64}};
  for (int layer = 0; layer < 6; ++layer)
    for (const int64_t count : {64, 328 * 64, 192 * 4, 192, 8, 8, 8, 128, 64 * 128}) model.counts.push_back(count);
  for (const int64_t count : {64, 64, 64, 64, 4 * 256, 4}) model.counts.push_back(count);
  return model;
}
Model vision_transformer(const char* name, int64_t width) {
  Model model{name, {width * 3 * 16 * 16, width, width, 197 * width}};
  for (int layer = 0; layer < 12; ++layer)
    for (const int64_t count : {width, width, 3 * width * width, 3 * width, width * width, width, width, width,
                                4 * width * width, 4 * width, 4 * width * width, width})
      model.counts.push_back(count);
  for (const int64_t count : {width, width, 1000 * width, int64_t{1000}}) model.counts.push_back(count);
  return model;
}

/// Calls as the executor makes them.
struct Calls {
  std::vector<std::pair<c10::OperatorHandle, torch::jit::Stack>> all;
  void run() const {
    torch::jit::Stack stack;
    for (const auto& [handle, arguments] : all) {
      stack = arguments;
      handle.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
    }
  }
};

struct SmallParameter {
  std::vector<Tensor> tensors;  ///< parameter, companion, gradient, its scales, two means with theirs
  bool packed = false;
  int64_t count() const { return tensors[0].numel(); }
};

std::vector<SmallParameter> parameters_of(const Model& model, bool packed) {
  std::vector<SmallParameter> all;
  for (const int64_t count : model.counts) {
    const bool in_8_bits = packed && count >= 4096;
    const auto mean = [&] { return in_8_bits ? at::zeros({count}, at::kByte) : at::zeros({count}); };
    const auto scales = [&] {
      return in_8_bits ? at::zeros({ops::scales_of(ops::Format::bits8, count)}, at::kByte) : Tensor();
    };
    all.push_back(
        {{torch::randn({count}), {}, torch::randn({count}) * 1e-3, {}, mean(), scales(), mean(), scales()}, in_8_bits});
  }
  return all;
}

void add_step(torch::jit::Stack& arguments, c10::IValue seeds) {
  for (const Tensor& scalar : {at::zeros({}), at::scalar_tensor(kRate, at::kDouble), at::ones({}), at::zeros({})})
    arguments.emplace_back(scalar);
  for (const double number : {0.9, 0.95, 0.1, 1e-8}) arguments.emplace_back(number);
  for (const bool stochastic : {false, false}) arguments.emplace_back(stochastic);
  // Whole parameters begin at element 0.
  const c10::IValue first =
      seeds.isInt() ? c10::IValue(int64_t{0}) : c10::IValue(std::vector<int64_t>(seeds.toIntVector().size(), 0));
  arguments.push_back(std::move(seeds));
  arguments.push_back(first);
}

Calls one_by_one(const std::vector<SmallParameter>& parameters) {
  Calls calls;
  const auto handle = c10::Dispatcher::singleton().findSchemaOrThrow("plimsoll::adamw_", "");
  for (const SmallParameter& parameter : parameters) {
    torch::jit::Stack arguments;
    for (const Tensor& tensor : parameter.tensors)
      arguments.push_back(tensor.defined() ? c10::IValue(tensor) : c10::IValue());
    add_step(arguments, int64_t{1});
    calls.all.emplace_back(handle, std::move(arguments));
  }
  return calls;
}

/// Makes the groups of the pass: large parameters alone, those with packed state separate from the others.
Calls in_groups(const std::vector<SmallParameter>& parameters) {
  Calls calls;
  const auto handle = c10::Dispatcher::singleton().findSchemaOrThrow("plimsoll::adamw_group_", "");
  for (const bool packed : {false, true}) {
    std::vector<SmallParameter> members;
    int64_t count = 0;
    const auto close = [&] {
      if (members.empty()) return;
      torch::jit::Stack arguments;
      for (size_t i = 0; i < 8; ++i) {
        c10::List<Tensor> list;
        for (const SmallParameter& member : members)
          if (member.tensors[i].defined()) list.push_back(member.tensors[i]);
        arguments.emplace_back(list);
      }
      add_step(arguments, std::vector<int64_t>(members.size(), 1));
      calls.all.emplace_back(handle, std::move(arguments));
      members.clear();
      count = 0;
    };
    const MergingParameters limits;
    for (const SmallParameter& parameter : parameters) {
      if (parameter.packed != packed) continue;
      if (parameter.count() > limits.max_grouped_elements) {
        const Calls alone = one_by_one({parameter});
        calls.all.push_back(alone.all[0]);
        continue;
      }
      if (count + parameter.count() > limits.max_group_elements) close();
      members.push_back(parameter);
      count += parameter.count();
    }
    close();
  }
  return calls;
}

/// libtorch's fused AdamW also takes lists.
std::function<void()> libtorchs_lists(const Model& model) {
  std::vector<std::vector<Tensor>> lists(5);
  for (const int64_t count : model.counts) {
    for (int i = 0; i < 4; ++i) lists[static_cast<size_t>(i)].push_back(torch::randn({count}).abs() * 1e-3);
    lists[4].push_back(at::ones({}));
  }
  return [lists] {
    at::_fused_adamw_(lists[0], lists[1], lists[2], lists[3], {}, lists[4], kRate, 0.9, 0.95, 0.1, 1e-8, false, false);
  };
}

void take_turns(std::vector<Kind>& kinds, long rounds) {
  for (long round = -2; round < rounds; ++round) {
    for (Kind& kind : kinds) {
      const auto start = std::chrono::steady_clock::now();
      kind.step();
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
      if (round >= 0) kind.seconds.push_back(taken.count());
    }
  }
}

void small_parameters(const Model& model, long rounds) {
  std::vector<Kind> kinds;
  size_t calls = 0;
  for (const bool packed : {false, true}) {
    const std::string name = packed ? "adamw, 8-bit state" : "adamw, float32";
    const Calls alone = one_by_one(parameters_of(model, packed)), groups = in_groups(parameters_of(model, packed));
    kinds.push_back({name + ", one by one", 0, [alone] { alone.run(); }});
    kinds.push_back({name + ", in groups", 0, [groups] { groups.run(); }});
    if (!packed) calls = groups.all.size();
  }
  kinds.push_back({"libtorch's fused AdamW, one call", 0, libtorchs_lists(model)});
  take_turns(kinds, rounds);
  int64_t numbers = 0;
  for (const int64_t count : model.counts) numbers += count;
  std::printf("\n%s: %zu parameters of %lld numbers, float32 in %zu calls\n", model.name.c_str(), model.counts.size(),
              static_cast<long long>(numbers), calls);
  std::printf("%-42s %9s %9s %8s\n", "", "us", "fastest", "ratio");
  for (size_t i = 0; i < kinds.size(); ++i)
    std::printf("%-42s %9.1f %9.1f %8.2f\n", kinds[i].name.c_str(), kinds[i].median() * 1e6,
                *std::ranges::min_element(kinds[i].seconds) * 1e6,
                kinds[i].median() / kinds[i < 4 ? i / 2 * 2 : 0].median());
}

void large_parameter(int64_t elements, long rounds) {
  std::vector<Kind> kinds;
  kinds.push_back(libtorchs(elements));
  const auto add = [&](const char* name, const char* optimizer, StateDtype state, WeightUpdate update,
                       at::ScalarType type, double bytes) {
    OptimizerConfig config;
    config.name = optimizer;
    config.state_dtype = state;
    config.weight_update = update;
    kinds.push_back(ours(name, elements, config, type, bytes));
  };
  using S = StateDtype;
  using W = WeightUpdate;
  add("adamw, float32", "adamw", S::float32, W::nearest, at::kFloat, 28);
  add("adamw, float32, bfloat16 state", "adamw", S::bfloat16, W::stochastic, at::kFloat, 20);
  add("adamw, float32, 8-bit state", "adamw", S::bits8, W::nearest, at::kFloat, 16);
  add("adamw, float32, 4-bit state", "adamw", S::bits4, W::nearest, at::kFloat, 14);
  add("adamw, bfloat16 stochastic, 8-bit state", "adamw", S::bits8, W::stochastic, at::kBFloat16, 10);
  add("adamw, bfloat16 stochastic, 4-bit state", "adamw", S::bits4, W::stochastic, at::kBFloat16, 8);
  add("adamw, bfloat16 split, 8-bit state", "adamw", S::bits8, W::split, at::kBFloat16, 14);
  add("adamw, bfloat16 kahan, bfloat16 state", "adamw", S::bfloat16, W::kahan, at::kBFloat16, 18);
  add("lion, float32", "lion", S::float32, W::nearest, at::kFloat, 20);
  add("lion, bfloat16 stochastic, 8-bit state", "lion", S::bits8, W::stochastic, at::kBFloat16, 8);
  add("sgd with momentum, float32", "sgd", S::float32, W::nearest, at::kFloat, 20);
  take_turns(kinds, rounds);
  std::printf("%lld elements, %d threads, median of %ld rounds\n", static_cast<long long>(elements),
              at::get_num_threads(), rounds);
  std::printf("%-42s %9s %9s %12s %8s\n", "", "ms", "fastest", "GB/s", "ratio");
  for (const Kind& kind : kinds)
    std::printf("%-42s %9.2f %9.2f %12.1f %8.2f\n", kind.name.c_str(), kind.median() * 1e3,
                *std::ranges::min_element(kind.seconds) * 1e3,
                kind.bytes * static_cast<double>(elements) / kind.median() / 1e9, kind.median() / kinds[0].median());
}

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int index, long fallback) { return argc > index ? std::atol(argv[index]) : fallback; };
  const int64_t elements = argument(1, 64) * 1024 * 1024;
  const long rounds = std::max(1L, argument(2, 31));
  at::set_num_threads(static_cast<int>(argument(3, 2)));
  const torch::NoGradGuard no_grad;
  if (elements > 0) large_parameter(elements, rounds);
  for (const Model& model : {gesture_ssm(), vision_transformer("ViT-Ti/16", 192), vision_transformer("ViT-S/16", 384)})
    small_parameters(model, 10 * rounds);
}
