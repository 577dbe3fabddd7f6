#include "data/text/split_pattern.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/measurement.h"
#include "base/text.h"
#include "plimsoll/bytes.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

constexpr size_t kMaxSplitPatternLength = 16384;
constexpr uint32_t kMaxSteps = 10'000'000;    // steps of any attempt; a run of n spaces takes up to n in Llama 3's
                                              // pattern
constexpr uint32_t kMaxHeapKib = 256 * 1024;  // heap of the interpreter
// Steps of an attempt that is not timed. A step may scan the whole text, so a long text gets fewer steps.
constexpr uint32_t kMinQuickSteps = 32, kMaxQuickSteps = 2'000;
constexpr size_t kMaxQuickBytes = size_t{1} << 28;
// An attempt with too few steps is repeated with this factor more, after a check of the time. So the last attempt takes
// at most about this factor longer than the attempts before it.
constexpr uint32_t kMoreSteps = 2;
constexpr size_t kMaxStarts = 64;                // positions at which one timed attempt may begin
constexpr size_t kMaxScanned = size_t{1} << 31;  // bytes that a timed attempt scans, if each step scans a whole text

constexpr double kSpareSeconds = 1, kSecondsPerByte = 1e-6;

UserError refused(const std::string& name, const std::string& why) {
  return UserError(fmt::format("{}: {}", name, why), UserError::Kind::failure);
}

uint32_t quick_steps(size_t text_bytes) {
  return static_cast<uint32_t>(std::clamp<size_t>(kMaxQuickBytes / (text_bytes + 1), kMinQuickSteps, kMaxQuickSteps));
}

void set_steps(pcre2_match_context* context, uint32_t steps) {
  pcre2_set_match_limit(context, steps);
  pcre2_set_depth_limit(context, steps);
}

/// Writes \s out as Unicode's White_Space: PCRE2's \s also has U+180E.
std::string in_pcre2_words(const std::string& pattern, const std::string& name) {
  constexpr std::string_view white =
      "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}";
  std::string made;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (!in_class && pattern.compare(i, 2, "(*") == 0)
      throw refused(name, fmt::format("the pattern {} has a verb (*, which is not known here", in_quotes(pattern)));
    if (c == '\\' && i + 1 < pattern.size()) {
      const char what = pattern[++i];
      if (what == 'C' || what == 'G')
        throw refused(name,
                      fmt::format("the pattern {} has \\{}, which is not allowed here", in_quotes(pattern), what));
      if (what == 's') {
        made += in_class ? std::string(white) : fmt::format("[{}]", white);
      } else if (what == 'S' && !in_class) {
        made += fmt::format("[^{}]", white);
      } else {
        made += c;
        made += what;
      }
      continue;
    }
    if (in_class && pattern.compare(i, 2, "&&") == 0)
      throw refused(name,
                    fmt::format("the pattern {} has a class with &&, which is not known here", in_quotes(pattern)));
    if (c == '[' && in_class && pattern.compare(i, 2, "[:") != 0)
      throw refused(name,
                    fmt::format("the pattern {} has a class in a class, which is not known here", in_quotes(pattern)));
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    made += c;
  }
  return made;
}

}  // namespace

struct SplitPattern::Compiled {
  std::string shown;  // the pattern as shown in messages
  Pcre2Code code;
  Pcre2Match match;
  Pcre2MatchContext quick, thorough;
  double seconds = 0;  // total of the timed attempts
  double bytes = 0;    // total of all texts before this one
  double tick = coarse_seconds();
  double processor_seconds = thread_seconds();  // at that tick

  int attempt(std::string_view text, size_t at, size_t last_start, pcre2_match_context* context, uint32_t options) {
    pcre2_set_offset_limit(context, last_start);
    return pcre2_match(code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                       PCRE2_NO_UTF_CHECK | options, match.get(), context);
  }
  /// Makes a timed attempt.
  int timed(std::string_view text, size_t at, size_t last_start, pcre2_match_context* context) {
    const double begin = thread_seconds();
    int result = attempt(text, at, last_start, context, 0);
    if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = attempt(text, at, last_start, context, PCRE2_NO_JIT);
    seconds += thread_seconds() - begin;
    return result;
  }
  /// Makes an attempt timed by the ticks of a coarse clock. An attempt shorter than a tick counts as one tick with a
  /// probability in proportion to its length, so the sum over many short attempts is right. Other work on the machine
  /// counts only for the part of this thread.
  int sampled(std::string_view text, size_t at, pcre2_match_context* context) {
    if (coarse_seconds() != tick) see_tick();
    const int result = attempt(text, at, at, context, 0);
    if (coarse_seconds() != tick) {
      const double tick_before = tick, processor_before = processor_seconds;
      see_tick();
      // The thread may have changed: its processor time does not continue that of the last one.
      seconds += std::clamp(processor_seconds - processor_before, 0.0, tick - tick_before);
    }
    return result;
  }
  void see_tick() {
    tick = coarse_seconds();
    processor_seconds = thread_seconds();
  }
  static double coarse_seconds() { return clock_seconds(CLOCK_MONOTONIC_COARSE); }
};

