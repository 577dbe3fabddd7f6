// Declares the division of an fMRI series' runs into training, validation and test.
#pragma once

#include <cstdint>
#include <vector>

#include "data/parts.h"
#include "data/series/stimulus_labels.h"

namespace plimsoll {

/// The runs of a series and their parts.
struct RunSplit {
  std::vector<int64_t> run;           ///< run of each volume: 0, 1, ..., never decreasing
  std::vector<DataPart> part_of_run;  ///< part of each run

  DataPart part_of(int64_t volume) const { return part_of_run[static_cast<size_t>(run[static_cast<size_t>(volume)])]; }
  /// Returns the first volume of each volume's run.
  std::vector<int64_t> begins() const;
};

/// Volumes that are samples: `usable`, and at least `delay` volumes after the first of their run. The stimuli of a
/// sample are those of `delay` volumes before.
struct RunSamples {
  std::vector<char> usable;  ///< for each volume
  int64_t delay = 0;
};

/// Holds out the last runs for the test, and those before them for validation. Their numbers come nearest to the
/// fractions; each is at least one if its fraction is above 0. The end of a single run is held out: its parts become
/// runs, so that their samples see nothing of other parts' volumes.
RunSplit hold_out_last_runs(const StimulusLabels& labels, double validation_fraction, double test_fraction);

/// Returns true if the labels are classes, which recur: four volumes or more for each label on average. Other labels
/// are the words of a text.
bool are_classes(const StimulusLabels& labels);

/// Returns `split`, the result of hold_out_last_runs(), if every part has samples of each label that has room there.
/// Otherwise other runs are held out, chosen by with_every_label() (data/parts.h) with `seed`. The held-out
/// end of a single run moves to the last place at which the fewest parts lack a label, of at most 1000 places.
RunSplit cover_labels(const StimulusLabels& labels, const RunSplit& split, const RunSamples& samples, uint64_t seed);

/// Counts the samples of each part by their labels.
PartLabels labels_of_parts(const StimulusLabels& labels, const RunSplit& split, const RunSamples& samples);

}  // namespace plimsoll
