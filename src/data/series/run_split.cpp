#include "data/series/run_split.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "data/parts.h"
#include "data/sampler.h"

namespace plimsoll {
namespace {

constexpr int64_t kVolumesOfClass = 4;   // average number of volumes of a label that is a class
constexpr int64_t kMaxStretches = 1000;  // places that are tried for held-out volumes

/// Calls visit(volume, label) for each sample and the label of its stimuli.
template <typename Visit>
void each_sample(const StimulusLabels& labels, const RunSplit& split, const RunSamples& samples, const Visit& visit) {
  const std::vector<int64_t> begins = split.begins();
  for (int64_t v = 0; v < std::ssize(split.run); ++v)
    if (samples.usable[static_cast<size_t>(v)] && v - begins[static_cast<size_t>(v)] >= samples.delay)
      visit(v, static_cast<int32_t>(labels.label[static_cast<size_t>(v - samples.delay)]));
}

/// Returns the split of a single run in which [begin, begin + validation + test) is held out.
RunSplit cut_out(int64_t volumes, int64_t begin, int64_t validation, int64_t test) {
  RunSplit split;
  const auto add = [&](int64_t end, DataPart part) {
    if (end <= std::ssize(split.run)) return;
    split.run.resize(static_cast<size_t>(end), std::ssize(split.part_of_run));
    split.part_of_run.push_back(part);
  };
  add(begin, DataPart::train);
  add(begin + validation, DataPart::validation);
  add(begin + validation + test, DataPart::test);
  add(volumes, DataPart::train);
  return split;
}

RunSplit hold_out_the_end(int64_t volumes, double validation_fraction, double test_fraction) {
  const bool validates = validation_fraction > 0, tests = test_fraction > 0;
  const auto begin_of = [&](double share, int64_t least) {  // `least` volumes are held out
    return std::clamp<int64_t>(std::lround(static_cast<double>(volumes) * (1 - share)), 0,
                               std::max<int64_t>(0, volumes - least));
  };
  const int64_t test = tests ? begin_of(test_fraction, validates ? 1 : 2) : volumes;
  const int64_t begin = validates ? begin_of(std::min(1.0, validation_fraction + test_fraction), tests ? 2 : 1) : test;
  return cut_out(volumes, begin, test - begin, volumes - test);
}

RunSplit move_the_end(const StimulusLabels& labels, const RunSplit& at_the_end, const RunSamples& samples) {
  const auto volumes_of = [&](DataPart part) {
    return std::ranges::count_if(at_the_end.run,
                                 [&](int64_t run) { return at_the_end.part_of_run[static_cast<size_t>(run)] == part; });
  };
  const auto validation = volumes_of(DataPart::validation), test = volumes_of(DataPart::test);
  const auto volumes = std::ssize(at_the_end.run), last = volumes - validation - test;
  RunSplit best = at_the_end;
  auto least = labels_of_parts(labels, best, samples).lacking();
  for (const int64_t back : evenly_spread(last + 1, kMaxStretches)) {
    if (least == PartLabels::Lacking{}) break;
    RunSplit moved = cut_out(volumes, last - back, validation, test);
    const auto lacking = labels_of_parts(labels, moved, samples).lacking();
    if (!(lacking < least)) continue;
    least = lacking;
    best = std::move(moved);
  }
  return best;
}

RunSplit choose_runs(const StimulusLabels& labels, const RunSplit& split, const RunSamples& samples, uint64_t seed) {
  std::vector<std::set<int32_t>> shown(split.part_of_run.size());
  each_sample(labels, split, samples, [&](int64_t volume, int32_t label) {
    shown[static_cast<size_t>(split.run[static_cast<size_t>(volume)])].insert(label);
  });
  LabeledItems runs;
  for (const std::set<int32_t>& each : shown) runs.add(std::vector<int32_t>(each.begin(), each.end()));
  return {split.run, with_every_label(runs, split.part_of_run, {}, seed)};
}

}  // namespace

std::vector<int64_t> RunSplit::begins() const {
  std::vector<int64_t> begins(run.size(), 0);
  for (size_t v = 1; v < begins.size(); ++v) begins[v] = run[v] == run[v - 1] ? begins[v - 1] : static_cast<int64_t>(v);
  return begins;
}

RunSplit hold_out_last_runs(const StimulusLabels& labels, double validation_fraction, double test_fraction) {
  const auto runs = std::ssize(labels.runs);
  if (runs == 1) return hold_out_the_end(std::ssize(labels.run), validation_fraction, test_fraction);
  const auto runs_of = [&](double share) -> int64_t {
    return share <= 0 ? 0 : std::max<int64_t>(1, std::lround(static_cast<double>(runs) * share));
  };
  const int64_t tests = runs_of(test_fraction);
  int64_t held = tests + runs_of(validation_fraction);
  if (tests == 0) held = std::min(held, runs - 1);
  RunSplit split{labels.run, {}};
  for (int64_t run = 0; run < runs; ++run)
    split.part_of_run.push_back(run < runs - held     ? DataPart::train
                                : run >= runs - tests ? DataPart::test
                                                      : DataPart::validation);
  return split;
}

bool are_classes(const StimulusLabels& labels) {
  return labels.names.size() >= 2 && kVolumesOfClass * std::ssize(labels.names) <= std::ssize(labels.label);
}

RunSplit cover_labels(const StimulusLabels& labels, const RunSplit& split, const RunSamples& samples, uint64_t seed) {
  return labels.runs.size() == 1 ? move_the_end(labels, split, samples) : choose_runs(labels, split, samples, seed);
}

PartLabels labels_of_parts(const StimulusLabels& labels, const RunSplit& split, const RunSamples& samples) {
  PartLabels parts({.samples = "volumes", .label = "label"});
  for (size_t i = 0; i < labels.names.size(); ++i) parts.expect(static_cast<int32_t>(i));
  each_sample(labels, split, samples, [&](int64_t volume, int32_t label) { parts.add(split.part_of(volume), label); });
  return parts;
}

}  // namespace plimsoll
