#include "data/slices/label_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>

#include "base/glob.h"
#include "base/quoted.h"
#include "base/trimmed.h"
#include "files/text_file.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr size_t kMaxFileBytes = size_t{1} << 24;
constexpr const char* kWanted = "list of label names ('37 left hippocampus')";

}  // namespace

std::vector<LabelName> read_label_names(const std::filesystem::path& file) {
  TextLines lines(file, kWanted, kMaxFileBytes, UserError::Kind::usage);
  std::vector<LabelName> names;
  std::set<int64_t> numbers;
  std::set<std::string> words;
  size_t bytes = 0;
  for (std::string text; lines.next(text);) {
    const std::string_view whole = trimmed(text);
    if ((bytes += text.size()) > kMaxFileBytes)
      throw UserError(
          fmt::format("{}: is larger than a {} may be; allowed: {} bytes", file.string(), kWanted, kMaxFileBytes));
    if (whole.empty() || whole.front() == '#') continue;
    const auto refuse = [&](const std::string& what) { throw UserError(fmt::format("{}: {}", lines.place(), what)); };
    LabelName label;
    const auto [rest, error] = std::from_chars(whole.data(), whole.data() + whole.size(), label.number);
    label.name = trimmed({rest, static_cast<size_t>(whole.data() + whole.size() - rest)});
    if (error != std::errc{} || label.name.empty() || (*rest != ' ' && *rest != '\t'))
      refuse(fmt::format("{} is no label's number and name; for example '37 left hippocampus'",
                         in_quotes(std::string(whole))));
    if (!numbers.insert(label.number).second) refuse(fmt::format("number {} was there before", label.number));
    if (!words.insert(label.name).second) refuse(fmt::format("the name {} was there before", in_quotes(label.name)));
    names.push_back(std::move(label));
  }
  if (names.empty()) throw UserError(fmt::format("{}: has no names", file.string()));
  return names;
}

std::vector<LabelName> matching(const std::vector<LabelName>& all, const std::vector<std::string>& patterns,
                                const std::filesystem::path& file) {
  std::vector<bool> taken(all.size(), false);
  for (const std::string& pattern : patterns) {
    bool any = false;
    for (size_t i = 0; i < all.size(); ++i)
      if (matches_path(pattern, all[i].name)) any = taken[i] = true;
    if (any) continue;
    std::vector<std::string> names;
    for (const LabelName& label : all) names.push_back(label.name);
    throw UserError(fmt::format("data.structures: {} matches no name in {}; it has for example {}", in_quotes(pattern),
                                file.string(), few_names(nearest_few(pattern, names, 3))));
  }
  std::vector<LabelName> found;
  for (size_t i = 0; i < all.size(); ++i)
    if (taken[i]) found.push_back(all[i]);
  return found;
}

}  // namespace plimsoll
