#include "base/json.h"

#include <fmt/format.h>

#include <set>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "base/text.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr int kMaxDepth = 16;

UserError refused(const std::string& name, const std::string& why) {
  return UserError(without_controls(fmt::format("{} {}", name, why)), UserError::Kind::failure);
}

}  // namespace

nlohmann::json parse_json_object(std::string_view text, const std::string& name) {
  using nlohmann::json;
  // The parser would silently keep the last of two equal keys.
  std::vector<std::set<std::string>> keys;
  const json::parser_callback_t watch = [&](int depth, json::parse_event_t event, json& parsed) {
    if (depth > kMaxDepth) throw refused(name, fmt::format("is nested deeper than {} levels", kMaxDepth));
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second)
      throw refused(name, fmt::format("has the key {} twice", in_quotes(parsed.get<std::string>())));
    return true;
  };
  json parsed;
  try {
    parsed = json::parse(text, watch);
  } catch (const json::parse_error& error) {
    throw refused(name, fmt::format("is not valid JSON at byte {}", error.byte));
  } catch (const json::exception& error) {  // a number beyond the range of double
    throw refused(name, fmt::format("is not JSON that can be read: {}", one_line(error.what())));
  }
  if (!parsed.is_object()) throw refused(name, "is no JSON object");
  return parsed;
}

namespace {

std::string_view text_of(const MappedFile& file, const std::filesystem::path& path, int64_t max_bytes) {
  if (file.size() > max_bytes)
    throw refused(path.string(), fmt::format("has {}, more than the {} that such a file may have",
                                             format_bytes(file.size()), format_bytes(max_bytes)));
  return without_byte_order_mark({reinterpret_cast<const char*>(file.data()), static_cast<size_t>(file.size())});
}

std::string without_python_floats(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  bool in_string = false;
  for (size_t i = 0; i < text.size();) {
    if (in_string && text[i] == '\\') {
      plain += text.substr(i, 2);
      i += 2;
      continue;
    }
    if (text[i] == '"') in_string = !in_string;
    std::string_view word;
    for (const std::string_view each : {"NaN", "Infinity", "-Infinity"})
      if (!in_string && text.substr(i).starts_with(each)) word = each;
    if (word.empty()) {
      plain += text[i++];
      continue;
    }
    plain += fmt::format(R"({{"__float__": "{}"}})", word);
    i += word.size();
  }
  return plain;
}

}  // namespace

nlohmann::json read_json_file(const std::filesystem::path& path, int64_t max_bytes,
                              const std::function<void(std::string_view text)>& look) {
  const MappedFile file = MappedFile::open(path);
  const std::string_view text = text_of(file, path, max_bytes);
  nlohmann::json parsed = parse_json_object(text, path.string());
  if (look) look(text);
  file.require_whole();
  return parsed;
}

nlohmann::json read_python_json_file(const std::filesystem::path& path, int64_t max_bytes) {
  const MappedFile file = MappedFile::open(path);
  const std::string text = without_python_floats(text_of(file, path, max_bytes));
  file.require_whole();
  return parse_json_object(text, path.string());
}

}  // namespace plimsoll
