#include "data/series/stimulus_labels.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <sstream>

#include "base/text.h"
#include "data/series/fmri_series.h"
#include "files/data_memory.h"
#include "files/text_file.h"
#include "plimsoll/error.h"
#include "safetensors/safetensors.h"

namespace plimsoll {
namespace {

constexpr size_t kMaxLineLength = size_t{1} << 20;

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

}  // namespace

StimulusLabels read_stimulus_labels(const std::filesystem::path& path) {
  TextLines lines(path, "list of labels", kMaxLineLength);
  StimulusLabels labels;
  std::map<std::string, int64_t> index;
  std::set<std::string> runs;
  std::string line, label, run, more;
  size_t words = 0;  // words of a line
  while (lines.next(line)) {
    const int64_t number = lines.line();
    std::istringstream parts(line);
    label.clear(), run.clear(), more.clear();
    parts >> label >> run >> more;
    if (label.empty()) continue;
    const size_t count = run.empty() ? 1 : more.empty() ? 2 : 3;
    if (count > 2 || (words != 0 && count != words))
      throw bad_file(path, fmt::format("line {} is {}; every line is a label and a run, or every line a label", number,
                                       in_quotes(line)));
    words = count;
    if (const size_t mark = label.find_last_of(",;");
        count == 1 && mark != label.npos && is_digits(label.substr(mark + 1)))
      throw bad_file(path, fmt::format("line {}: {} has a run behind '{}'; separate the label and the run by a blank",
                                       number, in_quotes(label), label[mark]));
    const auto [known, fresh] = index.emplace(label, std::ssize(labels.names));
    if (fresh) labels.names.push_back(label);
    if (labels.runs.empty() || labels.runs.back() != run) {
      if (!runs.insert(run).second)
        throw bad_file(path, fmt::format("line {}: run {} goes on after another; a run's volumes follow one another",
                                         number, in_quotes(run)));
      labels.runs.push_back(run);
    }
    labels.label.push_back(known->second);
    labels.run.push_back(std::ssize(labels.runs) - 1);
  }
  if (labels.label.empty()) throw bad_file(path, "it holds no labels");
  return labels;
}

std::vector<std::vector<float>> read_label_vectors(const std::filesystem::path& path,
                                                   const std::vector<std::string>& names) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  std::vector<std::vector<float>> vectors;
  for (const std::string& name : names) {
    const auto found = file.tensors().find(name);
    if (found == file.tensors().end()) {
      std::vector<std::string> has;
      for (const auto& [each, tensor] : file.tensors()) has.push_back(each);
      throw bad_file(path,
                     fmt::format("it has no vector for the label {}; it has: {}", in_quotes(name), few_names(has)));
    }
    const StoredTensor& tensor = found->second;
    if (tensor.dtype != DType::float32 || tensor.sizes.size() != 1 || tensor.sizes[0] < 1)
      throw bad_file(path, fmt::format("the tensor {} is {} [{}]; a label's vector is float32 [features]",
                                       in_quotes(name), name_of(tensor.dtype), fmt::join(tensor.sizes, ", ")));
    if (vectors.empty())
      require_data_memory(path.string(),
                          fmt::format("has vectors of {} values for {} labels", tensor.sizes[0], names.size()),
                          sizeof(float) * static_cast<double>(tensor.sizes[0]) * static_cast<double>(names.size()));
    std::vector<float> vector(static_cast<size_t>(tensor.sizes[0]));
    std::memcpy(vector.data(), tensor.bytes.data(), tensor.bytes.size());
    if (!std::ranges::all_of(vector, [](float value) { return std::isfinite(value); }))
      throw bad_file(path, fmt::format("the vector of {} has values that are not finite", in_quotes(name)));
    if (!vectors.empty() && vector.size() != vectors.front().size())
      throw bad_file(path, fmt::format("the vector of {} has {} values, that of {} {}", in_quotes(name), vector.size(),
                                       in_quotes(names[0]), vectors.front().size()));
    vectors.push_back(std::move(vector));
  }
  file.require_whole();
  return vectors;
}

StimulusFeatures::StimulusFeatures(const std::filesystem::path& file, const std::string& key,
                                   const std::vector<int64_t>& row, int64_t volumes)
    : array_(read_npy(file)) {
  const std::vector<int64_t>& sizes = array_.sizes;
  const bool same = sizes.size() == row.size() + 1 && std::equal(row.begin(), row.end(), sizes.begin() + 1);
  if (!same || sizes[0] == 0 || sizes[0] % volumes != 0)
    throw UserError(
        fmt::format("{}: {} is {}; allowed: {} x {}, or a multiple of these rows (each volume of data.fmri has "
                    "the same number of rows, and the model sets the size of a row)",
                    key, file.string(), array_.describe_sizes(), volumes, fmt::join(row, " x ")));
  keep_data_memory(static_cast<double>(array_.bytes.size()));
  rows_ = sizes[0];
  per_volume_ = rows_ / volumes;
  width_ = array_.count() / rows_;
  if (!is_floating(array_.type)) return;
  for (int64_t i = 0; i < array_.count(); ++i)
    if (!std::isfinite(static_cast<float>(array_.at(i))))
      throw UserError(
          fmt::format("{}: {} has a number that is not finite in float32, in row {}", key, file.string(), i / width_),
          UserError::Kind::failure);
}

int64_t StimulusFeatures::row_at(double volumes) const {
  if (volumes < 0) return -1;
  const auto row = static_cast<int64_t>(volumes * static_cast<double>(per_volume_));
  return row < rows_ ? row : -1;
}

}  // namespace plimsoll
