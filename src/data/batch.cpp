#include "data/batch.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <numeric>
#include <type_traits>
#include <utility>

#include "base/hash.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

uint16_t bfloat16_of(float number) {
  uint32_t bits = 0;
  std::memcpy(&bits, &number, sizeof bits);
  if (std::isnan(number)) return 0x7fc0;
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

}  // namespace

void cast_to_bfloat16(Batch& batch) {
  for (BatchField& field : batch.fields) {
    if (field.dtype != DType::float32) continue;
    const size_t count = field.bytes.size() / sizeof(float);
    const auto* from = reinterpret_cast<const float*>(field.bytes.data());
    std::vector<std::byte> narrow(count * sizeof(uint16_t));
    auto* to = reinterpret_cast<uint16_t*>(narrow.data());
    for (size_t i = 0; i < count; ++i) to[i] = bfloat16_of(from[i]);
    field.bytes = std::move(narrow);
    field.dtype = DType::bfloat16;
  }
}

namespace {

/// Returns a number in (0, 1].
double uniform(SplitMix64& stream) {
  return static_cast<double>((stream.next() >> 11) + 1) * 0x1p-53;
}

void fill(const SyntheticField& field, SplitMix64& stream, int64_t count, std::byte* to) {
  const auto whole_numbers = [&](auto* numbers) {
    for (int64_t i = 0; i < count; ++i)
      numbers[i] =
          static_cast<std::remove_pointer_t<decltype(numbers)>>(stream.below(static_cast<uint64_t>(field.values)));
  };
  if (field.dtype == DType::int64) return whole_numbers(reinterpret_cast<int64_t*>(to));
  if (field.dtype == DType::uint8) return whole_numbers(reinterpret_cast<uint8_t*>(to));
  auto* numbers = reinterpret_cast<float*>(to);
  for (int64_t i = 0; i < count; i += 2) {  // Box and Muller 1958
    const double radius = std::sqrt(-2 * std::log(uniform(stream))), angle = 2 * std::numbers::pi * uniform(stream);
    numbers[i] = static_cast<float>(radius * std::cos(angle));
    if (i + 1 < count) numbers[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
}

}  // namespace

Batch make_synthetic_batch(const std::vector<SyntheticField>& fields, uint64_t seed, int64_t position,
                           const std::vector<int64_t>& indices) {
  check(!indices.empty(), "a batch has at least one sample");
  Batch batch{position, static_cast<int64_t>(indices.size()), {}};
  for (size_t f = 0; f < fields.size(); ++f) {
    const SyntheticField& field = fields[f];
    const bool whole = field.dtype == DType::int64 || (field.dtype == DType::uint8 && field.values <= 256);
    check(field.dtype == DType::float32 || (whole && field.values > 0),
          "synthetic inputs are float32, or whole numbers below a number above 0");
    int64_t count = 1;
    for (int64_t size : field.sizes) count *= size;
    const auto bytes = static_cast<size_t>(count * element_bytes(field.dtype));
    BatchField made{field.name, field.dtype, {batch.samples}, std::vector<std::byte>(bytes * indices.size())};
    made.sizes.insert(made.sizes.end(), field.sizes.begin(), field.sizes.end());
    for (size_t i = 0; i < indices.size(); ++i) {
      // Each field of each sample has its own random stream, whatever numbers the other fields draw.
      SplitMix64 stream(mix64(mix64(mix64(seed + 1) ^ static_cast<uint64_t>(indices[i])) + f));
      fill(field, stream, count, made.bytes.data() + i * bytes);
    }
    batch.fields.push_back(std::move(made));
  }
  return batch;
}

namespace {

class SyntheticSamples final : public SampleSource {
 public:
  SyntheticSamples(const DataConfig& config, uint64_t seed, std::vector<SyntheticField> fields)
      : fields_(std::move(fields)), seed_(seed) {
    const auto held_out = static_cast<int64_t>(static_cast<double>(config.samples) * config.validation_fraction);
    validation_ = std::clamp<int64_t>(held_out, 0, config.samples - 1);
    train_ = config.samples - validation_;
  }
  int64_t samples(Split split) const override { return split == Split::train ? train_ : validation_; }
  Batch batch(const WindowOrder& order, Split split, int64_t first, int64_t count) const override {
    check(order.count() == samples(split), "the order is of another split");
    std::vector<int64_t> indices;
    for (int64_t i = 0; i < count; ++i)
      indices.push_back(order.index(first + i) + (split == Split::train ? 0 : train_));
    return make_synthetic_batch(fields_, seed_, first, indices);
  }

 private:
  std::vector<SyntheticField> fields_;
  uint64_t seed_;
  int64_t train_ = 0, validation_ = 0;
};

}  // namespace

std::vector<Baseline> SampleSource::all_baselines() const {
  std::vector<int64_t> all(static_cast<size_t>(samples(Split::validation)));
  std::iota(all.begin(), all.end(), 0);
  return baselines(all);
}

std::unique_ptr<SampleSource> synthetic_samples(const DataConfig& config, uint64_t seed,
                                                std::vector<SyntheticField> fields) {
  return std::make_unique<SyntheticSamples>(config, seed, std::move(fields));
}

}  // namespace plimsoll
