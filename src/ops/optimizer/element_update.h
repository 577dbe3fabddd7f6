// Declares the parts that element-wise optimizer operators share: their operands, the checks of these, and the pass
// over them.
//
//     for each 512 elements:  unpack parameter, gradient, state  ->  update  ->  pack parameter, state
//
// float32 operands are processed in place. One thread processes a chunk. Chunks are cut at the same elements for any
// thread count and for any other parameters in the same call; results depend on neither.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <vector>

#include "ops/formats.h"

namespace plimsoll::ops {

/// A mean that an optimizer keeps, one value for each element of the parameter.
struct StateTensor {
  const char* name;
  at::Tensor values;
  at::Tensor scales;  ///< 8 and 4 bits only
  bool squares = false;
  bool element_wise = true;  ///< one value for each element of the parameter
};

/// The tensors of a call. `companion` and `gradient_scales` are undefined if there is none.
struct UpdateTensors {
  const char* op;
  at::Tensor parameter, companion, gradient, gradient_scales;
  std::vector<StateTensor> state;
  at::Tensor grad_scale, skipped;
  bool stochastic_state = false;      ///< 16-bit state is rounded stochastically; state of 8 and 4 bits always is
  bool stochastic_parameter = false;  ///< a 16-bit parameter is rounded stochastically
};

/// Throws UserError if the tensors do not belong together. Accesses no data, so it also accepts Meta tensors.
void check_update(const UpdateTensors& tensors);

/// Returns the format of `values` and `scales`. Throws UserError if they do not belong to `parameter`. Also for
/// accumulators.
Format format_of(const char* op, const char* name, const at::Tensor& values, const at::Tensor& scales,
                 const at::Tensor& parameter);

/// Returns the value of a CPU tensor of no dimensions.
double scalar_of(const at::Tensor& tensor);

/// The operands of one update, as pointers to their memory.
struct ElementUpdate {
  Weights parameter;
  Values gradient;
  std::array<Values, 2> state;
  int64_t states = 0;
  int64_t count = 0;
  Rounding parameter_rounding;
  std::array<Rounding, 2> state_rounding;
  bool random = false;  ///< true: stochastic rounding; an element's values share the same bits, drawn once
  Draw draw;
  at::Tensor held;  ///< a copy of the gradient in the parameter's order, if its own order differs

