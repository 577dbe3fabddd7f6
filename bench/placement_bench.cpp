// Measures the time of placement and the bytes it wastes, on training traces and on problems that are hard to pack.
#include <benchmark/benchmark.h>

#include "plan/placement/placement_traces.h"
#include "plimsoll/placement.h"

namespace plimsoll {
namespace {

void report(benchmark::State& state, const std::vector<PlacementItem>& items, const PlacementOptions& options) {
  Placement placement;
  for (auto _ : state) benchmark::DoNotOptimize(placement = place(items, options));
  state.counters["buffers"] = static_cast<double>(items.size());
  state.counters["waste_percent"] = 100.0 * static_cast<double>(placement.height - placement.lower_bound) /
                                    static_cast<double>(placement.lower_bound);
}

/// Argument: blocks of the decoder.
void place_training_trace(benchmark::State& state) {
  PlacementOptions options;
  options.alignment = 64;
  report(state, training_trace(state.range(0), 1), options);
}
BENCHMARK(place_training_trace)->Arg(12)->Arg(44)->Arg(176)->Unit(benchmark::kMillisecond);

/// Arguments: buffers, effort. Lifetimes and sizes of all kinds.
void place_random(benchmark::State& state) {
  std::mt19937_64 random(1);
  PlacementOptions options;
  options.effort = state.range(1);
  report(state, random_items(random, state.range(0), state.range(0) / 2, 1 << 20), options);
}
BENCHMARK(place_random)
    ->Args({200, 0})
    ->Args({200, 100000})
    ->Args({8000, 0})
    ->Args({8000, 100000})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace plimsoll

BENCHMARK_MAIN();
