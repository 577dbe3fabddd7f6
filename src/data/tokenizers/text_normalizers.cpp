#include <array>

#include "base/json_fields.h"
#include "base/unicode_text.h"
#include "data/tokenizers/split_pattern.h"
#include "data/tokenizers/text_steps.h"

namespace plimsoll {
namespace {

constexpr size_t kLongestText = 4096;  // of what is put in or looked for
constexpr int32_t kTab = '\t', kLineFeed = '\n', kReturn = '\r', kReplacement = 0xfffd;

template <typename Visit>
std::string each_character(const std::string& text, Visit&& visit) {
  std::string made;
  made.reserve(text.size());
  for (std::string_view rest = text; !rest.empty();) {
    const Character first = first_character(rest);
    visit(first.code, made);
    rest.remove_prefix(first.bytes);
  }
  return made;
}

std::string without_marks(const std::string& text) {
  return each_character(text, [](int32_t code, std::string& made) {
    if (!is_mark(code)) append_character(code, made);
  });
}

/// BERT's Chinese characters, each a word of its own (as its tokenizer in tokenizers has them).
bool is_chinese(int32_t code) {
  constexpr std::array<std::pair<int32_t, int32_t>, 8> ranges = {{{0x4e00, 0x9fff},
                                                                  {0x3400, 0x4dbf},
                                                                  {0x20000, 0x2a6df},
                                                                  {0x2a700, 0x2b73f},
                                                                  {0x2b740, 0x2b81f},
                                                                  {0x2b920, 0x2ceaf},
                                                                  {0xf900, 0xfaff},
                                                                  {0x2f800, 0x2fa1f}}};
  for (const auto& [first, last] : ranges)
    if (code >= first && code <= last) return true;
  return false;
}

std::string cleaned(const std::string& text) {
  return each_character(text, [](int32_t code, std::string& made) {
    const bool blank = code == kTab || code == kLineFeed || code == kReturn;
    if (code == kReplacement || (!blank && is_control(code))) return;  // other controls, white space or not
    if (is_white_space(code))
      made.push_back(' ');
    else
      append_character(code, made);
  });
}

std::string spaced_chinese(const std::string& text) {
  return each_character(text, [](int32_t code, std::string& made) {
    if (is_chinese(code)) made.push_back(' ');
    append_character(code, made);
    if (is_chinese(code)) made.push_back(' ');
  });
}

Normalizer bert(const JsonFields& fields) {
  const bool clean = fields.boolean("clean_text", true), chinese = fields.boolean("handle_chinese_chars", true);
  const bool lower = fields.boolean("lowercase", true), strip = fields.boolean("strip_accents", lower);
  return [=](std::string text) {
    if (clean) text = cleaned(text);
    if (chinese) text = spaced_chinese(text);
    if (strip) text = without_marks(normal_form(text, "NFD"));
    return lower ? lower_case(text) : text;
  };
}

std::string stripped(const std::string& text, bool left, bool right) {
  size_t begin = 0, end = 0, at = 0;
  bool seen = false;
  for (std::string_view rest = text; !rest.empty();) {
    const Character first = first_character(rest);
    if (!is_white_space(first.code)) {
      if (!seen) begin = at;
      seen = true;
      end = at + first.bytes;
    }
    at += first.bytes;
    rest.remove_prefix(first.bytes);
  }
  if (!seen) begin = left ? text.size() : 0;
  if (!left) begin = 0;
  if (!right) end = text.size();
  return end > begin ? text.substr(begin, end - begin) : std::string();
}

std::string replaced(const std::string& text, const std::string& what, const std::string& by) {
  std::string made;
  size_t at = 0;
  for (size_t found; (found = text.find(what, at)) != std::string::npos; at = found + what.size())
    made.append(text, at, found - at).append(by);
  return made.append(text, at);
}

std::string bounded(const JsonFields& fields, const char* key) {
  std::string text = fields.text(key);
  if (text.size() > kLongestText)
    fields.refuse(fmt::format("{} has {} bytes; at most {}", key, text.size(), kLongestText));
  return text;
}

Normalizer replace(const JsonFields& fields, StepTraits& traits) {
  const JsonFields pattern(fields.at("pattern"), fields.name());
  const std::string by = bounded(fields, "content");
  if (!pattern.at("Regex").is_null()) {
    traits.can_be_cut = false;
    const auto regex = std::make_shared<SplitPattern>(pattern.text("Regex"), fields.name());
    return [=](const std::string& text) {
      std::string made;
      size_t at = 0;
      regex->each_match(text, [&](size_t begin, size_t end) {
        made.append(text, at, begin - at).append(by);
        at = end;
      });
      return made.append(text, at);
    };
  }
  const std::string what = bounded(pattern, "String");
  if (what.empty()) fields.refuse("a Replace looks for an empty text");
  if (what == " " && by == kLowLine)
    traits.replaces_spaces = true;
  else if (what.find(' ') != std::string::npos || by.find(' ') != std::string::npos)
    traits.can_be_cut = false;
  return [=](const std::string& text) { return replaced(text, what, by); };
}

Normalizer read_normalizer_step(const nlohmann::json& json, const std::string& name, StepTraits& traits, int depth);

Normalizer sequence(const JsonFields& fields, StepTraits& traits, int depth) {
  std::vector<Normalizer> all;
  for (const nlohmann::json& each : fields.list("normalizers", kMostSteps))
    all.push_back(read_normalizer_step(each, fields.name(), traits, depth + 1));
  return [all](std::string text) {
    for (const Normalizer& each : all) text = each(std::move(text));
    return text;
  };
}

Normalizer read_normalizer_step(const nlohmann::json& json, const std::string& name, StepTraits& traits, int depth) {
  const JsonFields fields(json, name + ": normalizer");
  const std::string type = fields.text("type");
  if (type == "Sequence" && depth < 8) return sequence(JsonFields(json, name), traits, depth);
  if (type == "NFC" || type == "NFD" || type == "NFKC" || type == "NFKD") {
    // What is compatible with a space becomes one, beside what it stands beside.
    if (type.starts_with("NFK") && traits.replaces_spaces) traits.can_be_cut = false;
    return [type](const std::string& text) { return normal_form(text, type); };
  }
  if (type == "Lowercase") return [](const std::string& text) { return lower_case(text); };
  if (type == "StripAccents") return [](const std::string& text) { return without_marks(text); };
  if (type == "BertNormalizer") return bert(fields);
  if (type == "Replace") return replace(fields, traits);
  if (type == "Prepend") {
    traits.can_be_cut = false;  // every text that is given begins with it
    return [front = bounded(fields, "prepend")](const std::string& text) { return text.empty() ? text : front + text; };
  }
  if (type == "Strip") {
    traits.can_be_cut = false;
    const bool left = fields.boolean("strip_left", true), right = fields.boolean("strip_right", true);
    return [=](const std::string& text) { return stripped(text, left, right); };
  }
  fields.refuse_value("type",
                      "known are NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, Prepend, Replace, "
                      "BertNormalizer, Sequence");
}

}  // namespace

Normalizer read_normalizer(const nlohmann::json& json, const std::string& name, StepTraits& traits) {
  if (json.is_null()) return [](std::string text) { return text; };
  return read_normalizer_step(json, name, traits, 0);
}

}  // namespace plimsoll
