#include "data/slices/label_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <set>
#include <string_view>

#include "base/file_error.h"
#include "base/glob.h"
#include "base/quoted.h"
#include "base/trimmed.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr size_t kMaxFileBytes = size_t{1} << 24;

std::string read_text(const std::filesystem::path& file) {
  std::error_code error;
  if (std::filesystem::is_directory(file, error)) throw_file_error("read", file, EISDIR);
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw_file_error("read", file, errno);
  const uintmax_t size = std::filesystem::file_size(file, error);
  std::string text(error ? kMaxFileBytes + 1 : static_cast<size_t>(std::min<uintmax_t>(size, kMaxFileBytes)) + 1, '\0');
  stream.read(text.data(), std::ssize(text));
  text.resize(static_cast<size_t>(stream.gcount()));
  if (text.size() > kMaxFileBytes)
    throw UserError(fmt::format("{}: is too large for a list of names; allowed: lines such as '37 left hippocampus'",
                                file.string()));
  return text;
}

}  // namespace

std::vector<LabelName> read_label_names(const std::filesystem::path& file) {
  const std::string text = read_text(file);
  std::vector<LabelName> names;
  std::set<int64_t> numbers;
  std::set<std::string> words;
  int64_t line = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view whole = trimmed(std::string_view(text).substr(at, end - at));
    at = end + 1;
    ++line;
    if (whole.empty() || whole.front() == '#') continue;
    const auto refuse = [&](const std::string& what) {
      throw UserError(fmt::format("{}:{}: {}", file.string(), line, what));
    };
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
