// Finds links by name.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "base/nearest.h"
#include "base/quoted.h"
#include "plimsoll/devices.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr size_t kMaxLinkName = 100;  // bytes of a name from outside

// Returns letters and digits in lower case: "PCIe 4.0 x16" is "pcie40x16".
std::string link_key(std::string_view name) {
  std::string key;
  for (const char c : name.substr(0, kMaxLinkName))
    if (std::isalnum(static_cast<unsigned char>(c)))
      key += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return key;
}

const std::map<std::string, const LinkSpec*, std::less<>>& link_index() {
  static const auto index = [] {
    std::map<std::string, const LinkSpec*, std::less<>> names;
    const auto add = [&](const std::string& name, const LinkSpec& link) {
      const auto [found, added] = names.emplace(link_key(name), &link);
      check(added || found->second == &link, "two links in the catalogue are called " + name);
    };
    for (const LinkSpec& link : link_catalogue()) {
      add(link.id, link);
      add(link.name, link);
      for (const std::string& alias : link.aliases) add(alias, link);
    }
    return names;
  }();
  return index;
}

}  // namespace

const LinkSpec* find_link(std::string_view name) {
  if (name.size() > kMaxLinkName) return nullptr;
  const auto found = link_index().find(link_key(name));
  return found == link_index().end() ? nullptr : found->second;
}

const LinkSpec& require_link(std::string_view name) {
  if (const LinkSpec* link = find_link(name)) return *link;
  const std::string key = link_key(name);
  std::vector<std::string> meant, ids;
  for (const LinkSpec& link : link_catalogue()) {
    ids.push_back(link.id);
    if (!key.empty() && link_key(link.id + link.name).find(key) != std::string::npos) meant.push_back(link.id);
  }
  if (meant.empty()) {
    std::vector<std::string> known;
    for (const auto& [each, link] : link_index()) known.push_back(each);
    if (const auto close = nearest(key, known)) meant.push_back(link_index().find(*close)->second->id);
  }
  throw UserError(meant.empty()
                      ? fmt::format("unknown link {}; allowed: {}", in_quotes(name), fmt::join(ids, ", "))
                      : fmt::format("unknown link {}; did you mean {}? 'plimsoll gpus --links' lists all links",
                                    in_quotes(name), fmt::join(meant, ", ")));
}

const LinkSpec& require_link(std::string_view name, const DeviceSpec& device) {
  const std::string key = link_key(name);
  const bool own_nvlink = device.peer_link.starts_with("nvlink");
  if (key == "nvlink" || key == "bridge" || key == "nvlinkbridge") {
    if (key != "nvlink" && device.bridge.empty())
      throw UserError(
          fmt::format("{} has no NVLink bridge; allowed: its usual link, {}, or another id of "
                      "'plimsoll gpus --links'",
                      device.name, device.peer_link));
    if (!device.bridge.empty()) return require_link(device.bridge);
    if (own_nvlink) return require_link(device.peer_link);
    throw UserError(
        fmt::format("{} has no NVLink; allowed: its usual link, {}, or another id of 'plimsoll gpus "
                    "--links'",
                    device.name, device.peer_link));
  }
  // "nvlink3" of an RTX A6000 is its bridge of that generation, which is slower than the NVLink 3 of an A100.
  if (key.size() == std::string_view("nvlink3").size() && !device.bridge.empty() && device.bridge.starts_with(key))
    return require_link(device.bridge);
  return require_link(name);
}

}  // namespace plimsoll
