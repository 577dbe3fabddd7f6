#include "base/names.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "base/text.h"

namespace plimsoll {

bool matches_path(const std::string& pattern, const std::string& name) {
  for (size_t end = 0; end != std::string::npos;) {
    end = name.find('.', end + 1);
    if (fnmatch(pattern.c_str(), name.substr(0, end).c_str(), FNM_NOESCAPE) == 0) return true;
  }
  return false;
}

std::vector<std::string> nearest_few(const std::string& word, const std::vector<std::string>& candidates,
                                     size_t count) {
  std::vector<std::pair<size_t, std::string>> ranked;
  for (const std::string& candidate : candidates)
    if (!candidate.empty()) ranked.emplace_back(edit_distance(word, candidate), candidate);
  std::ranges::stable_sort(ranked, {}, &std::pair<size_t, std::string>::first);
  std::vector<std::string> few;
  for (size_t i = 0; i < std::min(count, ranked.size()); ++i) few.push_back(std::move(ranked[i].second));
  return few;
}

namespace {

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

}  // namespace

size_t edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the table of distances between the first i letters of a and the first j of b.
  std::vector<size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  std::iota(above.begin(), above.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const bool same = lower(a[i - 1]) == lower(b[j - 1]);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]))
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::optional<std::string> best;
  size_t best_distance = 0;
  for (const std::string& candidate : candidates) {
    const auto [shorter, longer] = std::minmax({word.size(), candidate.size()});
    if (shorter == 0) continue;
    const size_t plausible = std::max<size_t>(1, shorter / 3);
    // The difference in length is a lower bound; the check also avoids the cost of a hostile, very long word.
    if (longer - shorter > plausible) continue;
    const size_t distance = edit_distance(word, candidate);
    if (distance > plausible || (best && distance >= best_distance)) continue;
    best = candidate;
    best_distance = distance;
  }
  return best;
}

std::string nearest_file_advice(const std::filesystem::path& path) {
  constexpr size_t most = 4096;
  std::error_code error;
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  std::vector<std::string> names;
  std::filesystem::directory_iterator entries(folder, error);
  for (; !error && entries != std::filesystem::directory_iterator() && names.size() < most; entries.increment(error))
    names.push_back(entries->path().filename().string());
  if (error) return "";
  std::ranges::sort(names);  // the result must not depend on the order in which the system lists them
  const std::string name = path.filename().string();
  if (std::ranges::find(names, name) != names.end()) return "";
  // The ending is compared only if it differs: "base.safetensors" is not near "last.safetensors".
  std::vector<std::string> stems, others;
  for (const std::string& each : names) {
    const std::filesystem::path file(each);
    if (file.extension() == path.extension())
      stems.push_back(file.stem().string());
    else
      others.push_back(each);
  }
  std::optional<std::string> meant;
  if (const auto stem = nearest(path.stem().string(), stems))
    meant = *stem + path.extension().string();
  else
    meant = nearest(name, others);
  if (!meant) return "";
  return fmt::format("; did you mean {}?", in_quotes((path.parent_path() / *meant).string()));
}

std::string absent_file_advice(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  if (name.find_first_of("*?") != std::string::npos)
    return "; names are not expanded here: write the list of the files: [a.txt, b.txt]";
  if (name.find(',') != std::string::npos) return "; several files are a list: write [a.txt, b.txt]";
  return nearest_file_advice(path);
}

}  // namespace plimsoll
