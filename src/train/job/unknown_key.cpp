#include "train/job/unknown_key.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/nearest.h"
#include "base/quoted.h"
#include "plimsoll/error.h"
#include "train/job/keys.h"

namespace plimsoll::job {
namespace {

std::string section_of(const std::string& path) {
  const size_t dot = path.rfind('.');
  return dot == std::string::npos ? "" : path.substr(0, dot);
}

std::string last_of(const std::string& path) {
  return path.substr(path.rfind('.') + 1);
}

std::vector<std::string> key_names() {
  std::vector<std::string> names;
  for (const Key& key : keys()) names.push_back(key.help.key);
  return names;
}

/// What was probably meant by `path`; "" where nothing is near.
std::string meant_by(const std::string& path) {
  const std::vector<std::string> names = key_names();
  std::vector<std::string> namesakes;
  std::ranges::copy_if(names, std::back_inserter(namesakes),
                       [&](const std::string& name) { return last_of(name) == last_of(path); });
  if (namesakes.size() == 1) return namesakes.front();
  std::vector<std::string> candidates = names;
  candidates.insert(candidates.end(), sections().begin(), sections().end());
  return nearest(path, candidates).value_or("");
}

}  // namespace

std::vector<std::string> keys_of(const std::string& section) {
  std::vector<std::string> names;
  for (const std::string& each : sections())
    if (section_of(each) == section) names.push_back(last_of(each));
  for (const std::string& name : key_names())
    if (section_of(name) == section) names.push_back(last_of(name));
  return names;
}

void refuse_unknown_key(std::string path, Node::Entry entry, const Source& source) {
  // Of an unknown section the first key is named: it may belong to a known one.
  if (path.find('.') == std::string::npos && entry.value->kind == Node::Kind::mapping &&
      !entry.value->entries.empty()) {
    entry = entry.value->entries.front();
    path += "." + entry.key;
  }
  const std::string where = fmt::format("{}: unknown key {}", source.at(entry.line, entry.column), in_quotes(path));
  if (const std::string key = meant_by(path); !key.empty())
    throw UserError(fmt::format("{}; did you mean '{}'?", where, key));
  std::string section = section_of(path);
  if (const auto near = nearest(section, sections()))
    section = *near;
  else
    section.clear();
  throw UserError(fmt::format("{}; {}: {}", where, section.empty() ? "the job file has" : "keys of " + section,
                              joined(keys_of(section), ", ")));
}

}  // namespace plimsoll::job
