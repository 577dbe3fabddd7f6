// Defines the keys of `data.type: series`.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>

#include "data/series/series_samples.h"
#include "job/keys/key_kinds.h"
#include "job/keys/kinds.h"
#include "job/keys/shared_data_keys.h"

namespace plimsoll {

inline SeriesConfig& part(Job& job, SeriesConfig*) {
  return job.data.series;
}

}  // namespace plimsoll

namespace plimsoll::job {
namespace {

constexpr IntegerRange kChannel{0, (int64_t{1} << 16) - 1};

Key hilbert_axes() {
  const std::string allowed = "all, or a list of channels (counted from 0) and time";
  return {{"data.hilbert_axes", "all | list of integers from 0 and time", "all",
           "hilbert: coordinates of the curve's space; all: time and every channel. Their number x hilbert_bits is at "
           "most 64"},
          [allowed](const Value& value, Job& job) {
            std::vector<int64_t>& axes = job.data.series.hilbert_axes;
            axes.clear();
            if (value.is("all")) return;
            if (value.node->kind != Node::Kind::list || value.node->items.empty()) value.refuse(allowed);
            for (const Node* item : value.node->items) {
              const Value one = value.with(item);
              const int64_t axis = one.is("time") ? -1 : read_integer(one, kChannel, "time");
              if (std::ranges::find(axes, axis) != axes.end()) one.refuse_since("names an axis twice");
              axes.push_back(axis);
            }
          }};
}

void check_series(const Job& job, const KeyLocations& locations) {
  const SeriesConfig& series = job.data.series;
  if (job.data.files.empty())
    refuse(locations.of({"data.type"}),
           "data.files is missing; name the series to train on, for example data.files: [gestures_TRAIN.ts]");
  const auto labels_go_with = [&](const char* key, size_t labels, const char* other, size_t files) {
    if (labels != 0 && labels != files)
      refuse(locations.of({key}),
             fmt::format("{} names {} files and {} {}; each .npy file of vectors has a file of labels, "
                         "in the same order",
                         key, labels, other, files));
  };
  labels_go_with("data.labels", series.labels.size(), "data.files", job.data.files.size());
  labels_go_with("data.validation_labels", series.validation_labels.size(), "data.validation_files",
                 series.validation_files.size());
  labels_go_with("data.test_labels", series.test_labels.size(), "data.test_files", series.test_files.size());
  if (!series.test_files.empty() && job.data.test_fraction > 0)
    refuse(locations.of({"data.test_fraction", "data.test_files"}),
           fmt::format("data.test_fraction is {} and data.test_files names {} files; remove one: each of the two gives "
                       "the test",
                       job.data.test_fraction, series.test_files.size()));
  check_held_out(job, locations, ", or name data.test_files");
  if (series.order != "hilbert") return;
  const int64_t channels = job.model.gesture.channels;
  for (int64_t axis : series.hilbert_axes)
    if (axis >= channels)
      refuse(locations.of({"data.hilbert_axes"}),
             fmt::format("data.hilbert_axes has channel {}; model.channels is {}, so the last is {}", axis, channels,
                         channels - 1));
  const int64_t axes = series.hilbert_axes.empty() ? channels + 1 : static_cast<int64_t>(series.hilbert_axes.size());
  if (axes * series.hilbert_bits > kMaxHilbertBits)
    refuse(
        locations.of({"data.hilbert_bits", "data.hilbert_axes", "data.order"}),
        fmt::format("the Hilbert curve has {} axes of {} bits; together they may have {}: lower data.hilbert_bits, or "
                    "name fewer data.hilbert_axes",
                    axes, series.hilbert_bits, kMaxHilbertBits));
}

}  // namespace

DataKind series_kind() {
  using S = SeriesConfig;
  DataKind kind;
  kind.type = "series";
  kind.meaning = "sequences of vectors with a class each";
  kind.keys = {
      paths("data.files", &DataConfig::files,
            "to learn from: .ts files of the time series archive, tables (.csv) with a line a vector, NumPy's .npz and "
            ".npy"),
      paths("data.validation_files", &S::validation_files,
            "series: held-out files; none: data.validation_fraction of the samples, evenly spaced"),
      paths("data.test_files", &S::test_files,
            "series: files of the final test; none: data.test_fraction of the samples, evenly spaced"),
      paths("data.labels", &S::labels, ".npy files with one integer per series, one file for each .npy of data.files"),
      paths("data.validation_labels", &S::validation_labels,
            "series: labels of data.validation_files, as in data.labels"),
      paths("data.test_labels", &S::test_labels, "series: labels of data.test_files, as in data.labels"),
      boolean("data.pad", &S::pad,
              "series: fill series shorter than data.length, and missing values, with the mean; false: such series are "
              "bad samples"),
      word(
          "data.order", &S::order, {"time", "hilbert"},
          "series: order of the vectors: by time, or along a Hilbert curve. Time is one of their values in both cases"),
      integer("data.hilbert_bits", &S::hilbert_bits, {1, 31}, "hilbert: bits that each coordinate is rounded to"),
      hilbert_axes(),
  };
  kind.keys.front().help.default_value = "(required)";
  std::ranges::move(held_out_keys(), std::back_inserter(kind.keys));
  kind.check = check_series;
  kind.paths = [](Job& job) {
    std::vector<DataPath> paths;
    S& series = job.data.series;
    for (const auto& [key, files] : {std::pair{"data.validation_files", &series.validation_files},
                                     {"data.test_files", &series.test_files},
                                     {"data.labels", &series.labels},
                                     {"data.validation_labels", &series.validation_labels},
                                     {"data.test_labels", &series.test_labels}})
      for (std::filesystem::path& path : *files) paths.push_back({key, &path});
    return paths;
  };
  kind.origin = [](const Job& job) {
    const SeriesConfig& series = job.data.series;
    std::vector<Setting> settings = {
        {"data.test_fraction", job.data.test_fraction, 0.0}, {"data.order", series.order}, {"data.pad", series.pad}};
    if (series.order == "hilbert")
      settings.insert(settings.end(),
                      {{"data.hilbert_bits", series.hilbert_bits}, {"data.hilbert_axes", series.hilbert_axes}});
    return settings;
  };
  kind.shared_keys = [](const Job& job) {
    const S& series = job.data.series;
    return std::vector<Setting>{{"data.validation_files", names_of_files(series.validation_files)},
                                {"data.test_files", names_of_files(series.test_files)}};
  };
  return kind;
}

}  // namespace plimsoll::job
