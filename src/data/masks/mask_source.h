// Declares what the samples of slices and of pictures have in common: batches of an image, a prompt and a mask, and
// their augmentation.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "data/batch.h"
#include "data/masks/labeled_volume.h"
#include "data/masks/slice_samples.h"
#include "plimsoll/error.h"

namespace plimsoll {

/// A source whose batches have the fields that slice_samples() describes. Sample: what a source knows of a sample.
template <typename Sample>
class MaskSource : public SampleSource {
 public:
  int64_t samples(Split split) const override { return std::ssize(of(split)); }

  Batch batch(const WindowOrder& order, Split split, int64_t first, int64_t count) const override {
    check(order.count() == samples(split), "the order is of another split");
    const int64_t size = shape_.image_size, length = shape_.prompt_length;
    Batch batch{first, count, {}};
    batch.fields.push_back(field_of<float>("image", DType::float32, {count, size, size, shape_.channels}));
    batch.fields.push_back(field_of<int64_t>("tokens", DType::int64, {count, length}));
    batch.fields.push_back(field_of<int64_t>("targets", DType::int64, {count, length}));
    batch.fields.push_back(field_of<float>("read_at", DType::float32, {count, length}));
    batch.fields.push_back(field_of<uint8_t>("mask", DType::uint8, {count, size, size}));
    for (int64_t i = 0; i < count; ++i) {
      const int64_t index = order.index(first + i);
      const Sample& sample = of(split)[static_cast<size_t>(index)];
      const auto image = row_of<float>(batch.fields[0], i);
      const auto mask = row_of<uint8_t>(batch.fields[4], i);
      if (split == Split::train && augment_ > 0) {
        SplitMix64 stream(mix64(mix64(augmentation_seed_ ^ static_cast<uint64_t>(order.epoch(first + i))) +
                                static_cast<uint64_t>(index)));
        const auto within = [&] {  // evenly from -augment_ to augment_
          return (static_cast<double>(stream.next() >> 11) * 0x1p-52 - 1) * augment_;
        };
        const SliceView view{.across = within(), .down = within(), .turn = within(), .scale = 1 + within()};
        const auto contrast = static_cast<float>(1 + within()), brightness = static_cast<float>(within());
        put(sample, &view, image, mask);
        for (float& value : image) value = value * contrast + brightness;
      } else {
        put(sample, nullptr, image, mask);
      }
      const SlicePrompt& prompt = prompt_of(sample);
      std::ranges::copy(prompt.tokens, row_of<int64_t>(batch.fields[1], i).begin());
      std::ranges::copy(prompt.targets, row_of<int64_t>(batch.fields[2], i).begin());
      std::ranges::copy(prompt.read_at, row_of<float>(batch.fields[3], i).begin());
    }
    return batch;
  }

  std::vector<std::string> skipped() const override { return skipped_; }
  std::string never_trained() const override { return never_trained_; }

 protected:
  /// `kind` makes the augmentation of two types of data differ.
  MaskSource(const SliceShape& shape, double augment, uint64_t seed, uint64_t kind)
      : shape_(shape), augment_(augment), augmentation_seed_(mix64(seed + kind)) {}

  const std::vector<Sample>& of(Split split) const { return split == Split::train ? train_ : held_out_; }

  SliceShape shape_;
  std::vector<Sample> train_, held_out_;
  std::vector<SlicePrompt> prompts_;
  std::vector<std::string> skipped_;
  std::string never_trained_;

 private:
  /// Sets image and mask, seen through `view`; nullptr: as they are.
  virtual void put(const Sample& sample, const SliceView* view, std::span<float> image,
                   std::span<uint8_t> mask) const = 0;
  virtual const SlicePrompt& prompt_of(const Sample& sample) const = 0;

  double augment_;
  uint64_t augmentation_seed_;
};

}  // namespace plimsoll
