#include "data/series/series_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/text.h"
#include "files/csv_file.h"
#include "files/data_memory.h"
#include "files/file_kind.h"
#include "files/npz.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

[[noreturn]] void refuse(const std::string& file, const std::string& what) {
  throw UserError(fmt::format("{}: {}", file, what), UserError::Kind::failure);
}

/// Reads one whole number for each series.
std::vector<int64_t> whole_numbers(const NpyArray& array, int64_t series, const std::string& name,
                                   const std::string& what) {
  if (is_floating(array.type))
    refuse(name, fmt::format("is {}; {} are whole numbers: save array.astype('int64')", array.describe_sizes(), what));
  if (array.sizes != std::vector<int64_t>{series} && array.sizes != std::vector<int64_t>{series, 1})
    refuse(name, fmt::format("is {}; there are {} series, and {} are one number for each", array.describe_sizes(),
                             series, what));
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < series; ++i) {
    const double number = array.at(i);
    if (std::abs(number) > 0x1p53)
      refuse(name, fmt::format("has {}, which is too large for any of the {}", number, what));
    numbers.push_back(static_cast<int64_t>(number));
  }
  return numbers;
}

TsFile from_arrays(const NpyArray& vectors, const std::string& name, const NpyArray& labels,
                   const std::string& labels_name, const std::optional<NpyArray>& lengths, const BadSeries& bad) {
  if (vectors.sizes.size() < 2 || vectors.sizes.size() > 3 || vectors.count() == 0)
    refuse(name, fmt::format("is {}; [series, vectors, channels] is wanted, or [series, vectors] of one channel",
                             vectors.describe_sizes()));
  TsFile file;
  file.declares_classes = false;
  file.before_number = ": series ";
  const int64_t count = vectors.sizes[0], most = vectors.sizes[1];
  file.channels = vectors.sizes.size() == 3 ? vectors.sizes[2] : 1;
  const std::vector<int64_t> classes = whole_numbers(labels, count, labels_name, "labels");
  std::vector<int64_t> length(static_cast<size_t>(count), most);
  if (lengths) length = whole_numbers(*lengths, count, name + ": lengths", "lengths");
  std::map<int64_t, int64_t> index;
  for (const int64_t number : classes) index.emplace(number, 0);
  if (index.size() > kMaxClasses) refuse(labels_name, fmt::format("has more than {} classes", kMaxClasses));
  for (auto& [number, at] : index) {
    at = std::ssize(file.classes);
    file.classes.push_back(std::to_string(number));
  }
  if (index.begin()->first < 0)
    note_data(labels_name,
              fmt::format("labels are {} and more; a negative number is a class, too", index.begin()->first));
  const int64_t each = most * file.channels;
  require_data_memory(name, fmt::format("has {} series of {} vectors", count, most),
                      static_cast<double>(vectors.bytes.size()) + 4.0 * static_cast<double>(vectors.count()));
  for (int64_t i = 0; i < count; ++i) {
    TsSeries series;
    series.line = i;
    series.length = length[static_cast<size_t>(i)];
    series.label = index.at(classes[static_cast<size_t>(i)]);
    const std::string place = fmt::format("{}: series {}", name, i);
    if (series.length < 1 || series.length > most) {
      bad(fmt::format("{}: its length is {}; the array has room for 1 to {}", place, series.length, most));
      continue;
    }
    series.values.resize(static_cast<size_t>(series.length * file.channels));
    bool infinite = false;
    for (size_t k = 0; k < series.values.size(); ++k) {
      series.values[k] = static_cast<float>(vectors.at(i * each + static_cast<int64_t>(k)));
      infinite |= std::isinf(series.values[k]);
    }
    if (infinite)
      bad(place + ": the series has a number that a float32 cannot hold");
    else
      file.series.push_back(std::move(series));
  }
  return file;
}

