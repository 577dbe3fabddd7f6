#include "weights/weight_slots.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "checkpoint/checkpoint_state.h"
#include "ops/layers/quantized_linear.h"
#include "ops/libtorch_types.h"

namespace plimsoll {
namespace {

// The range of slice `rank` in a whole tensor. All slices have `elements` elements, some of which may be behind the
// end.
struct SliceRange {
  int64_t begin = 0, count = 0;  // elements of the flattened whole tensor

  SliceRange(int64_t whole, int64_t elements, int64_t rank)
      : begin(std::min(whole, rank * elements)), count(std::min(elements, whole - begin)) {}
  at::Tensor of_whole(const at::Tensor& flat) const { return flat.narrow(0, begin, count); }
  // Returns the used part of a slice, and writes zeros behind the end of the whole.
  at::Tensor of_slice(const at::Tensor& slice) const {
    slice.narrow(0, count, slice.numel() - count).zero_();
    return slice.narrow(0, 0, count);
  }
};

void put_slice(const at::Tensor& weight, const at::Tensor& slice, int64_t rank) {
  const SliceRange range(weight.numel(), slice.numel(), rank);
  range.of_slice(slice).copy_(range.of_whole(weight.contiguous().view(-1)));
}

// Writes a weight to a parameter whose `companion` is a slice. If `apart`, `parameter` is a slice too; else it is whole
// and is rounded as its slices are.
void put_slice_with_companion(const at::Tensor& weight, const char* kind, const at::Tensor& parameter, bool apart,
                              const at::Tensor& companion, const Exchange& exchange) {
  const at::Tensor whole = weight.contiguous().view(-1);
  for (int rank = 0; rank < exchange.size(); ++rank) {
    const bool own = rank == exchange.rank();
    const SliceRange range(whole.numel(), companion.numel(), rank);
    if (apart && !own) continue;
    const at::Tensor place = apart ? range.of_slice(parameter) : range.of_whole(parameter.view(-1));
    // The other ranks' parts of the companion are discarded.
    const at::Tensor rest = own ? range.of_slice(companion) : at::empty({range.count}, companion.options());
    put_whole_weights(range.of_whole(whole).to(at::kFloat), kind, place, rest);
  }
}

}  // namespace

std::optional<std::string> owner_of(const std::string& name, std::string_view ending) {
  if (!name.ends_with(ending)) return std::nullopt;
  const std::string owner = name.substr(0, name.size() - ending.size());
  return owner.empty() || owner.ends_with('.') ? std::optional(owner) : std::nullopt;
}

std::optional<std::string> other_half(const std::string& name) {
  if (const auto owner = owner_of(name, kLoraA)) return *owner + std::string(kLoraB);
  if (const auto owner = owner_of(name, kLoraB)) return *owner + std::string(kLoraA);
  return std::nullopt;
}

std::string companion_name(const char* kind, const std::string& parameter) {
  return std::string(kState) + kind + "." + parameter;
}

bool is_floating(DType dtype) {
  return dtype == DType::float32 || dtype == DType::float64 || dtype == DType::bfloat16 || dtype == DType::float16;
}

std::string sizes_text(at::IntArrayRef sizes) {
  return fmt::format("[{}]", fmt::join(sizes, ", "));
}

std::vector<WeightSlot> weight_slots(const NamedTensors& state, const SlicedState& sliced) {
  std::map<std::string, at::Tensor> known(state.begin(), state.end());
  std::vector<WeightSlot> wanted;
  for (const auto& [name, tensor] : state) {
    if (name.starts_with(kState) || is_scales(name, [&](const std::string& other) { return known.contains(other); }))
      continue;
    if (const auto owner = owner_of(name, kCodes)) {
      const ops::QuantizedTensors held{tensor, known.at(*owner + std::string(kScales)), [&] {
                                         const auto second = known.find(*owner + std::string(kSecond));
                                         return second == known.end() ? at::Tensor() : second->second;
                                       }()};
      const bool four_bits = tensor.scalar_type() == at::kByte;
      wanted.push_back({*owner + "weight",
                        {tensor.size(0), tensor.size(1) * (four_bits ? 2 : 1)},
                        DType::float32,
                        false,
                        [held, four_bits](const at::Tensor& weight) {
                          const ops::QuantizedTensors made =
                              ops::quantize_weight(weight, four_bits ? "nf4" : "int8", held.second.defined());
                          held.codes.copy_(made.codes);
                          held.scales.copy_(made.scales);
                          if (held.second.defined()) held.second.copy_(made.second);
                        },
                        {}});
      continue;
    }
    const bool slice = sliced.is_slice(name);
    wanted.push_back({name, sliced.sizes_of(name, tensor), dtype_of(tensor.scalar_type()), other_half(name).has_value(),
                      [parameter = tensor](const at::Tensor& weight) { parameter.copy_(weight); }, tensor});
    if (slice) {
      wanted.back().copy_target = at::Tensor();
      wanted.back().put = [parameter = tensor, rank = sliced.exchange->rank()](const at::Tensor& weight) {
        put_slice(weight, parameter, rank);
      };
    }
    for (const char* kind : kCompanionKinds)
      // The next update starts from the companion, so it must hold the file's weight and not the initial one.
      if (const auto companion = known.find(companion_name(kind, name)); companion != known.end()) {
        wanted.back().copy_target = at::Tensor();
        if (sliced.is_slice(companion->first))
          wanted.back().put = [parameter = tensor, slice, companion = companion->second, kind,
                               exchange = sliced.exchange](const at::Tensor& weight) {
            put_slice_with_companion(weight, kind, parameter, slice, companion, *exchange);
          };
        else
          wanted.back().put = [parameter = tensor, companion = companion->second, kind](const at::Tensor& weight) {
            put_whole_weights(weight.to(at::kFloat).contiguous(), kind, parameter, companion);
          };
      }
  }
  return wanted;
}

}  // namespace plimsoll
