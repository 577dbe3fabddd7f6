#include "base/nearest_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <system_error>
#include <vector>

#include "base/nearest.h"
#include "base/quoted.h"

namespace plimsoll {

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