/// Returns the one of the names that the archive has.
const char* named(const NpzFile& archive, std::initializer_list<const char*> names, const std::filesystem::path& file,
                  const char* what) {
  const char* found = nullptr;
  for (const char* name : names) {
    if (!archive.has(name)) continue;
    if (found)
      refuse(file.string(),
             fmt::format("has the arrays '{}' and '{}', and each may be {}; save one", found, name, what));
    found = name;
  }
  if (found) return found;
  refuse(file.string(),
         fmt::format("has no array '{}'; it has: {}. numpy.savez('{}', vectors=..., labels=...) saves {}",
                     *names.begin(), few_names(archive.names()), file.filename().string(), what));
}

TsFile from_archive(const std::filesystem::path& file, const BadSeries& bad) {
  const NpzFile archive(file);
  const std::string name = file.string();
  const char* vectors = named(archive, {"vectors", "x", "X"}, file, "numbers [series, vectors, channels]");
  const char* labels = named(archive, {"labels", "y"}, file, "a whole number for each series");
  std::optional<NpyArray> lengths;
  if (archive.has("lengths")) lengths = archive.read("lengths");
  std::vector<std::string> others = archive.names();
  std::erase_if(others,
                [&](const std::string& each) { return each == vectors || each == labels || each == "lengths"; });
  if (!others.empty()) note_data(file, fmt::format("arrays that are not read: {}", few_names(others)));
  return from_arrays(archive.read(vectors), fmt::format("{}: {}", name, vectors), archive.read(labels),
                     fmt::format("{}: {}", name, labels), lengths, bad);
}

}  // namespace

TsFile read_series_file(const std::filesystem::path& file, const std::filesystem::path& labels, const BadSeries& bad) {
  const std::string extension = file.extension().string();
  if (extension == ".npy") {
    if (labels.empty())
      refuse(file.string(),
             "holds vectors and no classes; name a .npy file of whole numbers, one for each series, in "
             "data.labels (data.validation_labels for data.validation_files), or save both in an .npz");
    return from_arrays(read_npy(file), file.string(), read_npy(labels), labels.string(), std::nullopt, bad);
  }
  if (!labels.empty())
    refuse(labels.string(),
           fmt::format("is given as labels of {}, which has its own; labels are for .npy files", file.string()));
  if (extension == ".npz") return from_archive(file, bad);
  if (extension == ".csv" || extension == ".tsv") return read_series_table(file, bad);
  return read_ts_file(file, bad);
}

namespace {

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
  return text;
}

class Reader {
 public:
  Reader(const std::filesystem::path& file, const BadSeries& bad) : path_(file), table_(file), bad_(bad) {}