SplitPattern::SplitPattern(const std::string& pattern, std::string name)
    : name_(std::move(name)), compiled_(std::make_unique<Compiled>()) {
  if (pattern.empty() || pattern.size() > kMaxSplitPatternLength)
    throw refused(name_,
                  fmt::format("a pattern has {} bytes; allowed are 1 to {}", pattern.size(), kMaxSplitPatternLength));
  const std::string words = in_pcre2_words(pattern, name_);
  Compiled& compiled = *compiled_;
  compiled.shown = in_quotes(pattern);
  int error = 0;
  PCRE2_SIZE at = 0;
  compiled.code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(words.data()), words.size(),
                                    PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | PCRE2_USE_OFFSET_LIMIT, &error,
                                    &at, nullptr));
  if (!compiled.code)
    throw refused(name_,
                  fmt::format("the pattern {} is none that PCRE2 knows: {}", compiled.shown, pcre2_error_text(error)));
  pcre2_jit_compile(compiled.code.get(), PCRE2_JIT_COMPLETE);  // without JIT, matching is slower and has the same
                                                               // results
  compiled.match.reset(pcre2_match_data_create_from_pattern(compiled.code.get(), nullptr));
  compiled.quick.reset(pcre2_match_context_create(nullptr));
  compiled.thorough.reset(pcre2_match_context_create(nullptr));
  check(compiled.match && compiled.quick && compiled.thorough, "no memory for PCRE2's match data");
  for (pcre2_match_context* each : {compiled.quick.get(), compiled.thorough.get()})
    pcre2_set_heap_limit(each, kMaxHeapKib);
}

SplitPattern::~SplitPattern() = default;
SplitPattern::SplitPattern(SplitPattern&&) noexcept = default;

/// Finds the next match from `at` on. Returns true if there is one; PCRE2's match data then has it.
///
/// PCRE2 limits the steps of one attempt at one position. It limits neither the positions nor the bytes that a step
/// scans. The first attempt is therefore at one position and short: published patterns match there. Any other attempt
/// is timed, begins at a bounded number of positions, and has few steps first and more after each check of its time.
bool SplitPattern::next_match(std::string_view text, size_t at) const {
  Compiled& compiled = *compiled_;
  const auto watch = [&] {
    // Bytes that are matched: a position at which the pattern goes no further has the remaining seconds.
    if (compiled.seconds > kSpareSeconds + kSecondsPerByte * (compiled.bytes + static_cast<double>(at)))
      throw refused(name_, fmt::format("the pattern {} cannot be matched: it takes more than {:.1f} seconds for {}; "
                                       "use a pattern that takes less",
                                       compiled.shown, compiled.seconds,
                                       format_bytes(static_cast<int64_t>(compiled.bytes) + std::ssize(text))));
  };
  int result = compiled.sampled(text, at, compiled.quick.get());
  watch();
  uint32_t steps = quick_steps(text.size());
  while (result < 0) {
    set_steps(compiled.thorough.get(), steps);
    const size_t starts =
        steps < kMaxQuickSteps ? 1 : std::clamp<size_t>(kMaxScanned / (text.size() + 1), 1, kMaxStarts);
    size_t last = std::min(at + starts, text.size());
    while (last < text.size() && (static_cast<unsigned char>(text[last]) & 0xc0u) == 0x80u) ++last;
    result = compiled.timed(text, at, last, compiled.thorough.get());
    watch();
    if (result >= 0) break;
    if ((result == PCRE2_ERROR_MATCHLIMIT || result == PCRE2_ERROR_DEPTHLIMIT) && steps < kMaxSteps) {
      steps = std::min(kMaxSteps, steps * kMoreSteps);
      continue;
    }
    if (result != PCRE2_ERROR_NOMATCH)
      throw refused(name_, fmt::format("the pattern {} cannot be matched: {}; use a pattern that takes less",
                                       compiled.shown, pcre2_error_text(result)));
    if (last == text.size()) return false;
    at = last;  // tried twice, so that a position between two windows is not missed
  }
  const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(compiled.match.get());
  // \K in a lookahead may end a match before it begins.
  if (ends[1] < ends[0] || ends[0] < at) throw refused(name_, "a pattern's match ends before it begins");
  return true;
}

void SplitPattern::each_match(std::string_view text, const std::function<void(size_t begin, size_t end)>& visit) const {
  set_steps(compiled_->quick.get(), quick_steps(text.size()));
  for (size_t at = 0; at <= text.size() && next_match(text, at);) {
    const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(compiled_->match.get());
    const size_t begin = ends[0], end = ends[1];
    visit(begin, end);
    if (end > begin)
      at = end;
    else if (end < text.size())
      at = end + first_character(text.substr(end)).bytes;
    else
      break;
  }
  compiled_->bytes += static_cast<double>(text.size());
}

}  // namespace plimsoll
