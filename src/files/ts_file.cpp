#include "files/ts_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>

#include "base/file_error.h"
#include "base/text.h"
#include "files/data_memory.h"
#include "files/file_kind.h"
#include "files/text_file.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr int64_t kMaxSeriesFileBytes = 4 * GiB;
// Memory of a series in addition to its values.
constexpr size_t kSeriesBytes = 100;

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
  return result;
}

/// Returns the text before the next `separator`; `rest` becomes the text after it.
std::string_view next_part(std::string_view& rest, char separator) {
  const size_t at = rest.find(separator);
  const std::string_view part = rest.substr(0, at);
  rest = at == std::string_view::npos ? std::string_view() : rest.substr(at + 1);
  return trimmed(part);
}

/// An error in one series; other series remain valid.
struct Wrong {
  std::string what;
};

float number_in(std::string_view text) {
  if (text == "?" || lower(text) == "nan") return std::numeric_limits<float>::quiet_NaN();
  if (text.starts_with('('))
    throw Wrong{"has time stamps, which are not supported; write the values alone, one for each moment"};
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(static_cast<float>(value)))
    throw Wrong{fmt::format("has {}, which is no number that a float32 can hold", in_quotes(text))};
  return static_cast<float>(value);
}

class Reader {
 public:
  Reader(const std::filesystem::path& file, const BadSeries& bad) : file_(file), bad_(bad) {}