  bool is_wide() const { return parameter.format == Format::float64; }
};
ElementUpdate bind_update(const UpdateTensors& tensors, const Draw& draw);

/// Returns the values of a chunk: in place if they are of type `Number`, else unpacked into `buffer`.
template <typename Number>
Number* opened(const Values& values, int64_t begin, int64_t count, float* narrow, Number* buffer);
template <>
inline float* opened(const Values& values, int64_t begin, int64_t count, float*, float* buffer) {
  if (values.format == Format::float32) return static_cast<float*>(values.data) + begin;
  unpack(values, begin, count, buffer);
  return buffer;
}
template <>
inline double* opened(const Values& values, int64_t begin, int64_t count, float* narrow, double* buffer) {
  if (values.format == Format::float64) return static_cast<double*>(values.data) + begin;
  const float* from = opened<float>(values, begin, count, nullptr, narrow);
  for (int64_t i = 0; i < count; ++i) buffer[i] = from[i];
  return buffer;
}

template <typename Number>
void closed(const Values& values, int64_t begin, int64_t count, const Rounding& rounding, float* narrow,
            const Number* numbers);
template <>
inline void closed(const Values& values, int64_t begin, int64_t count, const Rounding& rounding, float*,
                   const float* numbers) {
  if (values.format != Format::float32) pack(values, begin, count, numbers, rounding);
}
template <>
inline void closed(const Values& values, int64_t begin, int64_t count, const Rounding& rounding, float* narrow,
                   const double* numbers) {
  if (values.format == Format::float64) return;
  float* to = values.format == Format::float32 ? static_cast<float*>(values.data) + begin : narrow;
  for (int64_t i = 0; i < kChunk; ++i)
    if (i < count || to == narrow) to[i] = i < count ? static_cast<float>(numbers[i]) : 0.0f;
  closed<float>(values, begin, count, rounding, nullptr, to);
}

inline float* opened_weights(const Weights& weights, int64_t begin, int64_t count, float* buffer) {
  if (weights.kind == Companion::master) return static_cast<float*>(weights.companion) + begin;
  if (weights.format == Format::float32) return static_cast<float*>(weights.data) + begin;
  unpack(weights, begin, count, buffer);
  return buffer;
}

/// The buffers into which a thread unpacks the values of a chunk.
template <typename Number>
struct ChunkBuffers {
  static constexpr bool kWide = std::is_same_v<Number, double>;
  alignas(64) Number numbers[4][kChunk];
  alignas(64) float narrow[kWide ? kChunk : 1];
  Drawn drawn;
};

/// Updates the chunk of `one` that begins at element `begin`.
template <typename Number, typename Update>
void update_chunk(const ElementUpdate& one, int64_t begin, ChunkBuffers<Number>& buffers, const Update& update) {
  constexpr bool wide = ChunkBuffers<Number>::kWide;
  const int64_t count = std::min(kChunk, one.count - begin);
  const Drawn* bits = one.random ? &buffers.drawn : nullptr;
  const auto by_them = [&](const Rounding& rounding) { return Rounding{rounding.stochastic, rounding.draw, bits}; };
  Number* parameter;
  if constexpr (wide)
    parameter = static_cast<double*>(one.parameter.data) + begin;
  else
    parameter = opened_weights(one.parameter, begin, count, buffers.numbers[0]);
  const Number* gradient = opened<Number>(one.gradient, begin, count, buffers.narrow, buffers.numbers[1]);
  Number* state[2] = {nullptr, nullptr};
  for (int64_t s = 0; s < one.states; ++s)
    state[s] = opened<Number>(one.state[s], begin, count, buffers.narrow, buffers.numbers[2 + s]);
  update(parameter, gradient, state[0], state[1], begin, count);
  if (one.random) draw_chunk(one.draw, begin, buffers.drawn);
  for (int64_t s = 0; s < one.states; ++s)
    closed<Number>(one.state[s], begin, count, by_them(one.state_rounding[s]), buffers.narrow, state[s]);
  if constexpr (!wide)
    if (one.parameter.format != Format::float32)
      pack(one.parameter, begin, count, parameter, by_them(one.parameter_rounding));
}

/// Calls `update(Number* parameter, const Number* gradient, Number* first, Number* second, int64_t first_index, int64_t
/// count)` for every chunk of all updates, on several threads. `first` and `second` are null if there is no such state.
/// Threads share the chunks of all updates, so small updates keep them as busy as a large one does.
template <typename Number, typename Update>
void for_each_chunk(std::span<const ElementUpdate> all, const Update& update) {
  c10::SmallVector<int64_t, 64> ends;  // by update: number of chunks of it and of those before it
  int64_t chunks = 0;
  for (const ElementUpdate& one : all) ends.push_back(chunks += (one.count + kChunk - 1) / kChunk);
  at::parallel_for(0, chunks, 32, [&](int64_t first_chunk, int64_t last_chunk) {
    ChunkBuffers<Number> buffers;
    auto at = static_cast<size_t>(std::ranges::upper_bound(ends, first_chunk) - ends.begin());
    for (int64_t chunk = first_chunk; chunk < last_chunk; ++chunk) {
      while (chunk >= ends[at]) ++at;
      const int64_t before = at == 0 ? 0 : ends[at - 1];
      update_chunk(all[at], (chunk - before) * kChunk, buffers, update);
    }
  });
}

/// Returns the accumulator's format. Throws UserError if the tensors do not belong together. `random`: for the overload
/// that rounds stochastically.
Format check_accumulator(const at::Tensor& accumulator, const std::optional<at::Tensor>& scales,
                         const at::Tensor& gradient, bool random);

at::Tensor empty_block_norm(const at::Tensor& codes, const at::Tensor& scales);
at::Tensor empty_unpacked(const at::Tensor& codes, const at::Tensor& scales, const at::Tensor& like);

/// Returns the unfilled result of nesterov_momentum_, after checking its operands.
at::Tensor empty_nesterov_momentum(const at::Tensor& gradient, const std::optional<at::Tensor>& gradient_scales,
                                   const at::Tensor& momentum, const std::optional<at::Tensor>& momentum_scales,
                                   const at::Tensor& grad_scale, const at::Tensor& skipped, at::ScalarType dtype);

}  // namespace plimsoll::ops
