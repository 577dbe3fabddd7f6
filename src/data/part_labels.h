// Declares the parts of the data, and the count of their samples by label (class, structure, caption).
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

/// A part of the data. Split::validation (data/sampler.h) is the one of `validation` and `test` that data.evaluate_on
/// names.
enum class DataPart : uint8_t { train, validation, test };
inline constexpr size_t kDataParts = 3;

/// Words of messages.
struct PartWords {
  std::string samples;  ///< "series", "pictures"
  std::string label;    ///< "class", "structure"
};

/// A count of samples by part and label.
class PartLabels {
 public:
  explicit PartLabels(PartWords words) : words_(std::move(words)) {}

  /// Adds a label that notes() names even if no sample has it.
  void expect(int32_t label) { of(label).expected = true; }
  /// Counts a sample of `part` with these labels, each once.
  void add(DataPart part, std::span<const int32_t> labels);
  void add(DataPart part, int32_t label) { add(part, {&label, 1}); }

  /// Labels that parts lack. Fewer labels without training come first.
  struct Lacking {
    int64_t untrained = 0;
    int64_t missing = 0;  ///< summed over training and the parts that have samples
    auto operator<=>(const Lacking&) const = default;
  };
  Lacking lacking() const;

  /// Returns a warning about samples of `part` with labels that no training sample has: "10 of 10 validation series are
  /// of a class that is never trained on: d". Returns "" if there are none. `names` are those of the labels.
  std::string never_trained(DataPart part, std::span<const std::string> names) const;

  /// Returns a sentence for each part that has samples and lacks a label: "the validation part has no series of the
  /// class a". The labels are those of expect() and of the samples.
  std::vector<std::string> notes(std::span<const std::string> names) const;

 private:
  using Counts = std::array<int64_t, kDataParts>;
  int64_t samples_of(DataPart part) const { return samples_[static_cast<size_t>(part)]; }
  struct Label {
    Counts samples = {};
    bool expected = false;
    bool is_in(DataPart part) const { return samples[static_cast<size_t>(part)] > 0; }
  };
  Label& of(int32_t label);

  PartWords words_;
  std::vector<Label> labels_;
  Counts samples_ = {};
  std::vector<std::pair<DataPart, std::vector<int32_t>>> held_out_;  // each sample's labels
};

/// Adds notes() to the thread's list (files/data_notes.h) as notes on `file`.
void note_parts(const PartLabels& labels, std::span<const std::string> names, const std::filesystem::path& file);

}  // namespace plimsoll
