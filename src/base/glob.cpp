#include "base/glob.h"

#include <fnmatch.h>

#include <algorithm>
#include <utility>

#include "base/nearest.h"

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

}  // namespace plimsoll
