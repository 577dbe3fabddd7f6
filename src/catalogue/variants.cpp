#include "catalogue/variants.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <string>

#include "plimsoll/bytes.h"

namespace plimsoll::catalogue {
namespace {

/// Form factors of a data center's card, as the ids write them: a digit may follow ("sxm4").
constexpr std::array<std::string_view, 3> kForms = {"sxm", "pcie", "nvl"};

bool is_digit(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}

bool is_size(std::string_view word) {
  return word.size() > 2 && word.ends_with("gb") && std::all_of(word.begin(), word.end() - 2, is_digit);
}

/// Returns "sxm" for "sxm4"; "" if the word is not a form factor.
std::string_view form_of(std::string_view word) {
  for (const std::string_view form : kForms)
    if (word.starts_with(form) &&
        std::all_of(word.begin() + static_cast<std::ptrdiff_t>(form.size()), word.end(), is_digit))
      return form;
  return "";
}

/// Parts of a name: "a100-40gb-sxm" has a family, and the properties that distinguish its members.
struct Name {
  std::string family;     ///< "a100"
  std::string_view size;  ///< "40gb"; empty: not given
  std::string_view form;  ///< "sxm"; empty: not given
};

Name parts_of(std::string_view name) {
  Name parts;
  while (!name.empty()) {
    const std::string_view word = name.substr(0, name.find('-'));
    name.remove_prefix(std::min(name.size(), word.size() + 1));
    if (is_size(word))
      parts.size = word;
    else if (const std::string_view form = form_of(word); !form.empty())
      parts.form = form;
    else
      parts.family += word;
  }
  return parts;
}

bool same_to_a_plan(const DeviceSpec& a, const DeviceSpec& b) {
  const auto figures = [](const DeviceSpec& each) {
    const DenseRates& rates = each.rates;
    return std::array{static_cast<double>(each.usable_bytes),
                      static_cast<double>(each.context_bytes),
                      static_cast<double>(each.library_workspace_bytes),
                      each.memory_bandwidth,
                      each.host_link,
                      each.launch_seconds,
                      rates.fp32,
                      rates.tf32,
                      rates.fp16,
                      rates.bf16,
                      rates.fp8,
                      rates.int8};
  };
  return a.device == b.device && figures(a) == figures(b);
}

}  // namespace

std::vector<const DeviceSpec*> variants_called(const DeviceSpec& device, std::string_view alias) {
  const Name family = parts_of(device.id), requested = parts_of(alias);
  std::vector<const DeviceSpec*> found;
  for (const DeviceSpec& each : device_catalogue()) {
    const Name name = parts_of(each.id);
    if (name.family != family.family || (!requested.form.empty() && name.form != requested.form)) continue;
    // An id without a size still has one memory size.
    if (!requested.size.empty() && requested.size != std::to_string(each.memory_bytes / GiB) + "gb") continue;
    found.push_back(&each);
  }
  if (std::ranges::all_of(found, [&](const DeviceSpec* each) { return same_to_a_plan(*each, device); }))
    return {&device};
  return found;
}

}  // namespace plimsoll::catalogue
