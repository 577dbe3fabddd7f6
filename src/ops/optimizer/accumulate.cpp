// Implements gradient accumulators and the unpacking of values of 8 and 4 bits.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <torch/library.h>

#include <array>
#include <cmath>

#include "ops/op_support.h"
#include "ops/optimizer/element_update.h"
#include "ops/optimizer/ops.h"
#include "ops/optimizer/update_op.h"

namespace plimsoll::ops {
namespace {

using at::Tensor;
using Optional = std::optional<Tensor>;

constexpr const char* kAccumulate = "plimsoll::accumulate_";

}  // namespace

Format check_accumulator(const Tensor& accumulator, const Optional& scales, const Tensor& gradient, bool random) {
  require_floating(kAccumulate, "the gradient", gradient);
  const Format format = format_of(kAccumulate, "the accumulator", accumulator, scales.value_or(Tensor()), gradient);
  require(format != Format::bits4, kAccumulate, "the accumulator has 4 bits; allowed are 8 and more");
  require(accumulator.sizes() == gradient.sizes(), kAccumulate, "the accumulator is ", accumulator.sizes(),
          ", the gradient ", gradient.sizes());
  require(random || format == Format::float32 || format == Format::float64, kAccumulate, "an accumulator of ",
          c10::toString(accumulator.scalar_type()), " is rounded at random: call the overload with a generator");
  return format;
}

Tensor empty_block_norm(const Tensor& codes, const Tensor& scales) {
  constexpr const char* op = "plimsoll::block_norm";
  require(format_of(op, "the accumulator", codes, scales, codes) == Format::bits8, op, "the accumulator has 4 bits");
  return at::empty({}, codes.options().dtype(at::kFloat));
}

Tensor empty_unpacked(const Tensor& codes, const Tensor& scales, const Tensor& like) {
  format_of("plimsoll::unpacked", "the tensor", codes, scales, like);
  return at::empty_strided(like.sizes(), like.strides(), like.options().dtype(at::kFloat));
}

namespace {

/// Returns a draw from 64 random bits of the generator, or of the default one.
Draw draw_from(const std::optional<at::Generator>& generator) {
  auto* cpu = at::get_generator_or_default<at::CPUGeneratorImpl>(generator, at::detail::getDefaultCPUGenerator());
  const std::lock_guard lock(cpu->mutex_);
  return draw_from_key(cpu->random64());
}

/// Copies with one more dimension: to transpose a matrix, libtorch would allocate a buffer of its own.
void copy_in_order(const Tensor& to, const Tensor& from) {
  to.unsqueeze(0).copy_(from.unsqueeze(0));
}

void accumulate(const Tensor& accumulator, const Optional& scales, const Tensor& gradient, bool overwrite, bool random,
                const Draw& draw) {
  const Format format = check_accumulator(accumulator, scales, gradient, random);
  if (format == Format::float64) {
    if (overwrite)
      copy_in_order(accumulator, gradient);
    else
      accumulator.add_(gradient);
    return;
  }
  // Both tensors are read in the accumulator's order.
  Tensor from = gradient;
  if (!same_order(gradient.sizes(), gradient.strides(), accumulator.strides())) {
    from = at::empty_strided(accumulator.sizes(), accumulator.strides(), gradient.options());
    copy_in_order(from, gradient);
  }
  const Values sum{accumulator.data_ptr(), scales ? static_cast<uint8_t*>(scales->data_ptr()) : nullptr, format, false};
  const Values part{from.data_ptr(), nullptr, format_of(kAccumulate, "the gradient", from, {}, from), false};
  const Rounding rounding{true, draw};
  const int64_t count = gradient.numel();
  at::parallel_for(0, (count + kChunk - 1) / kChunk, 32, [&](int64_t first, int64_t last) {
    alignas(64) float buffers[2][kChunk];
    for (int64_t chunk = first; chunk < last; ++chunk) {
      const int64_t begin = chunk * kChunk, n = std::min(kChunk, count - begin);
      const float* added = opened<float>(part, begin, n, nullptr, buffers[1]);
      float* to = format == Format::float32 ? static_cast<float*>(sum.data) + begin : buffers[0];
      if (overwrite) {
        std::copy(added, added + n, to);
        if (to == buffers[0]) std::fill(to + n, to + kChunk, 0.0f);
      } else {
        if (format != Format::float32) unpack(sum, begin, n, to);
        add(to, added, n);
      }
      closed<float>(sum, begin, n, rounding, nullptr, to);
    }
  });
}

void accumulate_cpu(const Tensor& accumulator, const Optional& scales, const Tensor& gradient, bool overwrite) {
  accumulate(accumulator, scales, gradient, overwrite, false, {});
}
void accumulate_random_cpu(const Tensor& accumulator, const Optional& scales, const Tensor& gradient, bool overwrite,
                           std::optional<at::Generator> generator) {
  accumulate(accumulator, scales, gradient, overwrite, true, draw_from(generator));
}
void accumulate_meta(const Tensor& accumulator, const Optional& scales, const Tensor& gradient, bool) {
  check_accumulator(accumulator, scales, gradient, false);
}
void accumulate_random_meta(const Tensor& accumulator, const Optional& scales, const Tensor& gradient, bool,
                            std::optional<at::Generator>) {
  check_accumulator(accumulator, scales, gradient, true);
}

Tensor block_norm_cpu(const Tensor& codes, const Tensor& scales) {
  Tensor result = empty_block_norm(codes, scales);
  const Values values{codes.data_ptr(), static_cast<uint8_t*>(scales.data_ptr()), Format::bits8, false};
  // The number of partial sums is the same for any thread count: the total does not depend on it.
  constexpr int64_t kParts = 64;
  std::array<double, kParts> sums{};
  const int64_t count = codes.numel(), chunks = div_up(count, kChunk);
  at::parallel_for(0, kParts, 1, [&](int64_t first, int64_t last) {
    alignas(64) float buffer[kChunk];
    for (int64_t part = first; part < last; ++part)
      for (int64_t chunk = chunks * part / kParts; chunk < chunks * (part + 1) / kParts; ++chunk) {
        const int64_t begin = chunk * kChunk, n = std::min(kChunk, count - begin);
        unpack(values, begin, n, buffer);
        sums[static_cast<size_t>(part)] += sum_of_squares(buffer, n);
      }
  });
  double total = 0;
  for (double sum : sums) total += sum;
  *result.mutable_data_ptr<float>() = static_cast<float>(std::sqrt(total));
  return result;
}

Tensor unpacked_meta(const Tensor& codes, const Tensor& scales, const Tensor& like, bool) {
  return empty_unpacked(codes, scales, like);
}
Tensor unpacked_cpu(const Tensor& codes, const Tensor& scales, const Tensor& like, bool squares) {
  Tensor result = empty_unpacked(codes, scales, like);
  const Values values{codes.data_ptr(), static_cast<uint8_t*>(scales.data_ptr()),
                      format_of("plimsoll::unpacked", "the tensor", codes, scales, like), squares};
  auto* to = result.mutable_data_ptr<float>();
  const int64_t count = like.numel();
  at::parallel_for(0, div_up(count, kChunk), 32, [&](int64_t first, int64_t last) {
    alignas(64) float buffer[kChunk];
    for (int64_t chunk = first; chunk < last; ++chunk) {
      const int64_t begin = chunk * kChunk, n = std::min(kChunk, count - begin);
      unpack(values, begin, n, buffer);
      std::copy(buffer, buffer + n, to + begin);
    }
  });
  return result;
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(plimsoll, m) {
  m.def("accumulate_(Tensor(a!) accumulator, Tensor(b!)? scales, Tensor gradient, bool overwrite) -> ()");
  m.def(
      "accumulate_.random(Tensor(a!) accumulator, Tensor(b!)? scales, Tensor gradient, bool overwrite, Generator? "
      "generator=None) -> ()",
      {at::Tag::nondeterministic_seeded});
  m.def("block_norm(Tensor codes, Tensor scales) -> Tensor");
  m.def("unpacked(Tensor codes, Tensor scales, Tensor like, bool squares) -> Tensor");
}
TORCH_LIBRARY_IMPL(plimsoll, CPU, m) {
  m.impl("accumulate_", accumulate_cpu);
  m.impl("accumulate_.random", accumulate_random_cpu);
  m.impl("block_norm", block_norm_cpu);
  m.impl("unpacked", unpacked_cpu);
}
TORCH_LIBRARY_IMPL(plimsoll, Meta, m) {
  m.impl("accumulate_", accumulate_meta);
  m.impl("accumulate_.random", accumulate_random_meta);
  m.impl("block_norm", empty_block_norm);
  m.impl("unpacked", unpacked_meta);
}

void accumulate_(const Packed& accumulator, const Tensor& gradient, bool overwrite,
                 const std::optional<at::Generator>& generator) {
  const Optional scales = accumulator.scales.defined() ? Optional(accumulator.scales) : std::nullopt;
  const at::ScalarType type = accumulator.values.scalar_type();
  if (type == at::kFloat || type == at::kDouble) {
    static const auto handle = operator_handle<void(const Tensor&, const Optional&, const Tensor&, bool)>(kAccumulate);
    handle.call(accumulator.values, scales, gradient, overwrite);
    return;
  }
  static const auto handle =
      operator_handle<void(const Tensor&, const Optional&, const Tensor&, bool, std::optional<at::Generator>)>(
          kAccumulate, "random");
  handle.call(accumulator.values, scales, gradient, overwrite, generator);
}

Tensor block_norm(const Tensor& codes, const Tensor& scales) {
  static const auto handle = operator_handle<Tensor(const Tensor&, const Tensor&)>("plimsoll::block_norm");
  return handle.call(codes, scales);
}

Tensor unpacked(const Packed& packed, const Tensor& like, bool squares) {
  static const auto handle =
      operator_handle<Tensor(const Tensor&, const Tensor&, const Tensor&, bool)>("plimsoll::unpacked");
  return handle.call(packed.values, packed.scales, like, squares);
}

}  // namespace plimsoll::ops