  TsFile read() {
    read_names();
    std::vector<std::string> cells;
    while (table_.next(cells)) add_line(cells);
    finish();
    if (result_.series.empty() && !any_) refuse("has names of columns and no lines of numbers");
    judge_first_column();
    note_columns();
    return std::move(result_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw UserError(fmt::format("{}: {}", table_.place(), what), UserError::Kind::failure);
  }

  /// Returns nothing for text that is no number within float32's range.
  std::optional<double> number_in(const std::string& text) {
    if (text.empty() || text == "?" || lower(text) == "nan") return std::numeric_limits<double>::quiet_NaN();
    const std::optional<double> value = table_.number(text);
    return value && std::isfinite(static_cast<float>(*value)) ? value : std::nullopt;
  }

  void read_names() {
    if (!table_.next(names_)) refuse("the file is empty");
    const bool numbers = std::ranges::any_of(
        names_, [this](const std::string& name) { return !name.empty() && number_in(name).has_value(); });
    if (numbers)
      refuse("the first line has numbers; it names the columns, for example series,label,x,y (docs/job-file.md)");
    std::set<std::string> seen;
    for (size_t i = 0; i < names_.size(); ++i) {
      const std::string name = lower(names_[i]);
      if (name.empty() && i == 0 && names_.size() > 1) {
        unnamed_index_ = true;
        continue;
      }
      if (name.empty()) refuse(fmt::format("column {} has no name; name it, or remove it", i + 1));
      if (!seen.insert(name).second) refuse(fmt::format("two columns are called {}", in_quotes(name)));
      const auto is = [&](std::optional<size_t>& column, std::initializer_list<const char*> words) {
        if (std::ranges::find(words, name) == words.end()) return false;
        if (column)
          refuse(fmt::format("{} and {} both name what tells series apart, or their label; leave one",
                             in_quotes(names_[*column]), in_quotes(names_[i])));
        column = i;
        return true;
      };
      if (is(series_, {"series", "sample", "id"}) || is(label_, {"label", "class"}) || is(time_, {"time"})) continue;
      channels_.push_back(i);
      result_.channel_names.push_back(names_[i]);
    }
    if (channels_.empty()) refuse("no column is a channel: beside series, label and time there is none");
    result_.channels = std::ssize(channels_);
    result_.declares_classes = false;
  }

  void judge_first_column() const {
    if (unnamed_index_)
      note_data(path_, fmt::format("the first column has no name and {}; it is left out as an index",
                                   first_column_.describe()));
    else if (channels_.front() == 0 && first_column_.is_certain())
      throw UserError(
          fmt::format(
              "{}: the first column {} {}, as an index does; remove it (pandas: index=False), call it time if it "
              "is the time, or write its numbers as 0.0, 1.0, ... if they are values",
              path_.string(), in_quotes(names_[0]), first_column_.describe()),
          UserError::Kind::failure);
  }

  /// Notes channels that look as if they said something about a series or a line, and labels that look like numbers to
  /// be predicted.
  void note_columns() const {
    std::vector<std::string> fixed, rising, fractions;
    for (size_t c = 0; c < channels_.size(); ++c) {
      if (is_fixed(c)) fixed.push_back(result_.channel_names[c]);
      if (is_rising(c)) rising.push_back(result_.channel_names[c]);
    }
    if (!fixed.empty())
      note_data(path_,
                fmt::format("columns with one number in each series are taken as channels: {}; remove them if they "
                            "say which part, subject or weight a series has",
                            few_names(fixed)));
    if (!rising.empty())
      note_data(path_,
                fmt::format("columns that rise by one step in every series are taken as channels: {}; call such a "
                            "column time if it is the time, or remove it",
                            few_names(rising)));
    for (const std::string& name : result_.classes) {
      double number = 0;
      const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
      if (error != std::errc() || end != name.data() + name.size()) return;
      if (number != std::floor(number)) fractions.push_back(name);
    }
    if (!fractions.empty())
      note_data(path_, fmt::format("labels are numbers with fractions, and each is a class by itself: {}",
                                   few_names(fractions)));
  }

  float value(const TsSeries& series, int64_t line, size_t channel) const {
    return series.values[static_cast<size_t>(line * result_.channels) + channel];
  }

  /// Returns true if a channel has one number in each of several series, and not the same in all of them.
  bool is_fixed(size_t channel) const {
    bool differs = false;
    for (const TsSeries& series : result_.series) {
      if (series.length < 2) return false;
      for (int64_t t = 1; t < series.length; ++t)
        if (!(value(series, t, channel) == value(series, 0, channel))) return false;
      differs |= value(series, 0, channel) != value(result_.series[0], 0, channel);
    }
    return differs;
  }

  /// Returns true if a channel rises by one step, the same in all series, of which at least one has 8 lines.
  bool is_rising(size_t channel) const {
    int64_t longest = 0;
    double step = 0;
    for (const TsSeries& series : result_.series) {
      longest = std::max(longest, series.length);
      for (int64_t t = 1; t < series.length; ++t) {
        const double rise = double{value(series, t, channel)} - double{value(series, t - 1, channel)};
        if (step == 0) step = rise;
        if (!(rise > 0) || std::abs(rise - step) > kStepTolerance * step) return false;
      }
    }
    return longest >= kMinRisingLines;
  }

  void add_line(const std::vector<std::string>& cells) {
    any_ = true;
    // A line of another length may belong to any series.
    if (cells.size() != names_.size())
      refuse(fmt::format("the line has {} cells, and the first line names {}", cells.size(), names_.size()));
    if (!first_column_.add(cells[0]) && unnamed_index_)
      refuse(
          fmt::format("{} is in the first column, which has no name and does not count as an index does; name the "
                      "column if it has values, or remove it",
                      in_quotes(cells[0])));
    const std::string name = series_ ? cells[*series_] : "";
    if (!open_ || name != name_) {
      finish();
      if (!seen_.insert(name).second)
        refuse(
            fmt::format("the series {} goes on after another; lines of a series follow one another", in_quotes(name)));
      open_ = true;
      name_ = name;
      first_line_ = table_.line();
      label_text_ = label_ ? cells[*label_] : std::filesystem::absolute(path_).parent_path().filename().string();
      if (label_text_.empty()) wrong_ = "has no label";
      last_time_ = -std::numeric_limits<double>::infinity();
    }
    if (!wrong_.empty()) return;
    if (label_ && cells[*label_] != label_text_)
      wrong_ = fmt::format("has the labels {} and {}", in_quotes(label_text_), in_quotes(cells[*label_]));
    if (time_) {
      const auto time = number_in(cells[*time_]);
      if (!time || !(*time > last_time_))
        wrong_ = fmt::format("has the time {} in line {}, which does not come after the one before",
                             in_quotes(cells[*time_]), table_.line());
      else
        last_time_ = *time;
    }
    for (const size_t channel : channels_) {
      const auto value = number_in(cells[channel]);
      if (!value) {
        wrong_ = fmt::format("has {} in line {}, which is no number that a float32 can hold", in_quotes(cells[channel]),
                             table_.line());
        break;
      }
      values_.push_back(static_cast<float>(*value));
    }
    bytes_ += sizeof(float) * channels_.size();
    if (const auto bytes = static_cast<double>(bytes_); bytes > data_memory_left())
      require_data_memory(table_.place(), fmt::format("has {} channels up to this line", channels_.size()), bytes);
  }

  void finish() {
    if (!open_) return;
    open_ = false;
    TsSeries series;
    series.line = first_line_;
    series.length = std::ssize(values_) / result_.channels;
    series.values = std::exchange(values_, {});
    if (const std::string wrong = std::exchange(wrong_, {}); !wrong.empty()) {
      bad_(fmt::format("{}:{}: the series {}", path_.string(), first_line_, wrong));
      return;
    }
    const auto [found, is_new] = class_index_.emplace(label_text_, std::ssize(result_.classes));
    if (is_new) {
      if (result_.classes.size() == kMaxClasses) refuse(fmt::format("there are more than {} classes", kMaxClasses));
      result_.classes.push_back(label_text_);
    }
    series.label = found->second;
    result_.series.push_back(std::move(series));
  }

  const std::filesystem::path& path_;
  CsvFile table_;
  const BadSeries& bad_;
  std::vector<std::string> names_;
  std::optional<size_t> series_, label_, time_;
  std::vector<size_t> channels_;
  IndexColumn first_column_;
  bool unnamed_index_ = false;  // the first column has no name
  TsFile result_;
  std::map<std::string, int64_t> class_index_;
  std::set<std::string> seen_;
  // State of the series that is being read.
  bool open_ = false, any_ = false;
  std::string name_, label_text_, wrong_;
  std::vector<float> values_;
  size_t bytes_ = 0;  // bytes of the values of all series
  int64_t first_line_ = 0;
  double last_time_ = 0;
};

}  // namespace

TsFile read_series_table(const std::filesystem::path& file, const BadSeries& bad) {
  return Reader(file, bad).read();
}

}  // namespace plimsoll
