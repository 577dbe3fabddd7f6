// Names of labels, labels of volumes, and the vectors of labels.
#include "data/masks/label_names.h"
#include "data/series/stimulus_labels.h"
#include "fuzz.h"

using namespace plimsoll;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input = fuzz::text(data, size);
  const std::vector<std::string> part = fuzz::parts(input, 2);
  const std::filesystem::path file = fuzz::write("labels.txt", part[0]);
  fuzz::reads(input, [&] {
    const std::vector<LabelName> names = read_label_names(file);
    for (const LabelName& each : names) fuzz::require(!each.name.empty(), "a label without a name");
    const std::vector<LabelName> all = matching(names, {"*"}, file);
    fuzz::require(all.size() == names.size(), "'*' does not match every name");
    matching(names, {part[1].substr(0, 64)}, file);
  });
  StimulusLabels labels;
  const bool read = fuzz::reads(input, [&] {
    labels = read_stimulus_labels(file);
    fuzz::require(labels.label.size() == labels.run.size(), "volumes without a run");
    for (size_t i = 0; i < labels.label.size(); ++i)
      fuzz::require(labels.label[i] < static_cast<int64_t>(labels.names.size()) &&
                        labels.run[i] < static_cast<int64_t>(labels.runs.size()),
                    "a volume of no label or run");
  });
  if (!read) return 0;
  const std::filesystem::path vectors = fuzz::write("vectors.safetensors", part[1]);
  fuzz::reads(input, [&] {
    fuzz::require(read_label_vectors(vectors, labels.names).size() == labels.names.size(), "labels without a vector");
  });
  return 0;
}