  TsFile read() {
    std::error_code error;
    const auto size = std::filesystem::file_size(file_, error);
    if (error) throw_file_error("read", file_, error.value());
    if (size > static_cast<uintmax_t>(kMaxSeriesFileBytes))
      refuse(fmt::format("is {}; at most {} are read", format_bytes(static_cast<int64_t>(size)),
                         format_bytes(kMaxSeriesFileBytes)));
    TextLines lines(file_, "series (.ts)", static_cast<size_t>(kMaxSeriesFileBytes));
    std::string line;
    while (lines.next(line)) {
      line_ = lines.line();
      const std::string_view text = trimmed(line);
      if (text.empty() || text.starts_with('#') || text.starts_with('%')) continue;
      if (in_data_)
        add_series(text);
      else
        read_header(text);
    }
    if (!in_data_) refuse("has no line '@data': it is no .ts file, or has been cut off");
    return std::move(result_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw UserError(fmt::format("{} {}", file_.string(), what), UserError::Kind::failure);
  }
  [[noreturn]] void refuse_line(const std::string& what) const {
    throw UserError(fmt::format("{}:{}: {}", file_.string(), line_, what), UserError::Kind::failure);
  }

  void read_header(std::string_view text) {
    if (!text.starts_with('@'))
      refuse_line(fmt::format("{} stands where a header line (@...) or '@data' is expected; is it a .ts file?",
                              in_quotes(text)));
    std::istringstream words{std::string(text.substr(1))};
    std::string name, value;
    words >> name >> value;
    name = lower(name);
    if (name == "data") {
      if (result_.classes.empty())
        refuse_line("'@data' comes before '@classLabel true ...': series without classes cannot be learned from");
      in_data_ = true;
    } else if (name == "dimensions" || name == "dimension") {
      set_channels(count_in("@dimensions", value, 1));
    } else if (name == "univariate") {
      if (is_true("@univariate", value)) set_channels(1);
    } else if (name == "timestamps") {
      if (is_true("@timeStamps", value))
        refuse_line("@timeStamps is true; series with time stamps are not supported: write the values alone");
    } else if (name == "equallength") {
      equal_length_ = is_true("@equalLength", value);
    } else if (name == "serieslength") {
      announced_length_ = count_in("@seriesLength", value, 0);  // 0: unknown
    } else if (name == "missing") {
      may_miss_values_ = is_true("@missing", value);
    } else if (name == "targetlabel") {
      if (is_true("@targetLabel", value))
        refuse_line("@targetLabel is true; series with numbers as targets are not supported: write classes");
    } else if (name == "classlabel") {
      if (lower(value) != "true")
        refuse_line("@classLabel is not 'true': series without classes cannot be learned from");
      result_.classes.clear();
      class_index_.clear();
      for (std::string label; words >> label;) {
        if (!class_index_.emplace(label, std::ssize(result_.classes)).second)
          refuse_line(fmt::format("@classLabel names {} twice", in_quotes(label)));
        result_.classes.push_back(label);
        if (result_.classes.size() > kMaxClasses)
          refuse_line(fmt::format("@classLabel has more than {} classes", kMaxClasses));
      }
      if (result_.classes.empty()) refuse_line("@classLabel names no class");
    } else if (name != "problemname") {
      note_data(file_, fmt::format("the header line @{} is not known here, and is left out", one_line(name)));
    }
  }

  bool is_true(const char* name, const std::string& value) const {
    const std::string word = lower(value);
    if (word != "true" && word != "false")
      refuse_line(fmt::format("{} is {}; allowed: true, false", name, in_quotes(value)));
    return word == "true";
  }

  int64_t count_in(const char* name, const std::string& value, int64_t min) const {
    int64_t count = -1;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), count);
    if (error != std::errc() || end != value.data() + value.size() || count < min)
      refuse_line(fmt::format("{} is {}; it must be a whole number {}", name, in_quotes(value),
                              min > 0 ? "above 0" : "from 0 on"));
    return count;
  }

  void set_channels(int64_t channels) {
    if (result_.channels > 0 && result_.channels != channels)
      refuse_line(fmt::format("the header says {} channels here, and {} before", channels, result_.channels));
    result_.channels = channels;
  }

  /// Throws Wrong if the header says another length, or that no value is missing.
  void compare_with_header(const TsSeries& series) {
    // The length of a file without @equalLength true may be that of its longest series.
    if (equal_length_.value_or(false)) {
      if (announced_length_ == 0) announced_length_ = series.length;
      if (series.length != announced_length_)
        throw Wrong{fmt::format("has {} values in a channel; @equalLength is true, and the others have {}",
                                series.length, announced_length_)};
    }
    const auto missing = std::ranges::count_if(series.values, [](float value) { return std::isnan(value); });
    if (!may_miss_values_.value_or(true) && missing > 0)
      throw Wrong{fmt::format("lacks {} values, and @missing is false", missing)};
  }

  void add_series(std::string_view text) {
    try {
      TsSeries series = parsed(text);
      // A file may omit @dimensions.
      if (result_.channels == 0) result_.channels = channels_;
      if (channels_ != result_.channels)
        throw Wrong{fmt::format("has {} channels; the file's series have {}", channels_, result_.channels)};
      compare_with_header(series);
      bytes_ += kSeriesBytes + sizeof(float) * series.values.size();
      if (const auto bytes = static_cast<double>(bytes_); bytes > data_memory_left())
        require_data_memory(file_.string(),
                            fmt::format("has {} series up to line {}", result_.series.size() + 1, line_), bytes);
      result_.series.push_back(std::move(series));
    } catch (const Wrong& wrong) {
      bad_(fmt::format("{}:{}: the series {}", file_.string(), line_, wrong.what));
    }
  }

  TsSeries parsed(std::string_view text) {
    const size_t last = text.rfind(':');
    if (last == std::string_view::npos)
      throw Wrong{"has no class: 'values:values:class' is expected, a colon between channels and before the class"};
    const std::string_view label = trimmed(text.substr(last + 1));
    const auto found = class_index_.find(label);
    if (found == class_index_.end())
      throw Wrong{fmt::format("is of class {}, which @classLabel does not name", in_quotes(label))};
    TsSeries series;
    series.label = found->second;
    series.line = line_;
    // First channel after channel; then the values of each time step contiguous.
    std::vector<float> by_channel;
    channels_ = 0;
    bool more = true;
    for (std::string_view rest = text.substr(0, last); more;) {
      more = rest.find(':') != std::string_view::npos;
      std::string_view values = next_part(rest, ':');
      if (values.empty()) throw Wrong{fmt::format("has no values in channel {}", channels_)};
      const size_t before = by_channel.size();
      for (bool next = true; next;) {
        next = values.find(',') != std::string_view::npos;
        by_channel.push_back(number_in(next_part(values, ',')));
      }
      const auto length = static_cast<int64_t>(by_channel.size() - before);
      if (channels_ > 0 && length != series.length)
        throw Wrong{fmt::format("has {} values in channel {} and {} in channel 0; all channels must be as long", length,
                                channels_, series.length)};
      series.length = length;
      ++channels_;
    }
    series.values.resize(by_channel.size());
    for (int64_t c = 0; c < channels_; ++c)
      for (int64_t t = 0; t < series.length; ++t)
        series.values[static_cast<size_t>(t * channels_ + c)] = by_channel[static_cast<size_t>(c * series.length + t)];
    return series;
  }

  const std::filesystem::path& file_;
  const BadSeries& bad_;
  TsFile result_;
  std::map<std::string, int64_t, std::less<>> class_index_;  // a file may have 2^16 classes, so no linear search
  int64_t line_ = 0;
  int64_t channels_ = 0;  // channels of the series read last
  size_t bytes_ = 0;      // bytes that the series use
  bool in_data_ = false;
  std::optional<bool> equal_length_, may_miss_values_;  // @equalLength and @missing
  int64_t announced_length_ = 0;                        // @seriesLength, or the first series' length; 0: none
};

}  // namespace

TsFile read_ts_file(const std::filesystem::path& file, const BadSeries& bad) {
  return Reader(file, bad).read();
}

}  // namespace plimsoll
