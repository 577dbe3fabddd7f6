#include "weights/config_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/quoted.h"
#include "plimsoll/error.h"

namespace plimsoll::weights {

const nlohmann::json& ConfigReader::at(const std::string& key) const {
  static const nlohmann::json none;
  const auto found = json_.find(key);
  return found == json_.end() ? none : *found;
}

bool ConfigReader::has(const std::string& key) const {
  return !at(key).is_null();
}

bool ConfigReader::is_null(const char* key) const {
  return json_.contains(key) && at(key).is_null();
}

void ConfigReader::refuse_whole(const std::string& what) const {
  throw UserError(fmt::format("{}: {}", file_, what), UserError::Kind::failure);
}

std::string ConfigReader::text_of(const std::string& key) const {
  // Invalid UTF-8 is replaced instead of throwing: the message may show it.
  if (at(key).is_null()) return "missing";
  return one_line(at(key).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

void ConfigReader::refuse(const std::string& key, const std::string& what) const {
  refuse_whole(fmt::format("{}{} is {}; {}", section_, one_line(key), text_of(key), what));
}

std::vector<std::string> ConfigReader::keys() const {
  std::vector<std::string> all;
  for (const auto& [key, value] : json_.items()) all.push_back(key);
  return all;
}

bool ConfigReader::states_nothing(const std::string& key) const {
  const nlohmann::json& value = at(key);
  return value.is_null() || value == false || value == "" || (value.is_structured() && value.empty());
}

bool ConfigReader::has_same(const std::string& key, const ConfigReader& other, const std::string& other_key) const {
  return at(key) == other.at(other_key);
}

bool ConfigReader::is(const std::string& key, std::string_view json) const {
  return at(key) == nlohmann::json::parse(json);
}

int64_t ConfigReader::integer(const char* key, int64_t min, int64_t max, std::optional<int64_t> fallback) const {
  if (!has(key) && fallback) return *fallback;
  const nlohmann::json& value = at(key);
  const bool fits = value.is_number_unsigned() ? value.get<uint64_t>() <= static_cast<uint64_t>(max)
                                               : value.is_number_integer() && value.get<int64_t>() <= max;
  if (!fits || value.get<int64_t>() < min)
    refuse(key, fmt::format("it must be a whole number from {} to {}", min, max));
  return value.get<int64_t>();
}

double ConfigReader::number(const char* key, double fallback, bool positive) const {
  if (!has(key)) return fallback;
  const nlohmann::json& value = at(key);
  const double number = value.is_number() ? value.get<double>() : -1;
  if (!std::isfinite(number) || number < 0 || (positive && number == 0))
    refuse(key, positive ? "it must be a number above 0" : "it must be a number that is not negative");
  return number;
}

bool ConfigReader::boolean(const char* key, bool fallback) const {
  if (!has(key)) return fallback;
  if (!at(key).is_boolean()) refuse(key, "it must be true or false");
  return at(key).get<bool>();
}

std::string ConfigReader::word(const char* key, const std::vector<std::string>& allowed,
                               const std::string& fallback) const {
  if (!has(key)) return fallback;
  if (!at(key).is_string() || std::ranges::find(allowed, at(key).get<std::string>()) == allowed.end())
    refuse(key, fmt::format("known are {}", fmt::join(allowed, ", ")));
  return at(key).get<std::string>();
}

ConfigReader ConfigReader::object(const char* key) const {
  static const nlohmann::json empty = nlohmann::json::object();
  if (!has(key)) return {empty, file_, section_};
  if (!at(key).is_object()) refuse(key, "it must be an object");
  return {at(key), file_, section_ + key + "."};
}

std::vector<double> ConfigReader::numbers(const char* key, size_t count, std::vector<double> fallback) const {
  if (!has(key)) return fallback;
  const nlohmann::json& list = at(key);
  std::vector<double> all;
  if (list.is_array() && list.size() == count)
    for (const nlohmann::json& each : list) {
      if (each.is_number()) {
        all.push_back(each.get<double>());
      } else if (each.is_object() && each.size() == 1 && each.contains("__float__") &&
                 each.at("__float__") == "Infinity") {
        all.push_back(std::numeric_limits<double>::infinity());
      }
    }
  if (all.size() != count || std::ranges::any_of(all, [](double each) { return std::isnan(each); }))
    refuse(key, fmt::format("it must be a list of {} numbers", count));
  return all;
}

std::vector<std::string> ConfigReader::words(const char* key, size_t max) const {
  if (!has(key)) return {};
  const nlohmann::json& value = at(key);
  if (!value.is_array() || value.size() > max ||
      !std::ranges::all_of(value, [](const nlohmann::json& each) { return each.is_string(); }))
    refuse(key, fmt::format("it must be a list of at most {} words", max));
  return value.get<std::vector<std::string>>();
}

}  // namespace plimsoll::weights
