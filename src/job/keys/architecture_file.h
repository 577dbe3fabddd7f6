// Finds and compares the configuration files that the weights of other programs come with.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <string>
#include <type_traits>
#include <vector>

#include "job/keys/model_kind.h"
#include "job/values/key_locations.h"

namespace plimsoll::job {

/// Returns the file with the architecture of the weights at `section` ("model", "model.llm"); empty if there is none.
/// Paths are relative to `directory`. Throws UserError for a file or a folder that does not exist.
std::filesystem::path architecture_file(const std::filesystem::path& weights, const std::filesystem::path& config,
                                        const std::string& section, const KeyLocations& locations,
                                        const std::filesystem::path& directory);

/// Throws UserError for all given keys of `said` that differ from `found`; 0 for a size only means its default.
/// `for_each` visits the settings.
template <typename Config, typename ForEach>
void must_agree(const std::filesystem::path& file, const std::string& section, const KeyLocations& locations,
                const ForEach& for_each, Config stated, Config found) {
  std::vector<std::string> others;
  std::string first;
  for_each([&](const char* name, auto place) {
    const std::string key = section + "." + name;
    using Value = std::remove_cvref_t<decltype(place(stated))>;
    if (!locations.given(key) || place(stated) == place(found)) return;
    if constexpr (!std::is_same_v<Value, bool>)
      if (place(stated) == Value{}) return;
    if (first.empty()) first = key;
    others.push_back(fmt::format("{} is {} in the job, {} in the file", key, place(stated), place(found)));
  });
  if (others.empty()) return;
  refuse(locations.of({first}),
         fmt::format("the architecture is that of {}; leave these keys out, or make them agree\n  {}", file.string(),
                     fmt::join(others, "\n  ")));
}

}  // namespace plimsoll::job
