#include "cli/unexpected_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "base/quoted.h"
#include "plimsoll/devices.h"
#include "plimsoll/error.h"
#include "plimsoll/job.h"

namespace plimsoll::cli {
namespace {

bool is_file(const std::string& word) {
  std::error_code error;
  return std::filesystem::is_regular_file(word, error);
}

bool is_yaml(const std::string& word) {
  return word.ends_with(".yaml") || word.ends_with(".yml");
}

bool is_override(const std::string& word) {
  const size_t equals = word.find('=');
  return equals != std::string::npos && equals > 0;
}

/// Returns the probable meaning of words[at]; "" if there is none.
std::string advice_for(const std::string& file, const std::vector<std::string>& words, size_t at) {
  const std::string& word = words[at];
  const std::string next = at + 1 < words.size() ? words[at + 1] : "";
  if (is_yaml(word) || is_file(word))
    return fmt::format("the job file is {}, and there is one at a time", in_quotes(file));
  if (word == "true" || word == "false") return "a flag takes no value: leave it out";
  // "memory_budget 4GiB", "memory_budget = 4GiB", "memory_budget =4GiB", "memory_budget= 4GiB", of which 4GiB remains,
  // and the syntax of the job file: "memory_budget: 4GiB", in one word or two
  const size_t colon = std::min(word.find(':'), word.size());
  if (const std::string key = word.substr(0, colon); names_a_key(key)) {
    std::string value = word.substr(std::min(word.find_first_not_of(": ", colon), word.size()));
    if (value.empty()) value = next == "=" && at + 2 < words.size() ? words[at + 2] : next;
    if (value.starts_with('=')) value.erase(0, 1);
    if (value.empty() || is_override(value)) value = "VALUE";
    const std::string written = fmt::format("{}={}", suggest_keys(key).front(), value);
    return "write " + (written.find(' ') == std::string::npos ? one_line(written) : in_quotes(written));
  }
  if (find_device(word) != nullptr)
    return fmt::format("several devices stand in one word, with commas: --gpu NAME,{}", one_line(word));
  if (at > 0 && is_override(words[at - 1])) {
    const std::string joined = words[at - 1] + (words[at - 1].ends_with('=') ? "" : " ") + word;
    return fmt::format("a value with a space stands in quotes: {}", in_quotes(joined));
  }
  return "";
}

}  // namespace

void reject_unexpected_arguments(const std::string& file, const std::vector<std::string>& overrides) {
  if (is_override(file) && !is_file(file) && !is_yaml(file)) {
    const auto meant =
        std::ranges::find_if(overrides, [](const std::string& word) { return is_yaml(word) || is_file(word); });
    throw UserError(fmt::format("the job file comes before {}: {}", in_quotes(file),
                                meant == overrides.end()
                                    ? "plimsoll COMMAND JOB.yaml KEY=VALUE"
                                    : fmt::format("plimsoll COMMAND {} {}", one_line(*meant), one_line(file))));
  }
  for (size_t at = 0; at < overrides.size(); ++at) {
    if (is_override(overrides[at])) continue;
    const std::string advice = advice_for(file, overrides, at);
    throw UserError(fmt::format("command line: {} is not an override; {}", in_quotes(overrides[at]),
                                advice.empty() ? "write key.path=value, for example optimizer.name=sgd" : advice));
  }
}

}  // namespace plimsoll::cli
