#include "data/text/text_steps.h"

#include <array>

#include "base/json.h"
#include "base/text.h"
#include "data/text/split_pattern.h"

namespace plimsoll {
namespace {

constexpr size_t kMaxTextLength = 4096;  // maximum bytes of inserted or searched text
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

/// Returns true for a Chinese character of BERT, which is a separate word (as in BERT's tokenizer of the tokenizers
/// package).
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

using Change = std::function<std::string(const std::string& text)>;

/// A step whose result is at most 11 times its text (NFKD of U+FDFA), so its growth may be counted afterwards.
Normalizer counted(std::string step, Change change) {
  return [step = std::move(step), change = std::move(change)](const std::string& text, NormalizedRoom& room) {
    std::string made = change(text);
    if (made.size() > text.size()) room.take(made.size() - text.size(), step);
    return made;
  };
}

Change bert(const JsonFields& fields) {
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

/// A text in which a pattern's matches are replaced. Growth is counted before a replacement is inserted.
class Replacement {
 public:
  Replacement(const std::string& text, const std::string& by, const std::string& step, NormalizedRoom& room)
      : text_(text), by_(by), step_(step), room_(room) {}

  void replace(size_t begin, size_t end) {
    if (by_.size() > end - begin) room_.take(by_.size() - (end - begin), step_);
    made_.append(text_, at_, begin - at_).append(by_);
    at_ = end;
  }
  std::string result() { return std::move(made_.append(text_, at_)); }

 private:
  const std::string &text_, &by_, &step_;
  NormalizedRoom& room_;
  std::string made_;
  size_t at_ = 0;
};

std::string bounded(const JsonFields& fields, const char* key) {
  std::string text = fields.text(key);
  if (text.size() > kMaxTextLength)
    fields.refuse(fmt::format("{} has {} bytes; at most {}", key, text.size(), kMaxTextLength));
  return text;
}

Normalizer replace(const JsonFields& fields, StepTraits& traits, const std::string& step) {
  const JsonFields pattern(fields.at("pattern"), fields.name());
  const std::string by = bounded(fields, "content");
  if (!pattern.at("Regex").is_null()) {
    traits.can_be_cut = false;
    const auto regex = std::make_shared<SplitPattern>(pattern.text("Regex"), fields.name());
    return [=](const std::string& text, NormalizedRoom& room) {
      Replacement made(text, by, step, room);
      regex->each_match(text, [&](size_t begin, size_t end) { made.replace(begin, end); });
      return made.result();
    };
  }
  const std::string what = bounded(pattern, "String");
  if (what.empty()) fields.refuse("a Replace looks for an empty text");
  if (what == " " && by == kLowLine)
    traits.replaces_spaces = true;
  else if (what.find(' ') != std::string::npos || by.find(' ') != std::string::npos)
    traits.can_be_cut = false;
  return [=](const std::string& text, NormalizedRoom& room) {
    Replacement made(text, by, step, room);
    each_occurrence(text, what, [&](size_t begin, size_t end) { made.replace(begin, end); });
    return made.result();
  };
}

class NormalizerReader {
 public:
  NormalizerReader(const std::string& name, StepTraits& traits) : name_(name + ": normalizer"), traits_(traits) {}

  Normalizer read(const nlohmann::json& json, int depth = 0) {
    const JsonFields fields(json, name_);
    if (++steps_ > kMaxTextSteps) fields.refuse(fmt::format("it has more than {} steps", kMaxTextSteps));
    const std::string type = fields.text("type"), step = fmt::format("{} {}", name_, one_line(type));
    if (type == "Sequence" && depth < kMaxSequenceDepth) return sequence(fields, depth);
    if (type == "NFC" || type == "NFD" || type == "NFKC" || type == "NFKD") {
      // A character that is compatible with a space becomes a space, and joins the spaces next to it.
      if (type.starts_with("NFK") && traits_.replaces_spaces) traits_.can_be_cut = false;
      return counted(step, [type](const std::string& text) { return normal_form(text, type); });
    }
    if (type == "Lowercase") return counted(step, [](const std::string& text) { return lower_case(text); });
    if (type == "StripAccents") return counted(step, without_marks);
    if (type == "BertNormalizer") return counted(step, bert(fields));
    if (type == "Replace") return replace(fields, traits_, step);
    if (type == "Prepend") {
      traits_.can_be_cut = false;  // the prefix is added to every given text
      return [front = bounded(fields, "prepend"), step](const std::string& text, NormalizedRoom& room) {
        if (text.empty()) return text;
        room.take(front.size(), step);
        return front + text;
      };
    }
    if (type == "Strip") {
      traits_.can_be_cut = false;
      const bool left = fields.boolean("strip_left", true), right = fields.boolean("strip_right", true);
      return counted(step, [=](const std::string& text) { return stripped(text, left, right); });
    }
    fields.refuse_value("type",
                        "known are NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, Prepend, Replace, "
                        "BertNormalizer, Sequence");
  }

 private:
  static constexpr int kMaxSequenceDepth = 8;

  Normalizer sequence(const JsonFields& fields, int depth) {
    std::vector<Normalizer> all;
    for (const nlohmann::json& each : fields.list("normalizers", kMaxTextSteps)) all.push_back(read(each, depth + 1));
    return [all](std::string text, NormalizedRoom& room) {
      for (const Normalizer& each : all) text = each(std::move(text), room);
      return text;
    };
  }

  std::string name_;
  StepTraits& traits_;
  size_t steps_ = 0;
};

}  // namespace

void NormalizedRoom::refuse(const std::string& step) const {
  throw UserError(fmt::format("{} adds too much to a text of {}: all normalizers together may add {} times its bytes "
                              "and {}; use a tokenizer.json whose normalizers add less",
                              step, format_bytes(static_cast<int64_t>(text_bytes_)), kGrowth,
                              format_bytes(static_cast<int64_t>(kSpare))),
                  UserError::Kind::failure);
}

Normalizer read_normalizer(const nlohmann::json& json, const std::string& name, StepTraits& traits) {
  if (json.is_null()) return [](std::string text, NormalizedRoom&) { return text; };
  return NormalizerReader(name, traits).read(json);
}

}  // namespace plimsoll
